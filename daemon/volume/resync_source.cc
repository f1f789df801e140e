#include "volume/resync_source.h"

#include <algorithm>
#include <cstring>

#include "base/checks.h"
#include "base/crc32c.h"
#include "base/limits.h"

namespace twinblock {
namespace {

constexpr uint64_t kReportInterval_ns = 250 * kMillisecond_ns;

bool all_zero(std::span<const std::byte> bytes) {
  // Compared with itself one byte on: memcmp is as fast as it gets, and stops at the first data.
  return bytes.empty() || (bytes[0] == std::byte{0} &&
                           std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

}  // namespace

struct ResyncSource::Run final : RangeOwner, PeerRequest {
  explicit Run(ResyncSource& resync_) : resync(resync_) {
    ticket.owner = this;
    disk.done = [this](DiskRequest& request) {
      if (request.op == DiskOp::kExtent)
        resync.extent_known(*this);
      else
        resync.read_done(*this);
    };
  }
  void range_admitted() override { resync.run_admitted(*this); }
  void answered(const wire::FrameHeader& ack, std::span<const std::byte>) override {
    resync.run_answered(*this, static_cast<int>(ack.status));
  }

  ResyncSource& resync;
  uint64_t session_number = 0;
  bool awaits_answer = false;
  ByteRange range;  // what is sent; the ticket may hold more
  RangeTicket ticket;
  DiskRequest disk;
  std::unique_ptr<std::byte[]> buffer;
};

ResyncSource::ResyncSource(Core& core, FlushGroup& flushes, WritePath& writes,
                           WritePathOwner& disks, Owner& owner)
    : core_(core), flushes_(flushes), writes_(writes), disks_(disks), owner_(owner) {
  report_timer_ = core_.clock.make_timer([this] { report(); });
}
ResyncSource::~ResyncSource() = default;

void ResyncSource::begin() {
  TB_CHECK(step_ == Step::kIdle, "one resync at a time");
  TB_CHECK(core_.map_valid, "the dirty map tells what the target misses");
  step_ = Step::kMarking;
  ++session_number_;
  cursor_ = data_until_ = 0;
  progress_.begin(core_.dirty.set_bytes(), core_.clock.now_ns());
  send_generation(wire::kGenerationInconsistent);
}

void ResyncSource::begin_with_nothing_to_send() {
  TB_CHECK(step_ == Step::kIdle, "one resync at a time");
  ++session_number_;
  step_ = Step::kRecording;
  progress_.begin(0, core_.clock.now_ns());
  send_generation(wire::kGenerationConsistent);
}

void ResyncSource::send_generation(uint32_t flag) {
  metadata::Generations generations = core_.record.generations;
  if (flag == wire::kGenerationConsistent) generations.settle();
  wire::GenerationPayload payload{};
  payload.current = generations.current;
  payload.base = generations.base;
  std::copy(generations.history.begin(), generations.history.end(), payload.history);
  std::copy(core_.record.volume_uuid.begin(), core_.record.volume_uuid.end(), payload.volume_uuid);
  payload.flags = flag;
  wire::FrameHeader header = wire::header_of(wire::FrameType::kGeneration);
  core_.session->request_small(header, wire::bytes_of(payload), *this);
}

// The target has recorded what it was told.
void ResyncSource::answered(const wire::FrameHeader& ack, std::span<const std::byte>) {
  if (ack.status != 0) {
    disks_.peer_disk_failed(static_cast<int>(ack.status), "recording its state");
    return;
  }
  if (step_ == Step::kMarking) {
    step_ = Step::kCopying;
    report_timer_->arm(kReportInterval_ns);
    owner_.resync_target_marked();
    pump();
    return;
  }
  TB_CHECK(step_ == Step::kRecording, "the target answers what it was asked");
  step_ = Step::kIdle;
  report_timer_->disarm();
  progress_.update(progress_.total_bytes(), progress_.total_bytes(), core_.clock.now_ns());
  progress_.end(core_.clock.now_ns());
  TB_CHECK(outstanding_ == 0, "all has been copied");
  pool_.clear();
  free_.clear();
  owner_.resync_finished();
}

// Few beside a busy client, so that its writes do not queue behind the resync's.
size_t ResyncSource::runs_wanted() const {
  const bool busy = writes_.in_flight() > 0 ||
                    core_.clock.now_ns() - writes_.last_write_ns() < 10 * kMillisecond_ns;
  return busy ? limits::kResyncRunsBusyMax : limits::kResyncRunsMax;
}

void ResyncSource::pump() {
  if (step_ != Step::kCopying) return;
  while (step_ == Step::kCopying && outstanding_ < runs_wanted() && start_next_run()) {
  }
  if (step_ == Step::kCopying && outstanding_ == 0 && core_.dirty.empty()) flush();
}

bool ResyncSource::start_next_run() {
  auto next = core_.dirty.next_run(cursor_, limits::kResyncHoleBytesMax);
  if (!next && outstanding_ == 0 && !core_.dirty.empty()) {
    // Once more from the start: what could not be sent in this pass.
    cursor_ = data_until_ = 0;
    next = core_.dirty.next_run(0, limits::kResyncHoleBytesMax);
  }
  if (!next) return false;
  // Elsewhere than inside known data it may turn out to be a long hole.
  if (next->begin_bytes < data_until_)
    next->end_bytes = std::min(next->end_bytes, next->begin_bytes + limits::kResyncRunBytesMax);
  if (free_.empty()) {
    pool_.push_back(std::make_unique<Run>(*this));
    free_.push_back(pool_.back().get());
  }
  Run& run = *free_.back();
  free_.pop_back();
  ++outstanding_;
  run.session_number = session_number_;
  run.awaits_answer = false;
  run.range = *next;
  cursor_ = next->end_bytes;
  run.ticket.begin_bytes = next->begin_bytes;
  run.ticket.end_bytes = next->end_bytes;
  if (core_.ranges.enter(run.ticket)) run_admitted(run);
  return true;
}

bool ResyncSource::stale(const Run& run) const {
  return run.session_number != session_number_ || step_ != Step::kCopying;
}

void ResyncSource::run_admitted(Run& run) {
  if (stale(run)) {
    end_run(run);
    return;
  }
  run.disk.op = DiskOp::kExtent;
  run.disk.error = 0;
  run.disk.is_hole = false;
  run.disk.offset_bytes = run.range.begin_bytes;
  run.disk.length_bytes = run.range.length();
  if (run.range.begin_bytes >= data_until_) {
    core_.data.submit(run.disk);
    return;
  }
  // Another run may have found the data while this one waited for its range.
  cut(run, std::min(run.range.end_bytes, run.range.begin_bytes + limits::kResyncRunBytesMax));
  read(run);
}

void ResyncSource::extent_known(Run& run) {
  if (stale(run)) {
    end_run(run);
    return;
  }
  const uint64_t extent_end = run.range.begin_bytes + run.disk.length_bytes;
  const uint64_t whole_blocks_end = extent_end >= run.range.end_bytes
                                        ? run.range.end_bytes
                                        : extent_end / limits::kBlockBytes * limits::kBlockBytes;
  if (run.disk.error == 0 && run.disk.is_hole && whole_blocks_end > run.range.begin_bytes) {
    cut(run, whole_blocks_end);
    send_zeroes(run);
    return;
  }
  data_until_ = std::max(data_until_, extent_end);
  cut(run, std::min(run.range.end_bytes, run.range.begin_bytes + limits::kResyncRunBytesMax));
  read(run);
}

// The run sends less than it has locked; the rest is the next one's.
void ResyncSource::cut(Run& run, uint64_t end_bytes) {
  if (cursor_ == run.range.end_bytes) cursor_ = end_bytes;
  run.range.end_bytes = end_bytes;
}

void ResyncSource::read(Run& run) {
  if (!run.buffer)
    run.buffer = std::make_unique_for_overwrite<std::byte[]>(limits::kResyncRunBytesMax);
  run.disk.op = DiskOp::kRead;
  run.disk.error = 0;
  run.disk.offset_bytes = run.range.begin_bytes;
  run.disk.length_bytes = run.range.length();
  run.disk.data = run.buffer.get();
  core_.data.submit(run.disk);
}

void ResyncSource::read_done(Run& run) {
  if (stale(run)) {
    end_run(run);
    return;
  }
  if (run.disk.error != 0) {
    const std::string why =
        system_error(run.disk.error, "resync: read " + core_.config.node(core_.node).backing +
                                         " at offset " + std::to_string(run.range.begin_bytes))
            .what;
    end_run(run);
    owner_.resync_failed(why);
    return;
  }
  const std::span<const std::byte> data(run.buffer.get(), run.range.length());
  if (all_zero(data)) {
    send_zeroes(run);
    return;
  }
  wire::FrameHeader header = wire::header_of(wire::FrameType::kData);
  header.flags = wire::kFlagResync;
  header.offset = run.range.begin_bytes;
  header.length = run.range.length();
  run.awaits_answer = true;
  core_.session->request(header, data, crc32c(data), run);
}

void ResyncSource::send_zeroes(Run& run) {
  wire::FrameHeader header = wire::header_of(wire::FrameType::kData);
  header.flags = wire::kFlagResync | wire::kFlagZero | wire::kFlagUnmap;
  header.offset = run.range.begin_bytes;
  header.length = run.range.length();
  run.awaits_answer = true;
  core_.session->request(header, {}, 0, run);
}

void ResyncSource::run_answered(Run& run, int status) {
  if (status != 0) {
    disks_.peer_disk_failed(status, "resyncing");
    return;
  }
  // The peer has it in its page cache only: from the dirty map into the open epoch.
  core_.epochs.written(run.range.begin_bytes, run.range.length());
  core_.dirty.clear(run.range.begin_bytes, run.range.length());
  core_.counters.resync_bytes += run.range.length();
  end_run(run);
}

void ResyncSource::end_run(Run& run) {
  --outstanding_;
  run.awaits_answer = false;
  free_.push_back(&run);
  core_.ranges.release(run.ticket);
  pump();
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
  step_ = Step::kRecording;
  send_generation(wire::kGenerationConsistent);
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
  pump();  // a client that has gone quiet makes room for more runs
}

void ResyncSource::session_lost() {
  ++session_number_;
  step_ = Step::kIdle;
  report_timer_->disarm();
  if (progress_.active()) progress_.end(core_.clock.now_ns());
  std::vector<Run*> waiting;
  for (const auto& run : pool_)
    if (run->awaits_answer) waiting.push_back(run.get());
  for (Run* run : waiting) end_run(*run);
}

}  // namespace twinblock
