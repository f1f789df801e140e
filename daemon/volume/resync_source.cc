#include "volume/resync_source.h"

#include <algorithm>

#include "base/checks.h"
#include "base/limits.h"
#include "volume/hello.h"

namespace twinblock {
namespace {

constexpr uint64_t kReportInterval_ns = 250 * kMillisecond_ns;
constexpr uint64_t kPaceInterval_ns = 5 * kMillisecond_ns;

}  // namespace

ResyncSource::ResyncSource(Core& core, FlushGroup& flushes, WritePath& writes,
                           WritePathOwner& disks, Owner& owner)
    : core_(core),
      flushes_(flushes),
      writes_(writes),
      disks_(disks),
      owner_(owner),
      sync_(core, disks, *this) {
  report_timer_ = core_.clock.make_timer([this] { report(); });
  pace_timer_ = core_.clock.make_timer([this] { pump(); });
  probe_.op = DiskOp::kExtent;
  probe_.done = [this](DiskRequest&) { probed(); };
}
ResyncSource::~ResyncSource() = default;

void ResyncSource::begin(const metadata::Generations& label) {
  TB_CHECK(step_ == Step::kIdle, "one resync at a time");
  TB_CHECK(core_.map_valid, "the dirty map tells what the target misses");
  step_ = Step::kMarking;
  ++session_number_;
  cursor_ = data_until_ = 0;
  sent_ = {};
  progress_.begin(core_.dirty.set_bytes(), core_.clock.now_ns());
  send_generation(label, wire::kGenerationInconsistent);
}

void ResyncSource::begin_with_nothing_to_send() {
  TB_CHECK(step_ == Step::kIdle, "one resync at a time");
  ++session_number_;
  step_ = Step::kRecording;
  progress_.begin(0, core_.clock.now_ns());
  send_generation(core_.record.generations, wire::kGenerationConsistent);
}

void ResyncSource::send_generation(metadata::Generations generations, uint32_t flag) {
  if (flag == wire::kGenerationConsistent) generations.settle();
  const wire::GenerationPayload payload =
      make_generation(generations, core_.record.volume_uuid, flag);
  const wire::FrameHeader header = wire::header_of(wire::FrameType::kGeneration);
  core_.session->request_small(header, wire::bytes_of(payload), *this);
}

// The target has recorded what it was told.
void ResyncSource::answered(const wire::FrameHeader& ack, std::span<const std::byte>) {
  if (ack.status != 0) {
    disks_.peer_metadata_failed(static_cast<int>(ack.status));
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
  progress_.begin(core_.dirty.set_bytes(), core_.clock.now_ns());
  report_timer_->arm(kReportInterval_ns);
  pace_timer_->arm(kPaceInterval_ns);
  owner_.resync_target_marked();
  pump();
}

void ResyncSource::pump() {
  if (step_ != Step::kCopying) return;
  if (!core_.local_ok()) {
    owner_.resync_failed("resync: the local disk failed");
    return;
  }
  if (!pace_timer_->armed()) pace_timer_->arm(kPaceInterval_ns);
  const uint64_t now = core_.clock.now_ns();
  while (step_ == Step::kCopying && !probing_) {
    const Pacer::Allowance allowed = pacer_.allowance(writes_.busy(now), now);
    if (sync_.outstanding() >= allowed.runs || !start_next(allowed.run_bytes)) break;
  }
  if (step_ == Step::kCopying && sync_.outstanding() == 0 && !probing_ && core_.dirty.empty())
    flush();
}

bool ResyncSource::start_next(uint64_t longest_bytes) {
  auto next = core_.dirty.next_run(cursor_, limits::kResyncHoleBytesMax);
  if (!next && sync_.outstanding() == 0 && !core_.dirty.empty()) {
    // Once more from the start: what could not be sent in this pass.
    cursor_ = data_until_ = 0;
    next = core_.dirty.next_run(0, limits::kResyncHoleBytesMax);
  }
  if (!next) return false;
  const bool coarse = core_.coarse.any(next->begin_bytes, longest_bytes);
  const uint64_t shortest =
      coarse ? limits::kResyncCompareHoleBytesMin : limits::kResyncRunBytesMax;
  if (next->length() > shortest && next->begin_bytes >= data_until_) {
    probe(*next);
    return false;
  }
  next->end_bytes = std::min(next->end_bytes, next->begin_bytes + longest_bytes);
  start(*next, false);
  return true;
}

// Is a long range a hole? Asked without holding it: a hint, which the run looks at again.
void ResyncSource::probe(ByteRange range) {
  probing_ = true;
  probe_.error = 0;
  probe_.is_hole = false;
  probe_.offset_bytes = range.begin_bytes;
  probe_.length_bytes = range.length();
  core_.data.submit(probe_);
}

void ResyncSource::probed() {
  probing_ = false;
  if (step_ != Step::kCopying) return;
  const ByteRange extent{probe_.offset_bytes, probe_.offset_bytes + probe_.length_bytes};
  if (probe_.error == 0 && probe_.is_hole && extent.length() > limits::kResyncRunBytesMax &&
      extent.begin_bytes >= cursor_)
    start({extent.begin_bytes,
           std::min(core_.config.size_bytes, (extent.end_bytes + limits::kBlockBytes - 1) /
                                                 limits::kBlockBytes * limits::kBlockBytes)},
          true);
  else
    data_until_ = std::max(data_until_, extent.end_bytes);
  pump();
}

void ResyncSource::start(ByteRange range, bool may_be_hole) {
  cursor_ = range.end_bytes;
  BlockSync::Task task;
  task.range = range;
  task.compare = !may_be_hole && core_.coarse.any(range.begin_bytes, range.length());
  task.may_be_hole = may_be_hole;
  pacer_.began(may_be_hole ? 0 : range.length());
  sync_.start(task);
}

void ResyncSource::synced(const BlockSync::Outcome& outcome) {
  // The peer has it in its page cache only: from the dirty map into the open epoch.
  const ByteRange& range = outcome.range;
  core_.epochs.written(range.begin_bytes, range.length());
  core_.dirty.clear(range.begin_bytes, range.length());
  core_.coarse.clear(range.begin_bytes, range.length());
  sent_.data_bytes += outcome.data_bytes;
  sent_.zero_bytes += outcome.zero_bytes;
  if (outcome.data_bytes + outcome.zero_bytes < range.length())
    sent_.compared_bytes += range.length();
  core_.counters.resync_bytes += outcome.data_bytes + outcome.zero_bytes;
}

void ResyncSource::sync_failed(int error, uint64_t offset_bytes) {
  owner_.resync_failed(system_error(error, "resync: read " + core_.config.node(core_.node).backing +
                                               " at offset " + std::to_string(offset_bytes))
                           .what);
}

void ResyncSource::flush() {
  step_ = Step::kFlushing;
  flushes_.flush([this, number = session_number_](int error) {
    if (number != session_number_ || step_ != Step::kFlushing) return;
    if (error != 0) {
      owner_.resync_failed(
          system_error(error, "resync: flush " + core_.config.node(core_.node).backing).what);
      return;
    }
    // A write that failed on one side meanwhile is dirty again.
    if (!core_.dirty.empty()) {
      step_ = Step::kCopying;
      pump();
      return;
    }
    owner_.resync_copied();
  });
}

void ResyncSource::record_target() {
  TB_CHECK(step_ == Step::kFlushing, "after the flush");
  if (!core_.dirty.empty()) {
    step_ = Step::kCopying;
    pump();
    return;
  }
  report();  // a short one has told the target nothing yet
  step_ = Step::kRecording;
  send_generation(core_.record.generations, wire::kGenerationConsistent);
}

void ResyncSource::report() {
  const uint64_t total = progress_.total_bytes();
  const uint64_t left = core_.dirty.set_bytes();
  progress_.update(total - std::min(total, left), total, core_.clock.now_ns());
  wire::FrameHeader header = wire::header_of(wire::FrameType::kProgress);
  header.offset = progress_.done_bytes();
  header.length = total;
  core_.session->send(header);
  report_timer_->arm(kReportInterval_ns);
}

void ResyncSource::session_lost() {
  ++session_number_;
  step_ = Step::kIdle;
  report_timer_->disarm();
  pace_timer_->disarm();
  if (progress_.active()) progress_.end(core_.clock.now_ns());
  sync_.session_lost();
}

}  // namespace twinblock
