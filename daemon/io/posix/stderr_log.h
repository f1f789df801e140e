// The log on stderr, one line each: "twinblock: VOLUME/NODE: error: what happened; what to do".
// Under systemd (JOURNAL_STREAM) each line begins with its syslog level, "<3>".
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

#include "io/log.h"

namespace twinblock {

// Any thread logs; a thread of its own writes, since stderr may be a pipe that nobody empties.
class StderrLog final : public Log {
 public:
  // Beyond this many waiting lines new ones are dropped, counted, and the count is logged.
  static constexpr size_t kLinesMax = 1000;

  // `who`: "VOLUME/NODE". `fd`: for tests; not closed.
  explicit StderrLog(const std::string& who, int fd = 2);
  // Writes what waits.
  ~StderrLog() override;
  StderrLog(const StderrLog&) = delete;
  StderrLog& operator=(const StderrLog&) = delete;

  void log(Severity severity, const std::string& line) override;

 private:
  void write_lines();
  [[nodiscard]] std::string format(Severity severity, const std::string& line) const;

  const int fd_;
  const std::string prefix_;
  const bool levels_;
  // Held for moving a line in or out, never while one is written.
  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<std::string> lines_;
  uint64_t dropped_ = 0;
  bool stopping_ = false;
  std::thread writer_;
};

}  // namespace twinblock
