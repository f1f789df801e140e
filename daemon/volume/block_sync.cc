#include "volume/block_sync.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/checks.h"
#include "base/crc32c.h"
#include "base/digest.h"
#include "base/limits.h"

namespace twinblock {

struct BlockSync::Run final : RangeOwner, PeerRequest {
  enum class Asked { kNothing, kDigests, kWrites };

  explicit Run(BlockSync& sync_) : sync(sync_) {
    ticket.owner = this;
    disk.done = [this](DiskRequest& request) {
      if (request.op == DiskOp::kExtent)
        sync.extent_known(*this);
      else
        sync.read_done(*this);
    };
  }
  void range_admitted() override { sync.admitted(*this); }
  void answered(const wire::FrameHeader& ack, std::span<const std::byte> payload) override {
    sync.answered(*this, ack, payload);
  }
  [[nodiscard]] std::span<std::byte> bytes_of(ByteRange part) const {
    return {buffer.get() + (part.begin_bytes - task.range.begin_bytes), part.length()};
  }

  BlockSync& sync;
  uint64_t epoch = 0;
  Task task;
  Outcome outcome;
  RangeTicket ticket;  // may hold more than the outcome's range
  DiskRequest disk;
  bool reading = false;
  Asked asked = Asked::kNothing;
  uint32_t answers_outstanding = 0;
  std::vector<Digest> theirs;
  std::unique_ptr<std::byte[]> buffer;
};

BlockSync::BlockSync(Core& core, WritePathOwner& disks, Owner& owner)
    : core_(core), disks_(disks), owner_(owner) {}
BlockSync::~BlockSync() = default;

bool BlockSync::abandoned(const Run& run) const { return run.epoch != epoch_; }

void BlockSync::start(const Task& task) {
  if (free_.empty()) {
    pool_.push_back(std::make_unique<Run>(*this));
    free_.push_back(pool_.back().get());
  }
  Run& run = *free_.back();
  free_.pop_back();
  ++outstanding_;
  run.epoch = epoch_;
  run.task = task;
  run.outcome = {};
  run.outcome.range = task.range;
  run.reading = false;
  run.asked = Run::Asked::kNothing;
  run.answers_outstanding = 0;
  run.ticket.begin_bytes = task.range.begin_bytes;
  run.ticket.end_bytes = task.range.end_bytes;
  if (core_.ranges.enter(run.ticket)) admitted(run);
}

// What is stopped goes no further, and what a failed local disk holds must not reach the peer.
bool BlockSync::stopped(const Run& run) const {
  return abandoned(run) || halted_ || !core_.local_ok();
}

void BlockSync::admitted(Run& run) {
  if (stopped(run)) {
    end(run);
    return;
  }
  if (!run.task.may_be_hole) {
    read(run);
    return;
  }
  run.reading = true;
  run.disk.op = DiskOp::kExtent;
  run.disk.error = 0;
  run.disk.is_hole = false;
  run.disk.offset_bytes = run.task.range.begin_bytes;
  run.disk.length_bytes = run.task.range.length();
  core_.data.submit(run.disk);
}

void BlockSync::extent_known(Run& run) {
  run.reading = false;
  if (stopped(run)) {
    end(run);
    return;
  }
  ByteRange& range = run.outcome.range;
  const uint64_t extent_end = range.begin_bytes + run.disk.length_bytes;
  const uint64_t whole_blocks_end = extent_end >= range.end_bytes
                                        ? range.end_bytes
                                        : extent_end / limits::kBlockBytes * limits::kBlockBytes;
  if (run.disk.error == 0 && run.disk.is_hole && whole_blocks_end > range.begin_bytes) {
    range.end_bytes = whole_blocks_end;
    run.asked = Run::Asked::kWrites;
    send_zeroes(run, range);
    return;
  }
  range.end_bytes = std::min(range.end_bytes, range.begin_bytes + limits::kResyncRunBytesMax);
  read(run);
}

void BlockSync::read(Run& run) {
  const ByteRange& range = run.outcome.range;
  TB_CHECK(range.length() <= limits::kResyncRunBytesMax, "a run fits its buffer");
  if (!run.buffer)
    run.buffer = std::make_unique_for_overwrite<std::byte[]>(limits::kResyncRunBytesMax);
  run.reading = true;
  if (run.task.compare) {
    run.asked = Run::Asked::kDigests;
    run.answers_outstanding = 1;
    wire::FrameHeader header = wire::header_of(wire::FrameType::kDigest);
    header.offset = range.begin_bytes;
    header.length = range.length();
    core_.session->request(header, {}, 0, run);
  }
  run.disk.op = DiskOp::kRead;
  run.disk.error = 0;
  run.disk.offset_bytes = range.begin_bytes;
  run.disk.length_bytes = range.length();
  run.disk.data = run.buffer.get();
  core_.data.submit(run.disk);
}

void BlockSync::read_done(Run& run) {
  run.reading = false;
  if (abandoned(run))
    end(run);
  else if (run.answers_outstanding == 0)
    proceed(run);
}

void BlockSync::answered(Run& run, const wire::FrameHeader& ack,
                         std::span<const std::byte> payload) {
  if (ack.status != 0 && run.asked == Run::Asked::kWrites) {
    disks_.peer_disk_failed(static_cast<int>(ack.status), "resyncing");
    return;
  }
  --run.answers_outstanding;
  if (run.asked == Run::Asked::kWrites) {
    finish_if_answered(run);
    return;
  }
  // What the peer can't read is different: writing it anew may mend it.
  const uint64_t blocks =
      (run.outcome.range.length() + limits::kBlockBytes - 1) / limits::kBlockBytes;
  const bool readable = ack.status == 0 && payload.size() == blocks * sizeof(Digest);
  run.theirs.resize(readable ? blocks : 0);
  if (readable) std::memcpy(run.theirs.data(), payload.data(), payload.size());
  if (!run.reading) proceed(run);
}

// The local bytes are here and, to compare with, the peer's digests.
void BlockSync::proceed(Run& run) {
  if (stopped(run)) {
    end(run);
    return;
  }
  if (run.disk.error != 0) {
    // The owner may end the session over it, which leaves this run to be ended here.
    owner_.sync_failed(run.disk.error, run.outcome.range.begin_bytes);
    end(run);
    return;
  }
  run.asked = Run::Asked::kWrites;
  if (run.task.compare)
    compare(run);
  else
    send(run, run.outcome.range);
}

void BlockSync::compare(Run& run) {
  const ByteRange range = run.outcome.range;
  // Held back until all are sent: none may finish the run before the last.
  run.answers_outstanding = 1;
  ByteRange differing{range.begin_bytes, range.begin_bytes};
  const auto flush = [&] {
    if (differing.length() == 0) return;
    run.outcome.differing_bytes += differing.length();
    if (run.outcome.first_difference.length() == 0) run.outcome.first_difference = differing;
    if (run.task.send) send(run, differing);
  };
  size_t index = 0;
  for (uint64_t at = range.begin_bytes; at < range.end_bytes; at += limits::kBlockBytes, ++index) {
    const ByteRange block{at, std::min(at + limits::kBlockBytes, range.end_bytes)};
    if (index < run.theirs.size() && digest_of(run.bytes_of(block)) == run.theirs[index]) continue;
    if (differing.end_bytes != at || differing.length() == 0) {
      flush();
      differing.begin_bytes = at;
    }
    differing.end_bytes = block.end_bytes;
  }
  flush();
  --run.answers_outstanding;
  finish_if_answered(run);
}

void BlockSync::send(Run& run, ByteRange range) {
  const std::span<const std::byte> data = run.bytes_of(range);
  if (all_zero(data)) {
    send_zeroes(run, range);
    return;
  }
  wire::FrameHeader header = wire::header_of(wire::FrameType::kData);
  header.flags = wire::kFlagResync;
  header.offset = range.begin_bytes;
  header.length = range.length();
  ++run.answers_outstanding;
  run.outcome.data_bytes += range.length();
  core_.session->request(header, data, crc32c(data), run);
}

void BlockSync::send_zeroes(Run& run, ByteRange range) {
  wire::FrameHeader header = wire::header_of(wire::FrameType::kData);
  header.flags = wire::kFlagResync | wire::kFlagZero | wire::kFlagUnmap;
  header.offset = range.begin_bytes;
  header.length = range.length();
  ++run.answers_outstanding;
  run.outcome.zero_bytes += range.length();
  core_.session->request(header, {}, 0, run);
}

void BlockSync::finish_if_answered(Run& run) {
  if (run.answers_outstanding > 0) return;
  owner_.synced(run.outcome);
  end(run);
}

void BlockSync::end(Run& run) {
  --outstanding_;
  run.answers_outstanding = 0;
  if (outstanding_ == 0) halted_ = false;
  free_.push_back(&run);
  core_.ranges.release(run.ticket);
  owner_.sync_has_room();
}

void BlockSync::session_lost() {
  ++epoch_;
  std::vector<Run*> waiting;
  for (const auto& run : pool_)
    if (run->answers_outstanding > 0 && !run->reading) waiting.push_back(run.get());
  for (Run* run : waiting) end(*run);
}

void BlockSync::halt() { halted_ = outstanding_ > 0; }

void BlockSync::release_memory() {
  TB_CHECK(outstanding_ == 0, "nothing is outstanding");
  pool_.clear();
  free_.clear();
}

}  // namespace twinblock
