#include "volume/replica.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>
#include <utility>

#include "base/crc32c.h"
#include "base/digest.h"
#include "base/limits.h"
#include "wire/compression.h"

namespace twinblock {
namespace {

// Shorter ones are allocated, each as long as it is.
constexpr size_t kLongPieceBytes = 64 * kKiB;

// In place of a connection that is gone, and where nothing is asked: no answer reaches it.
constexpr uint64_t kNoConnection = ~uint64_t{0};
static_assert(kNoConnection > limits::kIncarnationMax);

// The digests of the blocks in `data`, packed at its front: each is shorter than its block.
size_t digest_in_place(std::span<std::byte> data) {
  size_t end = 0;
  for (size_t at = 0; at < data.size(); at += limits::kBlockBytes, end += wire::kDigestBytes) {
    const Digest digest =
        digest_of(data.subspan(at, std::min<size_t>(limits::kBlockBytes, data.size() - at)));
    std::memcpy(data.data() + end, digest.data(), digest.size());
  }
  return end;
}

// Of the same request, which has come again.
bool asks_the_same(const wire::FrameHeader& one, const wire::FrameHeader& other) {
  const auto meant = [](const wire::FrameHeader& header) {
    return std::tuple(header.type, header.flags & ~wire::kFlagSample, header.offset, header.length,
                      header.payload_bytes, header.payload_crc);
  };
  return meant(one) == meant(other);
}

}  // namespace

struct Replica::Op {
  explicit Op(Replica& replica_) : replica(replica_) {
    disk.done = [this](DiskRequest&) { replica.finished(*this); };
  }
  void came_over(const wire::Frame& frame, uint64_t connection, uint64_t now_ns);
  Replica& replica;
  DiskRequest disk;
  // What the frame asks, and of which range.
  enum class Asks { kWrite, kFlush, kBytes, kDigests, kHole };
  template <typename Frame>
  void take(Asks what, const Frame& frame) {
    asks = what;
    disk.offset_bytes = offset_bytes = frame.offset_bytes;
    disk.length_bytes = length_bytes = frame.length_bytes;
    if (what == Asks::kWrite) return;
    disk.op = what == Asks::kHole ? DiskOp::kExtent : DiskOp::kRead;
    looked_behind = false;
    if (what == Asks::kHole) return;
    body = std::make_unique_for_overwrite<std::byte[]>(length_bytes);
    disk.data = body.get();
  }
  Asks asks = Asks::kWrite;
  wire::FrameHeader came_as{};  // the first time, with its number
  uint64_t offset_bytes = 0;
  uint64_t length_bytes = 0;
  bool sample = false;
  uint64_t incarnation = kNoConnection;  // of the connection that brought it last
  std::shared_ptr<wire::Slab> keeps_payload;
  std::unique_ptr<std::byte[]> body;  // kBytes, kDigests
  // A compressed payload, as it came; a worker makes `plain` of it.
  std::span<const std::byte> compressed;
  std::shared_ptr<wire::Slab> plain;
  std::string problem;      // with the payload
  uint64_t arrived_ns = 0;  // in this host's kernel
  uint64_t read_ns = 0;
  uint64_t working_bytes = 0;
  bool covers_data = false;  // what makes it stable, if it does, is other than zeroes
  // Of the question whether a range is a hole:
  wire::HolePayload hole{};
  bool looked_behind = false;
};

Replica::Replica(Core& core, DiskHealth& disks, uint64_t held_bytes_max, std::function<void()> drained)
    : core_(core), disks_(disks), held_bytes_max_(held_bytes_max), drained_(std::move(drained)) {}
Replica::~Replica() = default;

void Replica::Op::came_over(const wire::Frame& frame, uint64_t connection, uint64_t now_ns) {
  incarnation = connection;
  read_ns = now_ns;
  arrived_ns = frame.arrived_ns != 0 ? std::min(frame.arrived_ns, now_ns) : now_ns;
}

void Replica::connection_gone(uint64_t incarnation) {
  for (const auto& op : ops_.all()) {
    if (op->incarnation != incarnation) continue;
    op->incarnation = kNoConnection;
    unclaimed_.emplace(op->came_as.sequence, op.get());
  }
}

// Whether nothing is to be begun: the frame asks for what is worked on already, and that is answered over the connection
// that asks now. To begin it anew would let the first one land after what is written once the second has been answered,
// and a flush that takes long would be begun at each parting of the links.
bool Replica::takes_up(const wire::Frame& frame, uint64_t incarnation) {
  const auto at = unclaimed_.find(frame.header.sequence);
  if (at == unclaimed_.end()) return false;
  Op& op = *at->second;
  if (!asks_the_same(op.came_as, frame.header)) {
    core_.refuse(frame.header);
    return true;
  }
  op.came_over(frame, incarnation, core_.clock.now_ns());
  op.sample = op.asks == Op::Asks::kWrite && wire::frame_as<wire::DataFrame>(frame.header).sample;
  unclaimed_.erase(at);
  return true;
}

void Replica::apply(wire::Frame& frame, uint64_t incarnation) {
  if (!unclaimed_.empty() && takes_up(frame, incarnation)) return;
  Op& op = ops_.take(*this);
  op.came_as = frame.header;
  op.came_over(frame, incarnation, core_.clock.now_ns());
  op.keeps_payload = std::move(frame.keeps_payload);
  op.disk.error = 0;
  op.disk.flush_failed = op.disk.fua = op.disk.may_unmap = op.sample = false;
  bool compressed = false;
  switch (static_cast<wire::FrameType>(frame.header.type)) {
    case wire::FrameType::kData: {
      const auto data = wire::frame_as<wire::DataFrame>(frame.header);
      op.take(Op::Asks::kWrite, data);
      op.sample = data.sample;
      compressed = data.compressed;
      op.disk.op = data.zero ? DiskOp::kZero : DiskOp::kWrite;
      op.disk.fua = data.fua;
      op.covers_data = !data.zero || core_.written().any();
      op.disk.may_unmap = data.unmap;
      // The disk only reads from it.
      op.disk.data = const_cast<std::byte*>(frame.payload.data());
      break;
    }
    case wire::FrameType::kFlush:
      op.asks = Op::Asks::kFlush;
      op.disk.op = DiskOp::kFlush;
      op.disk.offset_bytes = op.disk.length_bytes = op.offset_bytes = op.length_bytes = 0;
      op.covers_data = core_.written().any();
      if (flushes_++ == 0) flushing_since_ns_ = op.read_ns;
      break;
    case wire::FrameType::kDigest: {
      const auto digest = wire::frame_as<wire::DigestFrame>(frame.header);
      op.take(digest.hole ? Op::Asks::kHole : Op::Asks::kDigests, digest);
      break;
    }
    default:  // what a primary's own disk does not give it
      disks_.peer().reads_fail();
      op.take(Op::Asks::kBytes, wire::frame_as<wire::ReadFrame>(frame.header));
      break;
  }
  if (busy_++ == 0) {
    got_on_ns_ = op.read_ns;
    looked_before_ = false;
  }
  op.working_bytes =
      sizeof op + frame.payload.size() + (op.body || compressed ? op.length_bytes : 0);
  working_bytes_ += op.working_bytes;
  if (!paused_ && held_bytes() > held_bytes_max_) {
    paused_ = true;
    core_.session.pause_reading(true);
  }
  if (compressed)
    decompress(op, frame);
  else
    start(op);
}

void Replica::decompress(Op& op, const wire::Frame& frame) {
  const size_t length = op.length_bytes;
  if (length > kLongPieceBytes) {
    op.plain = long_pieces_.take();
  } else {
    op.plain = std::make_shared<wire::Slab>();
    op.plain->bytes = std::make_unique_for_overwrite<std::byte[]>(length);
    op.plain->size = length;
  }
  op.compressed = frame.payload;
  core_.workers.run([this, &op] { decompress_now(op); }, [this, &op] { decompressed(op); });
}

// On another thread.
void Replica::decompress_now(Op& op) const {
  const uint64_t began_ns = core_.clock.thread_cpu_ns();
  op.problem = wire::decompress(op.compressed, {op.plain->bytes.get(), op.length_bytes});
  core_.compression().decompressed(core_.clock.thread_cpu_ns() - began_ns);
}

void Replica::decompressed(Op& op) {
  op.keeps_payload = std::move(op.plain);
  op.disk.data = op.keeps_payload->bytes.get();
  if (op.problem.empty() && answering_) {
    start(op);
    return;
  }
  // Of a session that is lost, now or since: what the disk has not begun need not be done.
  if (answering_)
    core_.session.drop(core_.peer + " sent data that can't be decompressed: " + op.problem,
                       limits::kReconnectDelayMax_ns);
  op.keeps_payload.reset();
  release(op);
}

bool Replica::changes_disk(const Op& op) {
  return op.disk.op == DiskOp::kWrite || op.disk.op == DiskOp::kZero;
}

void Replica::start(Op& op) {
  if (changes_disk(op)) core_.worker_view().write_begins(op.disk.offset_bytes, op.disk.length_bytes);
  if (disks_.local_ok()) {
    core_.data.submit(op.disk);
  } else {
    op.disk.error = disks_.data_error();
    op.disk.flush_failed = disks_.flush_failed();
    finished(op);
  }
}

// Whether the disk is asked once more: behind a hole, how far the data goes.
bool Replica::looks_behind(Op& op) {
  const DiskRequest& found = op.disk;
  if (op.looked_behind) {
    op.hole.data_bytes = found.length_bytes;
    return false;
  }
  op.hole = found.is_hole ? wire::HolePayload{found.length_bytes, 0}
                          : wire::HolePayload{0, found.length_bytes};
  if (!found.is_hole || found.length_bytes >= op.length_bytes || !answering_) return false;
  op.looked_behind = true;
  op.disk.offset_bytes = op.offset_bytes + op.hole.zero_bytes;
  op.disk.length_bytes = op.length_bytes - op.hole.zero_bytes;
  core_.data.submit(op.disk);
  return true;
}

// What an answer carries.
std::span<std::byte> Replica::body_of(Op& op) {
  if (op.disk.error != 0) return {};
  if (op.asks == Op::Asks::kHole) {
    op.body = std::make_unique_for_overwrite<std::byte[]>(sizeof op.hole);
    std::memcpy(op.body.get(), &op.hole, sizeof op.hole);
    return {op.body.get(), sizeof op.hole};
  }
  if (!op.body) return {};
  const std::span<std::byte> body(op.body.get(), op.length_bytes);
  return op.asks == Op::Asks::kDigests ? body.first(digest_in_place(body)) : body;
}

void Replica::finished(Op& op) {
  if (op.asks == Op::Asks::kHole && op.disk.error == 0 && looks_behind(op)) return;
  const bool stable = op.disk.op == DiskOp::kFlush || (changes_disk(op) && op.disk.fua);
  if (op.disk.error == 0 && stable && op.covers_data && disks_.local_ok())
    core_.state().hold_data([this, &op] { ended_here(op); });
  else
    ended_here(op);
}

void Replica::ended_here(Op& op) {
  op.keeps_payload.reset();
  if (changes_disk(op)) core_.worker_view().write_ended(op.disk.offset_bytes, op.disk.length_bytes);
  got_on_ns_ = core_.clock.now_ns();
  looked_before_ = false;
  if (op.disk.op == DiskOp::kFlush) {
    TB_CHECK(flushes_ > 0, "a flush that ends has begun");
    --flushes_;
  }
  if (op.disk.error == 0 && op.disk.op == DiskOp::kWrite) core_.written().wrote();
  if (op.disk.error == 0 && changes_disk(op))
    disks_.written(op.disk.offset_bytes, op.disk.length_bytes);
  // One block that can't be read is that block's loss alone.
  if (op.disk.error != 0 && op.disk.op != DiskOp::kRead && op.disk.op != DiskOp::kExtent)
    disks_.replica_disk_failed(op.disk);
  else if (op.disk.error != 0 && disks_.local_ok())
    disks_.read_failed(op.disk.error, op.disk.offset_bytes, op.disk.length_bytes);
  if (answering_) {
    const uint64_t now = core_.clock.now_ns();
    // What a failed flush may have lost is more than this write, which is no want of room, whatever its errno value.
    const int error = changes_disk(op) && op.disk.error != 0 && op.disk.flush_failed ? EIO : op.disk.error;
    const wire::AckFrame ack{.request = op.came_as.sequence,
                             .error = static_cast<uint32_t>(error),
                             .sent_ns = now,
                             .held_ns = now - op.arrived_ns,
                             // (It may have begun before the frame came for the last time.)
                             .disk_ns = std::min(op.disk.finished_ns - op.disk.submitted_ns, now - op.arrived_ns)};
    if (op.sample)
      core_.session.sampler().sample_answer(op.incarnation, op.came_as.sequence, op.arrived_ns, op.read_ns);
    if (const std::span<std::byte> body = body_of(op); !body.empty()) {
      core_.session.answer_unordered(op.incarnation, ack, body, crc32c(body));
      bodies_.push_back(
          {std::move(op.body), op.incarnation, core_.session.links().queued_bytes_total(op.incarnation)});
    } else {
      core_.session.answer_unordered(op.incarnation, ack);
    }
  }
  op.body.reset();
  release(op);
}

void Replica::release(Op& op) {
  TB_CHECK(busy_ > 0 && working_bytes_ >= op.working_bytes, "a request ends once");
  --busy_;
  if (std::exchange(op.incarnation, kNoConnection) == kNoConnection) unclaimed_.erase(op.came_as.sequence);
  working_bytes_ -= op.working_bytes;
  ops_.give_back(op);
  if (answering_)
    resume_if_drained();
  else if (busy_ == 0)
    drained_();
}

void Replica::watch_disk() {
  if (watching_ || still_ns() < limits::kDiskLook_ns) return;
  watching_ = true;
  core_.workers.run([this] { device_work_ = core_.data.device_work(); }, [this] { device_seen(); });
}

void Replica::device_seen() {
  watching_ = false;
  const uint64_t now = core_.clock.now_ns();
  const uint64_t before = std::exchange(device_work_before_, device_work_);
  const bool can_tell = device_work_ != 0;
  if (std::exchange(looked_before_, true) && can_tell && device_work_ != before) got_on_ns_ = now;
  // It is given its time.
  const uint64_t patience_ns = (limits::kBlindFlushPatience - 1) * core_.config.disk_timeout_ns;
  if (!can_tell && flushes_ > 0 && now - flushing_since_ns_ < patience_ns) got_on_ns_ = now;
}

// Including what waits to be sent: acks, and the bodies that they carry.
uint64_t Replica::held_bytes() const { return working_bytes_ + core_.session.links().unsent_bytes(); }

void Replica::resume_if_drained() {
  if (!answering_) return;
  release_sent_bodies();
  if (!paused_ || held_bytes() > held_bytes_max_ / 2) return;
  paused_ = false;
  core_.session.pause_reading(false);
}

void Replica::release_sent_bodies() {
  std::erase_if(bodies_, [this](const Body& body) {
    return body.sent_end_bytes <= core_.session.links().sent_bytes_total(body.incarnation);
  });
}

void Replica::session_lost() {
  answering_ = false;
  paused_ = false;
  bodies_.clear();  // the connections that referenced them are closed
}

}  // namespace twinblock
