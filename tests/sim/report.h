// What one run tells: the trace, line by line, and the violation that ends it with the command that
// replays it.
#pragma once

#include <cstdint>
#include <string>

namespace twinblock::sim {

class Report {
 public:
  // `replay` is the command that repeats this run.
  static void begin_run(std::string replay, bool verbose);
  static void set_now(uint64_t now_ns);
  [[nodiscard]] static bool verbose();
  // One line of the trace; costs nothing unless verbose() was asked first.
  static void trace(const std::string& who, const std::string& what);
  // An invariant was broken: says which, prints the replay command, and ends the process.
  [[noreturn]] static void violation(const std::string& what);
  // Prints the replay command when the engine itself aborts or crashes.
  static void install_crash_handler();
};

}  // namespace twinblock::sim
