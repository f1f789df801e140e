#include "volume/block_sync.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "base/checks.h"
#include "base/crc32c.h"
#include "base/digest.h"
#include "base/limits.h"

namespace twinblock {
namespace {

// The blocks that lie wholly before `at`, or, up, that it touches; a last one may be cut short by
// the range's end.
uint64_t whole_blocks(uint64_t at, uint64_t range_end) {
  return at >= range_end ? range_end : at / limits::kBlockBytes * limits::kBlockBytes;
}
uint64_t whole_blocks_up(uint64_t at, uint64_t range_end) {
  return whole_blocks(at + limits::kBlockBytes - 1, range_end);
}

}  // namespace

struct BlockSync::Run final : RangeOwner, PeerRequest {
  enum class Asked { kNothing, kHole, kDigests, kWrites };

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
  void answered(const PeerAnswer& answer) override {
    sync.answered(*this, answer);
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
  bool left = false;  // … on a disk that was given up, and may never answer: nobody waits for that
  bool refused = false;  // by the peer, in part at least
  Asked asked = Asked::kNothing;
  uint32_t answers_outstanding = 0;
  std::vector<Digest> theirs;
  std::unique_ptr<std::byte[]> buffer;
};

BlockSync::BlockSync(Core& core, DiskHealth& disks, Owner& owner)
    : core_(core), disks_(disks), owner_(owner) {}
BlockSync::~BlockSync() = default;

bool BlockSync::abandoned(const Run& run) const { return run.epoch != epoch_; }

void BlockSync::start(const Task& task) {
  TB_CHECK(!halted_, "what was halted comes to its end before anything new begins");
  Run& run = runs_.take(*this);
  ++outstanding_;
  run.epoch = epoch_;
  run.task = task;
  run.outcome = {};
  run.outcome.range = task.range;
  run.reading = run.left = run.refused = false;
  run.asked = Run::Asked::kNothing;
  run.answers_outstanding = 0;
  run.ticket.begin_bytes = task.range.begin_bytes;
  run.ticket.end_bytes = task.range.end_bytes;
  if (core_.ranges().enter(run.ticket)) admitted(run);
}

// What is stopped goes no further, and what a failed local disk holds must not reach the peer.
bool BlockSync::stopped(const Run& run) const {
  return abandoned(run) || halted_ || !disks_.local_ok();
}

void BlockSync::admitted(Run& run) {
  if (stopped(run)) {
    end(run);
    return;
  }
  if (run.task.hole)
    look(run);
  else
    read(run);
}

void BlockSync::look(Run& run) {
  run.reading = true;
  run.disk.op = DiskOp::kExtent;
  run.disk.error = 0;
  run.disk.is_hole = false;
  run.disk.offset_bytes = run.task.range.begin_bytes;
  run.disk.length_bytes = run.task.range.length();
  core_.data.submit(run.disk);
}

// Of the task's range, what is done ends at `done_end`, and what is no hole behind that at
// `plain_end`.
void BlockSync::leave(Run& run, uint64_t done_end, uint64_t plain_end) {
  const uint64_t end = run.task.range.end_bytes;
  run.outcome.range.end_bytes = done_end;
  run.outcome.plain = {done_end, plain_end};
  run.outcome.rest = {plain_end, end};
}

// The task has ended, or ends with the peer's answer.
bool BlockSync::answered_too_late(Run& run) {
  run.reading = false;
  if (!std::exchange(run.left, false)) return false;
  if (run.answers_outstanding == 0) runs_.give_back(run);
  return true;
}

void BlockSync::extent_known(Run& run) {
  if (answered_too_late(run)) return;
  if (stopped(run)) {
    end(run);
    return;
  }
  const ByteRange& range = run.task.range;
  const bool hole = run.disk.error == 0 && run.disk.is_hole;
  const uint64_t extent_end = range.begin_bytes + run.disk.length_bytes;
  if (!hole) {
    leave(run, range.begin_bytes,
          run.disk.error != 0 ? range.end_bytes : whole_blocks_up(extent_end, range.end_bytes));
    finish_if_answered(run);
    return;
  }
  // A block of which a part is data is no hole.
  const uint64_t hole_end = whole_blocks(extent_end, range.end_bytes);
  leave(run, hole_end, std::min(range.end_bytes, hole_end + limits::kBlockBytes));
  if (hole_end == range.begin_bytes) {
    finish_if_answered(run);
  } else if (run.task.compare) {
    ask_for_hole(run);
  } else {
    run.asked = Run::Asked::kWrites;
    send_zeroes(run, run.outcome.range);
  }
}

void BlockSync::ask_for_hole(Run& run) {
  run.asked = Run::Asked::kHole;
  run.answers_outstanding = 1;
  core_.session.request_unordered(
      wire::DigestFrame{.offset_bytes = run.outcome.range.begin_bytes,
                        .length_bytes = run.outcome.range.length(),
                        .hole = true},
      run);
}

// What is a hole on both nodes is the same. What the peer can't tell is looked at block by block.
void BlockSync::hole_answered(Run& run, const PeerAnswer& answer) {
  if (stopped(run)) {
    end(run);
    return;
  }
  const ByteRange asked = run.outcome.range;
  wire::HolePayload told{0, asked.length()};
  if (answer.error == 0 && answer.payload.size() == sizeof told)
    std::memcpy(&told, answer.payload.data(), sizeof told);
  const uint64_t zero = std::min(told.zero_bytes, asked.length());
  const uint64_t data = std::min(told.data_bytes, asked.length() - zero);
  if (zero < asked.length()) {
    const uint64_t same_end = whole_blocks(asked.begin_bytes + zero, asked.end_bytes);
    leave(run, same_end,
          whole_blocks_up(std::max(asked.begin_bytes + zero + data, same_end + 1), asked.end_bytes));
  }
  finish_if_answered(run);
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
    core_.session.request_unordered(
        wire::DigestFrame{.offset_bytes = range.begin_bytes, .length_bytes = range.length()}, run);
  }
  run.disk.op = DiskOp::kRead;
  run.disk.error = 0;
  run.disk.offset_bytes = range.begin_bytes;
  run.disk.length_bytes = range.length();
  run.disk.data = run.buffer.get();
  core_.data.submit(run.disk);
}

void BlockSync::read_done(Run& run) {
  if (answered_too_late(run)) return;
  if (abandoned(run))
    end(run);
  else if (run.answers_outstanding == 0)
    proceed(run);
}

void BlockSync::answered(Run& run, const PeerAnswer& answer) {
  if (answer.error != 0 && run.asked == Run::Asked::kWrites) {
    // (A repair's, say, whose own disk was given up since: it has been stopped.)
    if (!disks_.peer().lacks_room(answer.error, "resyncing")) return;
    run.refused = true;
  }
  TB_CHECK(run.answers_outstanding > 0 && run.asked != Run::Asked::kNothing,
           "the peer answers what it was asked, once");
  --run.answers_outstanding;
  if (run.asked == Run::Asked::kHole) {
    hole_answered(run, answer);
    return;
  }
  if (run.asked == Run::Asked::kWrites) {
    finish_if_answered(run);
    return;
  }
  // What the peer can't read is different: writing it anew may mend it.
  if (answer.error != 0 && !run.task.send) disks_.peer().reads_fail();
  const uint64_t blocks =
      (run.outcome.range.length() + limits::kBlockBytes - 1) / limits::kBlockBytes;
  const bool readable = answer.error == 0 && answer.payload.size() == blocks * sizeof(Digest);
  run.theirs.resize(readable ? blocks : 0);
  if (readable) std::memcpy(run.theirs.data(), answer.payload.data(), answer.payload.size());
  if (!run.reading || run.left) proceed(run);
}

// The local bytes are here and, to compare with, the peer's digests.
void BlockSync::proceed(Run& run) {
  if (stopped(run)) {
    end(run);
    return;
  }
  const ByteRange& range = run.outcome.range;
  if (run.disk.error != 0) {
    // Of a longer one nobody knows yet which place is the bad one.
    if (range.length() <= limits::kBlockBytes) disks_.read_failed(run.disk.error, range.begin_bytes, range.length());
    owner_.sync_failed(run.disk.error, range);
    end(run);
    return;
  }
  disks_.read_well(range.begin_bytes, range.length());
  run.asked = Run::Asked::kWrites;
  if (run.task.compare)
    compare(run);
  else
    send(run, range);
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

// Blocks of zeroes apart from others: written as data they would take space at the target.
void BlockSync::send(Run& run, ByteRange range) {
  ByteRange part{range.begin_bytes, range.begin_bytes};
  bool zero = false;
  const auto flush = [&] {
    if (part.length() == 0) return;
    if (zero)
      send_zeroes(run, part);
    else
      send_data(run, part);
    part.begin_bytes = part.end_bytes;
  };
  while (part.end_bytes < range.end_bytes) {
    const ByteRange block{part.end_bytes,
                          std::min(part.end_bytes + limits::kBlockBytes, range.end_bytes)};
    const bool block_zero = all_zero(run.bytes_of(block));
    if (block_zero != zero) flush();
    zero = block_zero;
    part.end_bytes = block.end_bytes;
  }
  flush();
}

void BlockSync::send_data(Run& run, ByteRange range) {
  const std::span<const std::byte> data = run.bytes_of(range);
  ++run.answers_outstanding;
  run.outcome.data_bytes += range.length();
  core_.session.request_unordered(wire::DataFrame{.offset_bytes = range.begin_bytes,
                                                   .length_bytes = range.length(),
                                                   .resync = true},
                                   run, data, crc32c(data));
}

// In pieces, each of which the target's disk does in a short time.
void BlockSync::send_zeroes(Run& run, ByteRange range) {
  wire::DataFrame zeroes{.zero = true, .unmap = true, .resync = true};
  run.outcome.zero_bytes += range.length();
  for (uint64_t at = range.begin_bytes; at < range.end_bytes; at += zeroes.length_bytes) {
    zeroes.offset_bytes = at;
    zeroes.length_bytes = std::min(core_.zeroes.piece_bytes, range.end_bytes - at);
    ++run.answers_outstanding;
    core_.session.request_unordered(zeroes, run);
  }
}

void BlockSync::finish_if_answered(Run& run) {
  if (run.answers_outstanding > 0) return;
  if (!run.refused) owner_.synced(run.outcome);
  end(run);
}

void BlockSync::end(Run& run) {
  TB_CHECK(outstanding_ > 0 && (!run.reading || run.left),
           "a task ends once, and not before the answer of a local disk that is in use");
  --outstanding_;
  run.answers_outstanding = 0;
  if (outstanding_ == 0) halted_ = false;
  core_.ranges().release(run.ticket);
  if (!run.left) runs_.give_back(run);  // else the disk still has its request and its buffer
  owner_.sync_has_room();
}

std::vector<ByteRange> BlockSync::sent() const {
  std::vector<ByteRange> ranges;
  for (const auto& run : runs_.all())
    if (!abandoned(*run) && run->asked == Run::Asked::kWrites && run->answers_outstanding > 0)
      ranges.push_back(run->outcome.range);
  return ranges;
}

void BlockSync::session_lost() {
  ++epoch_;
  std::vector<Run*> waiting;
  for (const auto& run : runs_.all())
    if (run->answers_outstanding > 0 && (!run->reading || run->left)) waiting.push_back(run.get());
  for (Run* run : waiting) end(*run);
}

void BlockSync::disk_left() {
  std::vector<Run*> over;
  for (const auto& run : runs_.all()) {
    if (!run->reading || std::exchange(run->left, true)) continue;
    if (abandoned(*run) || run->answers_outstanding == 0) over.push_back(run.get());
  }
  for (Run* run : over) end(*run);
}

void BlockSync::halt() { halted_ = outstanding_ > 0; }

void BlockSync::release_memory() {
  const bool read_somewhere = std::ranges::any_of(runs_.all(), [](const auto& run) { return run->reading; });
  if (outstanding_ == 0 && !read_somewhere) runs_.clear();
}

}  // namespace twinblock
