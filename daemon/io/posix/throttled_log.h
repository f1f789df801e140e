// Lines of one kind of which there may be any number, as one for each request that fails: so many of them are logged in
// a time, and of the rest the number.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "io/log.h"

namespace twinblock {

// Any thread.
class ThrottledLog {
 public:
  // `of_what`: "errors of clients"; `lines_max` of them in `window_ns`.
  ThrottledLog(Log& log, std::string of_what, uint32_t lines_max, uint64_t window_ns)
      : log_(log), of_what_(std::move(of_what)), lines_max_(lines_max), window_ns_(window_ns) {}
  // Tells the number of those that were left out last.
  ~ThrottledLog() { tell_missed(); }
  ThrottledLog(const ThrottledLog&) = delete;
  ThrottledLog& operator=(const ThrottledLog&) = delete;

  void log(Severity severity, const std::string& line, uint64_t now_ns) {
    const std::lock_guard lock(mutex_);
    if (lines_ == 0 || now_ns >= began_ns_ + window_ns_) {
      tell_missed();
      began_ns_ = now_ns;
      lines_ = 0;
    }
    if (lines_ == lines_max_) {
      ++missed_;
      return;
    }
    ++lines_;
    log_.log(severity, line);
  }

 private:
  void tell_missed() {
    if (missed_ > 0) log_.log(Severity::kWarning, std::to_string(missed_) + " more " + of_what_ + " were not logged");
    missed_ = 0;
  }

  Log& log_;
  const std::string of_what_;
  const uint32_t lines_max_;
  const uint64_t window_ns_;
  std::mutex mutex_;
  uint64_t began_ns_ = 0;
  uint32_t lines_ = 0;  // logged since then
  uint64_t missed_ = 0;
};

}  // namespace twinblock
