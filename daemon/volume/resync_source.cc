#include "volume/resync_source.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/checks.h"
#include "base/limits.h"
#include "session/hello.h"

namespace twinblock {
namespace {

constexpr uint64_t kReportInterval_ns = 250 * kMillisecond_ns;
constexpr uint64_t kPaceInterval_ns = 5 * kMillisecond_ns;
constexpr uint64_t kMarkAgain_ns = 200 * kMillisecond_ns;

}  // namespace

ResyncSource::ResyncSource(Core& core, FlushGroup& flushes, WritePath& writes,
                           DiskHealth& disks, Owner& owner)
    : core_(core),
      flushes_(flushes),
      writes_(writes),
      disks_(disks),
      owner_(owner),
      sync_(core, disks, *this),
      walk_(core, [this](uint64_t from_bytes) { return next_range(from_bytes); },
            [this] { pump(); }) {
  report_timer_ = core_.clock.make_timer([this] {
    report();
    look_again();
  });
  pace_timer_ = core_.clock.make_timer([this] { pump(); });
  mark_again_ = core_.clock.make_timer([this] { mark(); });
}
ResyncSource::~ResyncSource() = default;

void ResyncSource::begin(const metadata::Generations& label) {
  TB_CHECK(step_ == Step::kIdle, "one resync at a time");
  TB_CHECK(core_.differences().valid(), "the dirty map tells what the target misses");
  step_ = Step::kMarking;
  ++resync_number_;
  walk_.restart();
  sent_ = {};
  progress_.begin(core_.differences().dirty().set_bytes(), core_.clock.now_ns());
  label_ = label;
  mark();
}

void ResyncSource::mark() { send_generation(label_, wire::kGenerationInconsistent); }

void ResyncSource::begin_with_nothing_to_send() {
  TB_CHECK(step_ == Step::kIdle, "one resync at a time");
  // (That the peer has this generation is its own word, which no check here may rest on.)
  TB_CHECK(core_.differences().none_known(), "nothing is sent where nothing is missed");
  ++resync_number_;
  step_ = Step::kRecording;
  progress_.begin(0, core_.clock.now_ns());
  send_generation(core_.record().generations, wire::kGenerationConsistent);
}

void ResyncSource::send_generation(metadata::Generations generations, uint32_t flag) {
  if (flag == wire::kGenerationConsistent) generations.settle();
  const wire::GenerationPayload payload =
      make_generation(generations, core_.record().volume_uuid, flag);
  core_.session.request_ordered(wire::GenerationFrame{}, wire::bytes_of(payload), *this);
}

// The target has recorded what it was told.
void ResyncSource::answered(const PeerAnswer& answer) {
  if (answer.error == EINPROGRESS && step_ == Step::kMarking) {
    mark_again_->arm(kMarkAgain_ns);
    owner_.resync_target_waits();
    return;
  }
  if (answer.error != 0) {
    disks_.peer().metadata_failed(answer.error);
    return;
  }
  if (step_ == Step::kMarking) {
    copy();
    return;
  }
  TB_CHECK(step_ == Step::kRecording, "the target answers what it was asked");
  step_ = Step::kIdle;
  report_timer_->disarm();
  pace_timer_->disarm();
  progress_.update(progress_.total_bytes(), progress_.total_bytes(), core_.clock.now_ns());
  progress_.end(core_.clock.now_ns());
  sync_.release_memory();
  owner_.resync_finished();
}

// What the target knows to be missing has come before its answer (kDirty): the set is complete.
void ResyncSource::copy() {
  step_ = Step::kCopying;
  retry_began_ns_ = 0;
  wait_told_ = false;
  progress_.begin(core_.differences().dirty().set_bytes(), core_.clock.now_ns());
  report_timer_->arm(kReportInterval_ns);
  pace_timer_->arm(kPaceInterval_ns);
  owner_.resync_target_marked();
  pump();
}

void ResyncSource::pump() {
  if (step_ != Step::kCopying) return;
  if (!disks_.local_ok()) {
    owner_.resync_failed("resync: the local disk failed");
    return;
  }
  if (!pace_timer_->armed()) pace_timer_->arm(kPaceInterval_ns);
  const uint64_t now = core_.clock.now_ns();
  while (step_ == Step::kCopying) {
    const Pacer::Allowance allowed = pacer_.allowance(writes_.busy(now), now);
    if (sync_.outstanding() >= allowed.runs || !start_next(allowed)) break;
  }
  if (step_ != Step::kCopying || sync_.outstanding() > 0 || walk_.looking()) return;
  if (core_.differences().none_known())
    flush();
  else if (core_.differences().none_readable())
    wait_for_disk();
}

// The rest waits until a client writes there, or the disk gives it after all: the target is not whole, gets what is
// written meanwhile, and what has been copied already stays so.
void ResyncSource::wait_for_disk() {
  pace_timer_->disarm();
  if (retry_at_ns_ != 0) return;
  // A disk may take long to say that it can't: it is asked for a tenth of the time at most.
  const uint64_t now = core_.clock.now_ns();
  const uint64_t tried_ns = retry_began_ns_ == 0 ? 0 : now - retry_began_ns_;
  retry_at_ns_ = now + std::max(limits::kUnreadableRetry_ns, 9 * tried_ns);
  if (!std::exchange(wait_told_, true)) owner_.resync_waits();
}

void ResyncSource::look_again() {
  if (step_ != Step::kCopying || retry_at_ns_ == 0) return;
  const uint64_t now = core_.clock.now_ns();
  if (now >= retry_at_ns_) {
    core_.differences().try_unreadable_again();
    retry_began_ns_ = now;
    retry_at_ns_ = 0;
  }
  pump();
}

bool ResyncSource::start_next(const Pacer::Allowance& allowed) {
  // Once more from the start: what could not be sent in this pass.
  const bool more = !core_.differences().none_readable();
  if (sync_.outstanding() == 0 && more && walk_.exhausted()) walk_.restart();
  const auto step = walk_.next(allowed.run_bytes, allowed.hole_bytes);
  if (!step) return false;
  BlockSync::Task task;
  task.range = step->range;
  task.compare = core_.differences().coarse().any(task.range.begin_bytes, task.range.length());
  task.hole = step->hole;
  pacer_.began(task.hole ? 0 : task.range.length());
  sync_.start(task);
  return true;
}

// The next blocks that the target misses and that can be read, all of them known by the block, or all of them only
// coarsely: what is known is sent, and a comparison is not stretched over it.
std::optional<ByteRange> ResyncSource::next_range(uint64_t from_bytes) const {
  const Differences& differences = core_.differences();
  const BlockMap& maybe = differences.coarse();
  auto range = differences.next_readable(from_bytes);
  if (!range) return std::nullopt;
  const auto coarse = maybe.next_run(range->begin_bytes, BlockMap::kChunkBytes, range->end_bytes);
  const bool compare = coarse && coarse->begin_bytes == range->begin_bytes;
  if (!compare) {
    if (coarse) range->end_bytes = coarse->begin_bytes;
    range->end_bytes =
        std::min(range->end_bytes, range->begin_bytes + limits::kResyncHoleBytesMax);
    return range;
  }
  range->end_bytes = std::min(range->end_bytes, coarse->end_bytes);
  // A run ends with its chunk; a hole does not.
  while (range->length() < limits::kFrameHoleBytesMax && range->end_bytes % BlockMap::kChunkBytes == 0) {
    const uint64_t at = range->end_bytes;
    const auto more = differences.next_readable(at, at + 1);
    const auto coarse_too = maybe.next_run(at, BlockMap::kChunkBytes, at + 1);
    if (!more || !coarse_too) break;
    range->end_bytes = std::min(more->end_bytes, coarse_too->end_bytes);
  }
  range->end_bytes = std::min(range->end_bytes, range->begin_bytes + limits::kFrameHoleBytesMax);
  return range;
}

void ResyncSource::synced(const BlockSync::Outcome& outcome) {
  walk_.ended(outcome);
  const ByteRange& range = outcome.range;
  core_.differences().synced(range);
  sent_.data_bytes += outcome.data_bytes;
  sent_.zero_bytes += outcome.zero_bytes;
  if (outcome.data_bytes + outcome.zero_bytes < range.length())
    sent_.compared_bytes += range.length();
  core_.counters().resynced(outcome.data_bytes + outcome.zero_bytes);
}

// Which place it was, block by block tells.
void ResyncSource::sync_failed(int, const ByteRange& range) {
  if (range.length() > limits::kBlockBytes)
    walk_.failed(range);
  else
    core_.differences().found_unreadable(range);
}

void ResyncSource::flush() {
  step_ = Step::kFlushing;
  retry_at_ns_ = 0;  // what could not be read has been written anew
  flushes_.flush_beside([this, number = resync_number_](int error) {
    if (number != resync_number_ || step_ != Step::kFlushing) return;
    if (error != 0) {
      owner_.resync_failed(
          system_error(error, "resync: flush " + core_.config.node(core_.node).backing).what);
      return;
    }
    // A write that failed on one side meanwhile is dirty again.
    if (!core_.differences().none_known()) {
      step_ = Step::kCopying;
      pump();
      return;
    }
    owner_.resync_copied();
  });
}

void ResyncSource::record_target() {
  TB_CHECK(step_ == Step::kFlushing, "after the flush");
  if (!core_.differences().none_known()) {
    step_ = Step::kCopying;
    pump();
    return;
  }
  report();  // a short one has told the target nothing yet
  TB_CHECK(core_.record().shares_generation(), "a peer is told that it is whole when it is on record that it may be");
  step_ = Step::kRecording;
  send_generation(core_.record().generations, wire::kGenerationConsistent);
}

void ResyncSource::report() {
  const uint64_t total = progress_.total_bytes();
  const uint64_t left = core_.differences().dirty().set_bytes();
  progress_.update(total - std::min(total, left), total, core_.clock.now_ns());
  core_.session.send_ordered(wire::ProgressFrame{progress_.done_bytes(), total});
  report_timer_->arm(kReportInterval_ns);
}

void ResyncSource::session_lost() {
  step_ = Step::kIdle;
  retry_at_ns_ = 0;
  core_.differences().try_unreadable_again();
  report_timer_->disarm();
  pace_timer_->disarm();
  mark_again_->disarm();
  if (progress_.active()) progress_.end(core_.clock.now_ns());
  sync_.session_lost();
}

}  // namespace twinblock
