// What others made this node say, connections that had not proven to be the peer's, or the peer's frames: the first time
// for each reason a line in the log, then only how many more there were in the last ten seconds. Whoever can connect, or
// a peer gone mad, could fill the disk with lines otherwise. Loop thread only.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/limits.h"
#include "base/units.h"
#include "io/log.h"

namespace twinblock {

class StrangerLog {
 public:
  // `other`: the reason of what has yet another one than those that are counted.
  explicit StrangerLog(Log& log, const char* other = "closed for yet other reasons") : log_(log), other_(other) {}

  // "WHO REASON": lines that differ in `who` only are of one kind.
  void tell(const std::string& who, const std::string& reason, uint64_t now_ns,
            Severity severity = Severity::kWarning) {
    tick(now_ns);
    const bool full = reasons_.size() >= limits::kStrangerReasonsMax && !reasons_.contains(reason);
    const auto [at, is_new] = reasons_.try_emplace(full ? other_ : reason);
    Reason& entry = at->second;
    if (is_new) {
      entry.told_ns = now_ns;
      entry.severity = severity;
      log_.log(severity, who + " " + reason);
    } else {
      ++entry.more;
      entry.last = who;
    }
  }

  // Tells the counts that are due. Often.
  void tick(uint64_t now_ns) {
    for (auto at = reasons_.begin(); at != reasons_.end();) {
      Reason& entry = at->second;
      if (now_ns - entry.told_ns < limits::kStrangerInterval_ns) {
        ++at;
        continue;
      }
      if (entry.more == 0) {
        at = reasons_.erase(at);
        continue;
      }
      log_.log(entry.severity, entry.last + " " + at->first + ": " + std::to_string(entry.more) +
                                   " more in the last " + format_duration(now_ns - entry.told_ns));
      entry.more = 0;
      entry.told_ns = now_ns;
      ++at;
    }
  }

 private:
  struct Reason {
    Severity severity = Severity::kWarning;
    uint64_t told_ns = 0;
    uint64_t more = 0;  // since then
    std::string last;   // who
  };

  Log& log_;
  const char* const other_;
  std::map<std::string, Reason> reasons_;  // bounded by limits::kStrangerReasonsMax, and other_
};

}  // namespace twinblock
