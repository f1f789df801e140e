#include "volume/verifier.h"

#include <algorithm>

#include "base/checks.h"
#include "base/limits.h"

namespace twinblock {
namespace {

constexpr uint64_t kPaceInterval_ns = 5 * kMillisecond_ns;

}  // namespace

Verifier::Verifier(Core& core, WritePath& writes, WritePathOwner& disks)
    : core_(core), writes_(writes), sync_(core, disks, *this) {
  timer_ = core_.clock.make_timer([this] { pump(); });
}

void Verifier::begin(bool repair) {
  TB_CHECK(!active() && sync_.outstanding() == 0, "one verification at a time");
  begun_ = true;
  report_ = {};
  report_.repair = repair;
  cursor_ = 0;
  progress_.begin(core_.config.size_bytes, core_.clock.now_ns());
  pump();
}

void Verifier::pump() {
  if (!active()) return;
  const uint64_t now = core_.clock.now_ns();
  progress_.update(report_.compared_bytes, core_.config.size_bytes, now);
  const Pacer::Allowance allowed = pacer_.allowance(writes_.busy(now), now);
  while (active() && cursor_ < core_.config.size_bytes && sync_.outstanding() < allowed.runs) {
    BlockSync::Task task;
    task.range = {cursor_, std::min(cursor_ + allowed.run_bytes, core_.config.size_bytes)};
    task.compare = true;
    task.send = report_.repair;
    cursor_ = task.range.end_bytes;
    sync_.start(task);
  }
  if (!active()) return;
  if (cursor_ == core_.config.size_bytes && sync_.outstanding() == 0) {
    report_.complete = true;
    end("");
    return;
  }
  timer_->arm(kPaceInterval_ns);
}

void Verifier::synced(const BlockSync::Outcome& outcome) {
  report_.compared_bytes += outcome.range.length();
  report_.differing_bytes += outcome.differing_bytes;
  report_.repaired_bytes += outcome.data_bytes + outcome.zero_bytes;
  if (outcome.first_difference.length() > 0 && report_.differences.size() < kDifferencesMax)
    report_.differences.push_back(outcome.first_difference);
  // What was repaired is in the peer's page cache only.
  if (report_.repair && outcome.differing_bytes > 0)
    core_.epochs.written(outcome.range.begin_bytes, outcome.range.length());
}

void Verifier::sync_failed(int error, uint64_t offset_bytes) {
  stop(system_error(error, "read " + core_.config.node(core_.node).backing + " at offset " +
                               std::to_string(offset_bytes))
           .what);
}

void Verifier::stop(const std::string& why) {
  if (active()) end(why);
}

void Verifier::session_lost(const std::string& reason) {
  stop("the session was lost: " + reason);
  sync_.session_lost();
}

void Verifier::end(const std::string& why) {
  timer_->disarm();
  progress_.end(core_.clock.now_ns());
  report_.ended = report_.complete ? "complete" : why;
  std::sort(report_.differences.begin(), report_.differences.end(),
            [](const ByteRange& a, const ByteRange& b) { return a.begin_bytes < b.begin_bytes; });
  const std::string found = format_size(report_.differing_bytes) + " of " +
                            format_size(report_.compared_bytes) + " compared differ";
  core_.log.log(
      report_.differing_bytes > 0 || !report_.complete ? Severity::kWarning : Severity::kInfo,
      "verification " + (report_.complete ? "complete" : "ended: " + why) + "; " + found +
          (report_.repaired_bytes > 0 ? "; " + format_size(report_.repaired_bytes) + " repaired"
                                      : ""));
  if (sync_.outstanding() == 0) sync_.release_memory();
}

}  // namespace twinblock
