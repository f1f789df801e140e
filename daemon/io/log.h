// Log lines. The engine calls log() on the loop thread; an implementation may not block there (it
// hands the line to a thread that may).
#pragma once

#include <string>

namespace twinblock {

enum class Severity { kInfo, kWarning, kError };

class Log {
 public:
  virtual ~Log() = default;
  // One line: what happened and, where there is something to do, what. No trailing newline.
  virtual void log(Severity severity, const std::string& line) = 0;
};

}  // namespace twinblock
