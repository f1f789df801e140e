// What a child process writes, as lines of the log: as long and as many as they may be, without control
// characters; the rest is read, counted, and dropped, so that the child is not held up. One thread.
#pragma once

#include <cstddef>
#include <string>

#include "io/log.h"

namespace twinblock {

class OutputLines {
 public:
  // Lines begin with `prefix`. `log`: as StderrLog, from any thread.
  OutputLines(Log& log, Severity severity, std::string prefix);

  // Reads what there is in `fd`, which does not block, and not for ever. False: it has come to its end.
  bool read_from(int fd);
  // What has no end of line yet is one, and what was dropped is said.
  void finish();

 private:
  void take(char c);
  void end_line();

  Log& log_;
  const Severity severity_;
  const std::string prefix_;
  std::string line_;
  size_t lines_ = 0;
  bool cut_ = false;  // the line is longer than what is kept of it
};

}  // namespace twinblock
