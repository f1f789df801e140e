#include "volume/verifier.h"

#include <algorithm>
#include <utility>

#include "base/checks.h"
#include "base/limits.h"

namespace twinblock {
namespace {

constexpr uint64_t kPaceInterval_ns = 5 * kMillisecond_ns;

}  // namespace

Verifier::Verifier(Core& core, FlushGroup& flushes, WritePath& writes, DiskHealth& disks)
    : core_(core),
      flushes_(flushes),
      writes_(writes),
      disks_(disks),
      sync_(core, disks, *this),
      walk_(
          core,
          [&core](uint64_t from_bytes) -> std::optional<ByteRange> {
            const uint64_t size_bytes = core.volume_bytes();
            if (from_bytes >= size_bytes) return std::nullopt;
            return ByteRange{from_bytes,
                             std::min(size_bytes, from_bytes + limits::kFrameHoleBytesMax)};
          },
          [this] { pump(); }) {
  timer_ = core_.clock.make_timer([this] { pump(); });
}

void Verifier::begin(bool repair) {
  TB_CHECK(!active() && !ending(), "one verification at a time");
  begun_ = true;
  ++number_;
  report_ = {};
  report_.repair = repair;
  walk_.restart();
  awaits_disk_ = false;
  progress_.begin(core_.volume_bytes(), core_.clock.now_ns());
  core_.events().tell("verify-begun", {{"repair", repair ? "yes" : "no"}});
  if (repair)
    record();
  else
    pump();
}

// Until it is complete, blocks may differ, of which the peer's is the bad one.
void Verifier::record() {
  awaits_disk_ = true;
  const bool before = core_.record().repairing;
  core_.state().set_repairing(true);
  core_.state().persist([this, before, number = number_](int error) {
    if (number != number_ || !active()) return;
    awaits_disk_ = false;
    if (error == 0) {
      pump();
      return;
    }
    core_.state().set_repairing(before);
    stop("the metadata disk failed");
    disks_.metadata_failed(error);
  });
}

void Verifier::pump() {
  if (!active() || awaits_disk_) return;
  const uint64_t now = core_.clock.now_ns();
  progress_.update(report_.compared_bytes, core_.volume_bytes(), now);
  const Pacer::Allowance allowed = pacer_.allowance(writes_.busy(now), now);
  while (active() && sync_.outstanding() < allowed.runs && start_next(allowed)) {
  }
  if (!active()) return;
  if (sync_.outstanding() == 0 && walk_.exhausted())
    finish();
  else
    timer_->arm(kPaceInterval_ns);
}

bool Verifier::start_next(const Pacer::Allowance& allowed) {
  const auto step = walk_.next(allowed.run_bytes, allowed.hole_bytes);
  if (!step) return false;
  sync_.start({step->range, true, report_.repair, step->hole});
  return true;
}

// What was repaired is not said to be so before it is on stable storage. Nor is what was found to be the same: a repair that
// was cut off may have left it in the peer's page cache only.
void Verifier::finish() {
  TB_CHECK(sync_.outstanding() == 0, "a verification ends when all is compared");
  awaits_disk_ = true;
  flushes_.flush_beside([this, number = number_](int error) {
    if (number == number_ && active()) conclude(error);
  });
}

void Verifier::conclude(int flush_error) {
  const size_t places = report_.unreadable_places;
  report_.complete = flush_error == 0 && places == 0;
  if (report_.complete && core_.record().repairing && (report_.repair || report_.differing_bytes == 0)) {
    core_.state().set_repairing(false);
    core_.state().persist([](int) {});
  }
  if (flush_error != 0)
    end("the flush at its end failed");
  else if (places != 0)
    end(report_.unreadable + "; " + std::to_string(places) + (places == 1 ? " place" : " places") +
        " could not be compared");
  else
    end("");
}

void Verifier::synced(const BlockSync::Outcome& outcome) {
  walk_.ended(outcome);
  report_.compared_bytes += outcome.range.length();
  report_.differing_bytes += outcome.differing_bytes;
  report_.repaired_bytes += outcome.data_bytes + outcome.zero_bytes;
  TB_CHECK(report_.compared_bytes <= core_.volume_bytes() &&
               report_.differing_bytes <= report_.compared_bytes,
           "no block is compared twice, and none differs that was not compared");
  if (outcome.first_difference.length() > 0 && report_.differences.size() < kDifferencesMax)
    report_.differences.push_back(outcome.first_difference);
  // What was repaired is in the peer's page cache only.
  if (report_.repair && outcome.differing_bytes > 0)
    core_.differences().acknowledged(outcome.range.begin_bytes, outcome.range.length());
}

// All that can be read is compared.
void Verifier::sync_failed(int error, const ByteRange& range) {
  if (range.length() > limits::kBlockBytes) {
    walk_.failed(range);
    return;
  }
  if (report_.unreadable_places++ > 0) return;
  report_.unreadable = system_error(error, "read " + core_.config.node(core_.node).backing + " at offset " +
                                               std::to_string(range.begin_bytes))
                           .what;
}

void Verifier::stop(const std::string& why) {
  if (!active()) return;
  sync_.halt();
  end(why);
}

void Verifier::session_lost(const std::string& reason) {
  stop("the session was lost: " + reason);
  // What differed, and was just written anew, may differ still.
  if (report_.repair)
    for (const ByteRange& range : sync_.sent()) core_.differences().may_differ(range.begin_bytes, range.length());
  sync_.session_lost();
}

void Verifier::end(const std::string& why) {
  TB_CHECK(active(), "a verification ends once");
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
  core_.events().tell("verify-ended", {{"compared_bytes", report_.compared_bytes},
                                     {"differing_bytes", report_.differing_bytes},
                                     {"repaired_bytes", report_.repaired_bytes},
                                     {"reason", report_.ended}});
  sync_.release_memory();
}

}  // namespace twinblock
