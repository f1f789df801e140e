#include "volume/verifier.h"

#include <algorithm>

#include "base/checks.h"
#include "base/limits.h"

namespace twinblock {
namespace {

constexpr uint64_t kPaceInterval_ns = 5 * kMillisecond_ns;
// Regions that a repair will come to are recorded together, one flush for all.
constexpr uint64_t kIntentAheadBytes = 256 * kMiB;

}  // namespace

Verifier::Verifier(Core& core, FlushGroup& flushes, WritePath& writes, WritePathOwner& disks)
    : core_(core), flushes_(flushes), writes_(writes), disks_(disks), sync_(core, disks, *this) {
  timer_ = core_.clock.make_timer([this] { pump(); });
}

void Verifier::begin(bool repair) {
  TB_CHECK(!active() && !ending(), "one verification at a time");
  begun_ = true;
  ++number_;
  report_ = {};
  report_.repair = repair;
  cursor_ = 0;
  flushing_ = false;
  progress_.begin(core_.config.size_bytes, core_.clock.now_ns());
  core_.events.tell("verify-begun", {{"repair", repair ? "yes" : "no"}});
  pump();
}

void Verifier::pump() {
  if (!active() || awaits_intent_ || flushing_) return;
  const uint64_t now = core_.clock.now_ns();
  const uint64_t size_bytes = core_.config.size_bytes;
  progress_.update(report_.compared_bytes, size_bytes, now);
  const Pacer::Allowance allowed = pacer_.allowance(writes_.busy(now), now);
  while (active() && cursor_ < size_bytes && sync_.outstanding() < allowed.runs) {
    BlockSync::Task task;
    task.range = {cursor_, std::min(cursor_ + allowed.run_bytes, size_bytes)};
    task.compare = true;
    task.send = report_.repair;
    if (report_.repair && !covered(task.range.end_bytes)) return;
    cursor_ = task.range.end_bytes;
    sync_.start(task);
  }
  if (!active()) return;
  if (cursor_ == size_bytes && sync_.outstanding() == 0)
    finish();
  else
    timer_->arm(kPaceInterval_ns);
}

// A repair is a write: until it is flushed on both nodes, a crash may bring the difference back,
// and has to find it on record.
bool Verifier::covered(uint64_t end_bytes) {
  if (core_.intents->covered(cursor_, end_bytes - cursor_)) return true;
  const uint64_t ahead = std::min(kIntentAheadBytes, core_.config.size_bytes - cursor_);
  awaits_intent_ = true;
  const int error = core_.intents->cover(cursor_, std::max(ahead, end_bytes - cursor_), *this);
  if (error != 0) intent_recorded(error);
  return false;
}

void Verifier::intent_recorded(int error) {
  awaits_intent_ = false;
  if (error != 0) disks_.metadata_failed(error);
  if (error != 0) stop("the metadata disk failed");
  pump();
}

// What was repaired is not said to be so before it is on stable storage.
void Verifier::finish() {
  if (report_.repaired_bytes == 0) {
    report_.complete = true;
    end("");
    return;
  }
  flushing_ = true;
  flushes_.flush([this, number = number_](int error) {
    if (number != number_ || !active()) return;
    report_.complete = error == 0;
    end(error == 0 ? "" : "the flush after the repair failed");
  });
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
  if (!active()) return;
  sync_.halt();
  end(why);
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
  core_.events.tell("verify-ended", {{"compared_bytes", report_.compared_bytes},
                                     {"differing_bytes", report_.differing_bytes},
                                     {"repaired_bytes", report_.repaired_bytes},
                                     {"reason", report_.ended}});
  if (sync_.outstanding() == 0) sync_.release_memory();
}

}  // namespace twinblock
