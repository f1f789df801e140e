#include "volume/write_path.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/checks.h"
#include "base/limits.h"

namespace twinblock {
namespace {

// A piece is as long as what it stands for, but where it is compressed. Zeroes have none.
uint64_t saved_by_compression(const ClientRequest& write) {
  uint64_t left = write.length_bytes, saved = 0;
  for (const WirePiece& piece : write.pieces) {
    const uint64_t length = std::min(write.piece_bytes, left);
    if (piece.compressed) saved += length - piece.payload.size();
    left -= length;
  }
  return saved;
}

bool gives_data(const ClientRequest& request) { return request.op == ClientOp::kWrite && !request.all_zero; }

bool all_on_record(const metadata::IntentStore& intents, const ClientRequest& write) {
  const uint64_t end_bytes = write.offset_bytes + write.length_bytes;
  const uint64_t region_bytes = intents.region_bytes();
  for (uint64_t at = write.offset_bytes; at < end_bytes; at = (at / region_bytes + 1) * region_bytes)
    if (!intents.any(at, 1)) return false;
  return true;
}

}  // namespace

struct WritePath::Op final : RangeOwner, PeerRequest, metadata::IntentStore::Waiter {
  explicit Op(WritePath& write_path) : path(write_path) {
    ticket.owner = this;
    disk.done = [this](DiskRequest&) { path.local_done(*this); };
  }
  void range_admitted() override { path.start(*this); }
  void intent_recorded(int error) override { path.intent_recorded(*this, error); }
  // Of several pieces, the last one counts.
  void timed(const PeerTrip& trip) override {
    times.peer = true;
    times.trip = trip;
  }
  void answered(const PeerAnswer& answer) override { path.piece_answered(*this, answer); }

  WritePath& path;
  ClientRequest* client = nullptr;
  RangeTicket ticket;
  DiskRequest disk;
  size_t active_slot = 0;
  uint32_t pieces_outstanding = 0;
  uint64_t unsent_bytes = 0;  // of zeroes for the peer, …
  uint64_t flying_bytes = 0;  // … and of those, what it has not answered
  bool started = false;
  bool local_pending = false;
  bool on_local = false;  // the local disk has it
  bool on_peer = false;   // it was sent to the peer and the session still stands
  int peer_error = 0;     // … which had no room for it, or a part of it, and is all there is
  bool held = false;
  WriteTimes times;
};

WritePath::WritePath(Core& core, SimplexGate& gate, DiskHealth& disks) : core_(core), gate_(gate), disks_(disks) {}
WritePath::~WritePath() = default;

WritePath::Op& WritePath::new_op() {
  Op& op = ops_.take(*this);
  op.started = op.local_pending = op.on_local = op.on_peer = op.held = false;
  op.pieces_outstanding = 0;
  op.unsent_bytes = op.flying_bytes = 0;
  op.times = {};
  return op;
}

void WritePath::submit(ClientRequest& request) {
  TB_CHECK(request.length_bytes > 0 && request.offset_bytes < core_.volume_bytes() &&
               request.length_bytes <= core_.volume_bytes() - request.offset_bytes,
           "the plugin passes ranges inside the volume only");
  if (request.fast_only && !(core_.data.fast_zero() && (!core_.phase().attached() || peer_fast_zero_))) {
    request.error = EOPNOTSUPP;
    request.done(request);
    return;
  }
  last_write_ns_ = core_.clock.now_ns();
  waiting_.push_back(&request);
  admit_waiting();
}

void WritePath::admit_waiting() {
  while (!waiting_.empty() && active_.size() < room_) {
    const ClientRequest& next = *waiting_.front();
    const uint64_t bytes = next.op == ClientOp::kWrite ? next.length_bytes : 0;
    if (active_bytes_ > 0 && active_bytes_ + bytes > limits::kWriteBytesInFlightMax) return;
    waiting_.pop_front();
    admit(const_cast<ClientRequest&>(next));
  }
}

void WritePath::admit(ClientRequest& request) {
  Op& op = new_op();
  op.client = &request;
  op.ticket.begin_bytes = request.offset_bytes;
  op.ticket.end_bytes = request.offset_bytes + request.length_bytes;
  op.active_slot = active_.size();
  active_.push_back(&op);
  if (request.op == ClientOp::kWrite) active_bytes_ += request.length_bytes;
  if (core_.ranges().enter(op.ticket)) start(op);
}

void WritePath::start(Op& op) {
  const ClientRequest& client = *op.client;
  const uint64_t now = core_.clock.now_ns();
  if (!op.started) {
    core_.worker_view().write_begins(client.offset_bytes, client.length_bytes);
    op.times.admitted_ns = now;
  }
  op.started = true;
  if (core_.stance().frozen()) {
    op.held = true;
    held_.push_back(&op);
    return;
  }
  const bool stood_in_for = core_.phase().diskless();
  if ((!disks_.local_ok() && !core_.phase().attached()) ||
      (core_.state().role().may_pass_for_secondary() && !stood_in_for)) {
    finish(op, EIO);
    return;
  }
  // This node's disks can't say any more that the region may differ, and the peer can't yet.
  if (core_.phase().now() == Phase::kLeaving) {
    op.held = true;
    before_sole_copy_.push_back(&op);
    return;
  }
  // That the region may differ is on record before either disk sees the write (invariant 3).
  if (disks_.local_ok() && !core_.intents().covered(client.offset_bytes, client.length_bytes)) {
    const int error = core_.intents().cover(
        client.offset_bytes, intent_length(client.offset_bytes, client.length_bytes), op);
    if (error != 0) intent_recorded(op, error);
    return;
  }
  op.on_local = op.on_peer = false;
  op.peer_error = 0;
  op.unsent_bytes = op.flying_bytes = 0;
  op.times.started_ns = now;
  // The wire first: it takes longest.
  if (core_.phase().attached())
    send_pieces(op);
  else
    core_.differences().missed(client.offset_bytes, client.length_bytes);
  if (disks_.local_ok()) submit_local(op);
}

// Some regions more for who seems to write in sequence, so that he does not wait for a flush at
// each of them; those that he does not reach age out.
uint64_t WritePath::intent_length(uint64_t offset_bytes, uint64_t length_bytes) const {
  const uint64_t region = core_.intents().region_bytes();
  const uint64_t here = offset_bytes / region * region;
  if (here == 0 || !core_.intents().any(here - region, region)) return length_bytes;
  const uint64_t rest = core_.volume_bytes() - offset_bytes;
  return std::min(rest, length_bytes + limits::kIntentAheadRegions * region);
}

void WritePath::intent_recorded(Op& op, int error) {
  if (error != 0) {
    disks_.metadata_failed(error);
    if (disks_.local_ok()) {  // nobody stands in
      finish(op, EIO);
      return;
    }
  }
  start(op);
}

void WritePath::touch_intents() {
  for (const Op* op : active_)
    (void)core_.intents().covered(op->client->offset_bytes, op->client->length_bytes);
}

void WritePath::send_pieces(Op& op) {
  const ClientRequest& client = *op.client;
  op.on_peer = true;
  if (client.op == ClientOp::kZero || client.all_zero) {
    op.unsent_bytes = client.length_bytes;
    zeroing_.push_back(&op);
    send_zeroes();
    return;
  }
  wire::DataFrame data{.fua = client.fua};
  op.pieces_outstanding = static_cast<uint32_t>((client.length_bytes + client.piece_bytes - 1) / client.piece_bytes);
  TB_CHECK(client.pieces.size() == op.pieces_outstanding, "the pieces cover the range");
  uint64_t at = 0;
  for (const WirePiece& piece : client.pieces) {
    data.offset_bytes = client.offset_bytes + at;
    data.length_bytes = std::min(client.piece_bytes, client.length_bytes - at);
    data.compressed = piece.compressed;
    at += data.length_bytes;
    core_.session.request_unordered(data, op, piece.payload, piece.crc);
  }
}

// Zeroes cost the peer's disk more than they cost the wire: they go in pieces, and only so many at
// a time, so that each is answered soon by a disk that works.
void WritePath::send_zeroes() {
  while (!zeroing_.empty()) {
    Op& op = *zeroing_.front();
    const uint64_t length = std::min(core_.zeroes.piece_bytes, op.unsent_bytes);
    if (zero_bytes_in_flight_ > 0 && zero_bytes_in_flight_ + length > core_.zeroes.in_flight_max_bytes)
      return;
    // One flush for all pieces: with the last one, when the others are done.
    const bool last = length == op.unsent_bytes;
    if (last && op.client->fua && op.pieces_outstanding > 0) return;
    send_zero_piece(op);
    if (last) zeroing_.pop_front();
  }
}

void WritePath::send_zero_piece(Op& op) {
  const ClientRequest& client = *op.client;
  wire::DataFrame zeroes{
      .offset_bytes = client.offset_bytes + client.length_bytes - op.unsent_bytes,
      .length_bytes = std::min(core_.zeroes.piece_bytes, op.unsent_bytes),
      .zero = true,
      .unmap = client.may_unmap};
  op.unsent_bytes -= zeroes.length_bytes;
  op.flying_bytes += zeroes.length_bytes;
  zero_bytes_in_flight_ += zeroes.length_bytes;
  zeroes.fua = client.fua && op.unsent_bytes == 0;
  ++op.pieces_outstanding;
  core_.session.request_unordered(zeroes, op);
}

// A piece was answered. The last one may be shorter; what it was too much comes off at the end.
void WritePath::zeroes_landed(Op& op) {
  const bool last = op.pieces_outstanding == 0;
  const uint64_t bytes = last ? op.flying_bytes : std::min(core_.zeroes.piece_bytes, op.flying_bytes);
  TB_CHECK(zero_bytes_in_flight_ >= bytes, "zeroes that landed were in flight");
  op.flying_bytes -= bytes;
  zero_bytes_in_flight_ -= bytes;
  send_zeroes();
}

void WritePath::submit_local(Op& op) {
  const ClientRequest& client = *op.client;
  op.local_pending = true;
  if (client.op == ClientOp::kZero) {
    zero_locally(op, 0);
    return;
  }
  op.disk.op = DiskOp::kWrite;
  op.disk.fua = client.fua;
  op.disk.error = 0;
  op.disk.flush_failed = false;
  op.disk.offset_bytes = client.offset_bytes;
  op.disk.length_bytes = client.length_bytes;
  op.disk.data = client.data;
  core_.data.submit(op.disk);
}

// One piece after the other, so that a long range does not keep the disk's threads from others.
void WritePath::zero_locally(Op& op, uint64_t done_bytes) {
  const ClientRequest& client = *op.client;
  const uint64_t length = std::min(core_.zeroes.piece_bytes, client.length_bytes - done_bytes);
  op.disk.op = DiskOp::kZero;
  op.disk.fua = client.fua && done_bytes + length == client.length_bytes;
  op.disk.may_unmap = client.may_unmap;
  op.disk.error = 0;
  op.disk.offset_bytes = client.offset_bytes + done_bytes;
  op.disk.length_bytes = length;
  core_.data.submit(op.disk);
}

// Up to where the local disk has got.
uint64_t WritePath::local_bytes(const Op& op) {
  return op.disk.offset_bytes + op.disk.length_bytes - op.client->offset_bytes;
}

void WritePath::local_done(Op& op) {
  if (op.disk.error == 0 && local_bytes(op) < op.client->length_bytes && disks_.local_ok()) {
    zero_locally(op, local_bytes(op));
    return;
  }
  // Zeroes make stable what was written before them, too.
  const bool stable = op.client->fua && (gives_data(*op.client) || core_.written().any());
  if (op.disk.error == 0 && stable && disks_.local_ok())
    core_.state().hold_data([this, &op] { ended_here(op); });
  else
    ended_here(op);
}

void WritePath::ended_here(Op& op) {
  op.local_pending = false;
  op.times.local_ns = op.disk.finished_ns;
  op.on_local = op.disk.error == 0 && local_bytes(op) == op.client->length_bytes;
  if (op.on_local && gives_data(*op.client)) core_.written().wrote();
  TB_CHECK(!op.on_local || all_on_record(core_.intents(), *op.client),
           "each region is on record for as long as it is written (invariant 3)");
  if (op.on_local) disks_.written(op.client->offset_bytes, op.client->length_bytes);
  if (op.disk.error != 0 && op.on_peer)
    disks_.write_failed_beside_peer(op.disk);
  else if (op.disk.error != 0)
    disks_.local_disk_failed(op.disk);
  settle(op);
}

void WritePath::piece_answered(Op& op, const PeerAnswer& answer) {
  TB_CHECK(op.pieces_outstanding > 0, "the peer answers each piece once");
  --op.pieces_outstanding;
  if (answer.error != 0) {
    // Else the session has ended, which has come back as peer_lost() and settled this write, too.
    if (!disks_.peer().lacks_room(answer.error, "writing")) return;
    op.peer_error = answer.error;
  }
  if (op.flying_bytes > 0) zeroes_landed(op);
  if (answer.error == 0 && gives_data(*op.client)) disks_.peer().has_room();
  if (answer.error == 0) learn(*op.client, answer);
  settle(op);
}

// What the peer needs for compressed pieces and for raw ones, its disk's work apart.
void WritePath::learn(const ClientRequest& client, const PeerAnswer& answer) {
  if (core_.compression().setting().mode != Compression::kAuto || client.pieces.empty()) return;
  const uint64_t index = (answer.offset_bytes - client.offset_bytes) / client.piece_bytes;
  if (index >= client.pieces.size() || answer.held_ns < answer.disk_ns) return;
  core_.compression().peer_took(std::min(client.piece_bytes, client.length_bytes),
                              client.pieces[index].compressed, answer.held_ns - answer.disk_ns);
}

void WritePath::settle(Op& op) {
  if (op.local_pending || op.pieces_outstanding > 0 || op.unsent_bytes > 0 || op.held) return;
  const ClientRequest& client = *op.client;
  if (!op.on_peer) {
    settle_alone(op);
    return;
  }
  core_.differences().acknowledged(client.offset_bytes, client.length_bytes);
  if (op.peer_error != 0) {  // what this disk has of it counts no more
    finish(op, op.peer_error);
    return;
  }
  // It found no room here; or it failed while the peer was not whole, and a resync has ended since, which knew nothing
  // of this block. The peer has it, and stands in.
  if (!op.on_local && core_.phase().attachment() == Attachment::kDuplex) {
    if (op.disk.error == 0) op.disk.error = EIO;
    disks_.local_disk_failed(op.disk);
  }
  if (op.on_local) {
    finish(op, 0);
  } else if (!core_.phase().diskless()) {
    // The peer is not whole: it can't stand in for the local disk. It gets what is here.
    core_.differences().missed(client.offset_bytes, client.length_bytes);
    finish(op, op.disk.error != 0 ? op.disk.error : EIO);
  } else if (core_.phase().now() == Phase::kDiskless) {
    finish(op, 0);
  } else {
    for_sole_copy_.push_back(&op);
  }
}

// The write is not, or not for sure, at the peer.
void WritePath::settle_alone(Op& op) {
  core_.differences().missed(op.client->offset_bytes, op.client->length_bytes);
  // A replica that was given up is on record as no good, whatever its disk still takes: nothing is
  // promised on it alone. A peer that stands in, or that was left and may have more room, takes the write anew.
  if (!disks_.local_ok()) {
    start(op);
    return;
  }
  if (!op.on_local && !core_.stance().stands_aside()) {
    finish(op, op.disk.error != 0 ? op.disk.error : EIO);
    return;
  }
  // The peer takes part again, and may go on by itself the next time: it takes the write, too.
  if (core_.phase().attached() && !core_.stance().may_promise_alone()) {
    start(op);
    return;
  }
  if (core_.stance().frozen()) {
    op.held = true;
    held_.push_back(&op);
    return;
  }
  gate_.pass([this, &op](int error) {
    if (error == EAGAIN)
      settle_alone(op);
    else
      finish(op, error == 0 ? 0 : EIO);
  });
}

void WritePath::finish(Op& op, int error) {
  ClientRequest& client = *op.client;
  TB_CHECK(!op.local_pending, "a write is answered when the local disk is done with it");
  TB_CHECK(error != 0 || op.on_local || (op.on_peer && core_.phase().now() == Phase::kDiskless),
           "what is acknowledged is on this disk, or at a peer that knows itself as the only copy");
  TB_CHECK(op.active_slot < active_.size() && active_[op.active_slot] == &op, "a write is answered once");
  // The range is still held: nothing has begun since that would change what lies there.
  if (ContentCache* cache = core_.worker_view().cache(); cache != nullptr && error == 0)
    cache->written(client.offset_bytes, client.tags);
  core_.worker_view().write_ended(client.offset_bytes, client.length_bytes);
  active_[op.active_slot] = active_.back();
  active_[op.active_slot]->active_slot = op.active_slot;
  active_.pop_back();
  if (client.op == ClientOp::kWrite) active_bytes_ -= client.length_bytes;
  if (client.op == ClientOp::kWrite) {
    core_.counters().wrote(client.length_bytes);
    record_times(op);
  } else {
    core_.counters().zeroed();
  }
  op.client = nullptr;
  client.error = error;
  client.done(client);
  core_.ranges().release(op.ticket);
  ops_.give_back(op);
  admit_waiting();
  if (holder_ != nullptr && active_.empty()) holder_->drained();
}

void WritePath::record_times(Op& op) {
  const ClientRequest& client = *op.client;
  WriteTimes& times = op.times;
  times.received_ns = client.received_ns;
  times.prepared_ns = client.prepared_ns;
  times.compression_ns = client.compression_ns;
  times.done_ns = core_.clock.now_ns();
  core_.latency().record(times, client.offset_bytes, client.length_bytes, 1 + active_.size() + waiting_.size(),
                         {.to_peer = op.on_peer, .zeroes = client.all_zero,
                          .saved_bytes = saved_by_compression(client)});
}

void WritePath::peer_lost() {
  for_sole_copy_.clear();
  zeroing_.clear();
  zero_bytes_in_flight_ = 0;
  // Settling a write may admit others, which are not the lost session's.
  std::vector<Op*> lost;
  for (Op* op : active_)
    if (op->on_peer) lost.push_back(op);
  for (Op* op : lost) {
    op->on_peer = false;
    op->pieces_outstanding = 0;
    op->unsent_bytes = op->flying_bytes = 0;
    core_.differences().missed(op->client->offset_bytes, op->client->length_bytes);
  }
  core_.differences().peer_lost();
  for (Op* op : lost) settle(*op);
  start_held(before_sole_copy_);
}

BlockMap WritePath::dirty_without_peer() const {
  BlockMap blocks = core_.differences().without_peer(core_.volume_bytes());
  for (const Op* op : active_)
    if (op->on_peer) blocks.set(op->client->offset_bytes, op->client->length_bytes);
  return blocks;
}

void WritePath::release_held() {
  if (!core_.stance().frozen()) start_held(held_);
}

void WritePath::start_held(std::vector<Op*>& held) {
  for (Op* op : std::exchange(held, {})) {
    op->held = false;
    start(*op);
  }
}

bool WritePath::all_held() const {
  return std::ranges::all_of(active_, [](const Op* op) { return op->held || !op->started; });
}

bool WritePath::hold(WriteHold& by) {
  TB_CHECK(holder_ == nullptr, "one holds writes back at a time");
  holder_ = &by;
  room_ = 0;
  return active_.empty();
}

void WritePath::let_go_on() {
  holder_ = nullptr;
  room_ = limits::kWritesInFlightMax;
  admit_waiting();
}

void WritePath::fail_held() {
  if (holder_ != nullptr) holder_->hold_denied();
  for (Op* op : std::exchange(held_, {})) finish(*op, ESHUTDOWN);
}

void WritePath::sole_copy_recorded() {
  for (Op* op : std::exchange(for_sole_copy_, {})) finish(*op, 0);
  start_held(before_sole_copy_);
}

}  // namespace twinblock
