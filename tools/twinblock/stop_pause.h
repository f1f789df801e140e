// Pauses of a program that runs until it is told to stop: SIGTERM and SIGINT end a pause, and nothing
// else, while there is one. One at a time.
#pragma once

#include <signal.h>

#include <cstdint>
#include <initializer_list>

namespace twinblock {

class StopPause {
 public:
  StopPause();
  ~StopPause();
  StopPause(const StopPause&) = delete;
  StopPause& operator=(const StopPause&) = delete;

  // Until one of `fds` is readable (negative ones are nobody's), at most `ns`. False at once when a
  // signal has come since the last pause.
  [[nodiscard]] bool wait(uint64_t ns, std::initializer_list<int> fds);

 private:
  sigset_t before_{};
  int signals_ = -1;
};

}  // namespace twinblock
