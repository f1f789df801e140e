#include "volume/slow_reads.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/checks.h"
#include "base/limits.h"

namespace twinblock {

struct SlowReads::Op final : RangeOwner, PeerRequest {
  explicit Op(SlowReads& slow_reads) : reads(slow_reads) {
    ticket.owner = this;
    disk.op = DiskOp::kRead;
    disk.done = [this](DiskRequest& request) {
      if (request.error == 0) {
        reads.finish(*this, 0);
        return;
      }
      reads.disks_.read_failed(request.error, request.offset_bytes);
      reads.read_from_peer(*this);
    };
  }
  void range_admitted() override { reads.start(*this); }
  void answered(const PeerAnswer& answer) override;

  SlowReads& reads;
  ClientRequest* client = nullptr;
  RangeTicket ticket;
  DiskRequest disk;
  uint32_t pieces_outstanding = 0;
  int error = 0;
  bool reading = false;  // a disk, this node's or the peer's, has it
};

SlowReads::SlowReads(Core& core, DiskHealth& disks) : core_(core), disks_(disks) {}
SlowReads::~SlowReads() = default;

void SlowReads::submit(ClientRequest& request) {
  Op& op = ops_.take(*this);
  ++active_;
  op.client = &request;
  op.pieces_outstanding = 0;
  op.error = 0;
  op.reading = false;
  op.ticket.begin_bytes = request.offset_bytes;
  op.ticket.end_bytes = request.offset_bytes + request.length_bytes;
  if (core_.ranges().enter(op.ticket)) start(op);
}

void SlowReads::start(Op& op) {
  if (core_.reads_wait()) {
    held_.push_back(&op);
    return;
  }
  op.reading = true;
  op.disk.error = op.client->local_error;
  if (op.disk.error != 0) disks_.read_failed(op.disk.error, op.client->offset_bytes);
  if (!disks_.local_ok() || op.disk.error != 0) {
    read_from_peer(op);
    return;
  }
  op.disk.error = 0;
  op.disk.offset_bytes = op.client->offset_bytes;
  op.disk.length_bytes = op.client->length_bytes;
  op.disk.data = op.client->data;
  core_.data.submit(op.disk);
}

void SlowReads::read_from_peer(Op& op) {
  if (!core_.phase().peer_whole()) {
    finish(op, op.disk.error != 0 ? op.disk.error : EIO);
    return;
  }
  const ClientRequest& client = *op.client;
  if (cached(client)) {
    finish(op, 0);
    return;
  }
  const uint64_t piece = limits::kFramePayloadBytesMax;
  op.pieces_outstanding = static_cast<uint32_t>((client.length_bytes + piece - 1) / piece);
  for (uint64_t at = 0; at < client.length_bytes; at += piece)
    core_.session.request_unordered(
        wire::ReadFrame{.offset_bytes = client.offset_bytes + at,
                        .length_bytes = std::min(piece, client.length_bytes - at)},
        op);
}

// Where the peer's replica is the only one, what is known of the contents is answered from the cache, as the peer would
// answer it: it is asked for nothing else, so this node is primary, may read now, and has a whole peer in a session. The
// range is held, by the loop, which alone begins writes: what lies there does not change between the question and the
// answer, and no mark is needed. All of it or nothing: what the peer is asked is one round trip, long or short.
bool SlowReads::cached(const ClientRequest& client) {
  ContentCache* cache = core_.worker_view().cache();
  if (cache == nullptr || !core_.phase().diskless() || !whole_blocks(client)) return false;
  std::vector<bool> found;
  return cache->look(client.offset_bytes / limits::kBlockBytes, {client.data, client.length_bytes}, found) == 0;
}

// The peer has answered, and the range is still held. On the loop, some 600 ns a block beside a round trip.
void SlowReads::keep(const ClientRequest& client) {
  ContentCache* cache = core_.worker_view().cache();
  if (cache == nullptr || !core_.phase().diskless() || !whole_blocks(client)) return;
  cache->keep(client.offset_bytes / limits::kBlockBytes, {client.data, client.length_bytes},
              std::vector<bool>(client.length_bytes / limits::kBlockBytes), [] { return true; });
}

bool SlowReads::whole_blocks(const ClientRequest& client) {
  return client.offset_bytes % limits::kBlockBytes == 0 && client.length_bytes % limits::kBlockBytes == 0;
}

void SlowReads::Op::answered(const PeerAnswer& answer) {
  const uint64_t at = answer.offset_bytes - client->offset_bytes;
  const uint64_t expected =
      std::min<uint64_t>(limits::kFramePayloadBytesMax, client->length_bytes - at);
  if (answer.error != 0)
    error = answer.error;
  else if (answer.payload.size() != expected)
    error = EIO;
  else
    std::memcpy(client->data + at, answer.payload.data(), answer.payload.size());
  if (--pieces_outstanding > 0) return;
  if (error == 0) reads.keep(*client);
  reads.finish(*this, error);
}

void SlowReads::finish(Op& op, int error) {
  TB_CHECK(op.client != nullptr && active_ > 0, "a read is answered once");
  ClientRequest& client = *op.client;
  op.client = nullptr;
  op.pieces_outstanding = 0;
  op.reading = false;
  --active_;
  core_.ranges().release(op.ticket);
  ops_.give_back(op);
  client.error = error;
  client.done(client);
}

void SlowReads::release_held() {
  if (core_.reads_wait()) return;
  for (Op* op : std::exchange(held_, {})) start(*op);
}

// Those that wait for a range wait for another request that is held.
bool SlowReads::all_held() const {
  return std::ranges::none_of(ops_.all(), [](const auto& op) { return op->reading; });
}

void SlowReads::fail_held() {
  for (Op* op : std::exchange(held_, {})) finish(*op, ESHUTDOWN);
}

void SlowReads::peer_lost() {
  std::vector<Op*> lost;
  for (const auto& op : ops_.all())
    if (op->client != nullptr && op->pieces_outstanding > 0) lost.push_back(op.get());
  for (Op* op : lost) finish(*op, EIO);
}

}  // namespace twinblock
