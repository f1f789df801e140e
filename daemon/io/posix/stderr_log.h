// The log on stderr, one line each: "twinblock: VOLUME/NODE: error: what happened; what to do".
// Under systemd (JOURNAL_STREAM) each line begins with its syslog level, "<3>".
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

#include "io/log.h"
#include "io/posix/descriptor.h"

namespace twinblock {

// Any thread logs; a thread of its own writes, since stderr may be a pipe that nobody empties.
class StderrLog final : public Log {
 public:
  // Beyond this many waiting lines new ones are dropped, counted, and the count is logged.
  static constexpr size_t kLinesMax = 1000;

  // `who`: "VOLUME/NODE". `fd`: for tests; not closed.
  explicit StderrLog(const std::string& who, int fd = 2);
  // Writes what waits, and drops what nobody takes within limits::kLogPatience_ns.
  ~StderrLog() override;
  StderrLog(const StderrLog&) = delete;
  StderrLog& operator=(const StderrLog&) = delete;

  void log(Severity severity, const std::string& line) override;

 private:
  void write_lines();
  void write_all(const std::string& text) const;
  [[nodiscard]] bool wait_for_room() const;
  [[nodiscard]] std::string format(Severity severity, const std::string& line) const;

  const Descriptor own_;  // of what `fd` leads to; none where that need not be
  const int fd_;
  const std::string prefix_;
  const bool levels_;
  // Held for moving a line in or out, never while one is written.
  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<std::string> lines_;
  uint64_t dropped_ = 0;
  bool stopping_ = false;
  std::atomic<uint64_t> give_up_ns_{UINT64_MAX};  // what has not been written by then is dropped
  std::thread writer_;
};

}  // namespace twinblock
