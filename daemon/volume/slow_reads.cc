#include "volume/slow_reads.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/checks.h"
#include "base/limits.h"

namespace twinblock {
namespace {

// Cut at a block's begin; one where there is only one block.
std::vector<ByteRange> halves(const ByteRange& range) {
  constexpr uint64_t kBlock = limits::kBlockBytes;
  const uint64_t first_block_end = (range.begin_bytes / kBlock + 1) * kBlock;
  const uint64_t middle = std::max(first_block_end, (range.begin_bytes + range.length() / 2) / kBlock * kBlock);
  if (middle >= range.end_bytes) return {range};
  return {{range.begin_bytes, middle}, {middle, range.end_bytes}};
}

}  // namespace

// Of a request, what is read at a time: all of it, if one disk gives that.
struct SlowReads::Part {
  uint64_t at_bytes;  // within the request
  uint64_t length_bytes;
  bool peer_first = false;  // this disk could not be read at some place of what this was a part of
  bool failed_here = false, failed_there = false;
};

struct SlowReads::Op final : RangeOwner, PeerRequest {
  explicit Op(SlowReads& slow_reads) : reads(slow_reads) {
    ticket.owner = this;
    disk.op = DiskOp::kRead;
    disk.done = [this](DiskRequest&) { reads.disk_answered(*this); };
  }
  void range_admitted() override { reads.start(*this); }
  void answered(const PeerAnswer& answer) override;
  // Nothing has been asked for it yet.
  void begin() {
    disk.error = 0;
    left.assign(1, {.at_bytes = 0, .length_bytes = client->length_bytes});
    is_apart = false;
    pieces_outstanding = 0;
    error = 0;
    found.clear();
    lacking.clear();
    asked_for.clear();
    awaited = 0;
    reading = false;
  }

  SlowReads& reads;
  ClientRequest* client = nullptr;
  RangeTicket ticket;
  DiskRequest disk;
  std::vector<Part> left;  // the last one is read now, or is next
  bool is_apart = false;   // they are not all of it
  uint32_t pieces_outstanding = 0;
  int error = 0;  // the peer's
  // Of a read whose blocks a cache may have. The peer is not asked for those that are found: they are here, or come
  // for another read.
  std::vector<bool> found;
  size_t awaited = 0;                 // of the latter
  std::vector<size_t> lacking;        // … which did not come, and are to be asked for
  std::vector<ContentTag> asked_for;  // contents that others may be waiting for
  bool reading = false;  // a disk, this node's or the peer's, has it
};

SlowReads::SlowReads(Core& core, DiskHealth& disks)
    : core_(core), disks_(disks), patience_(core.clock.make_timer([this] { at_patience(); })) {}
SlowReads::~SlowReads() = default;

void SlowReads::submit(ClientRequest& request) {
  Op& op = ops_.take(*this);
  ++active_;
  op.client = &request;
  op.begin();
  op.ticket.begin_bytes = request.offset_bytes;
  op.ticket.end_bytes = request.offset_bytes + request.length_bytes;
  if (core_.ranges().enter(op.ticket)) start(op);
}

void SlowReads::start(Op& op) {
  op.begin();
  if (core_.stance().reads_wait()) {
    hold(op);
    return;
  }
  const ClientRequest& client = *op.client;
  op.reading = true;
  if (failed_beside_the_loop(client)) {
    op.disk.error = client.local_error;
    op.left.back().failed_here = true;
    disks_.read_failed(client.local_error, client.offset_bytes, client.length_bytes);
  }
  read_part(op);
}

// What has been written there since the worker asked may have mended the place: a disk takes seconds to say that it
// can't be read. The range is held, so that nothing else comes in between.
bool SlowReads::failed_beside_the_loop(const ClientRequest& client) const {
  return client.local_error != 0 &&
         core_.worker_view().unchanged(client.offset_bytes, client.length_bytes, client.local_mark);
}

// A peer that is being brought up to date has what is not missed.
bool SlowReads::peer_has(uint64_t offset_bytes, uint64_t length_bytes) const {
  return core_.phase().peer_whole() ||
         (core_.phase().attached() && !core_.differences().dirty().any(offset_bytes, length_bytes));
}

bool SlowReads::peer_is_waited_for() const {
  return disks_.peer_is_waited_for() || core_.stance().bad_places_wait();
}

void SlowReads::read_part(Op& op) {
  const Part& part = op.left.back();
  const bool here = disks_.local_ok() && !part.failed_here;
  const bool there = !part.failed_there && peer_has(op.client->offset_bytes + part.at_bytes, part.length_bytes);
  if (there && (part.peer_first || !here)) {
    read_from_peer(op);
  } else if (here) {
    read_here(op);
  } else if (take_apart(op)) {
    read_part(op);
  } else if (part.failed_there) {
    finish(op, op.error);
  } else if (peer_is_waited_for()) {
    hold(op);
  } else {
    finish(op, op.disk.error != 0 ? op.disk.error : EIO);
  }
}

void SlowReads::hold(Op& op) {
  op.reading = false;
  held_.push_back(&op);
}

void SlowReads::read_here(Op& op) {
  if (core_.stance().reads_wait()) {
    hold(op);
    return;
  }
  const Part& part = op.left.back();
  op.disk.error = 0;
  op.disk.offset_bytes = op.client->offset_bytes + part.at_bytes;
  op.disk.length_bytes = part.length_bytes;
  op.disk.data = op.client->data + part.at_bytes;
  core_.data.submit(op.disk);
}

// Neither disk gives all of the part; but each of its blocks may be good on one of the two. False: that is no help.
bool SlowReads::take_apart(Op& op) {
  if (!disks_.local_ok() || !core_.phase().attached()) return false;
  const Part whole = op.left.back();
  const uint64_t begin = op.client->offset_bytes + whole.at_bytes;
  const auto parts = peer_has(begin, whole.length_bytes) ? halves({begin, begin + whole.length_bytes})
                                                         : by_who_has_them({begin, begin + whole.length_bytes});
  if (parts.size() < 2) return false;
  op.is_apart = true;
  op.left.pop_back();
  for (auto part = parts.rbegin(); part != parts.rend(); ++part)
    op.left.push_back({.at_bytes = part->begin_bytes - op.client->offset_bytes,
                       .length_bytes = part->length(),
                       .peer_first = peer_has(part->begin_bytes, part->length()) && !whole.failed_there});
  return true;
}

// What the peer misses is read here, and all else there.
std::vector<ByteRange> SlowReads::by_who_has_them(const ByteRange& range) const {
  std::vector<ByteRange> parts;
  bool last = false;
  for (uint64_t at = range.begin_bytes; at < range.end_bytes;) {
    const uint64_t end = std::min(range.end_bytes, (at / limits::kBlockBytes + 1) * limits::kBlockBytes);
    const bool has = peer_has(at, end - at);
    if (std::exchange(last, has) != has || parts.empty()) parts.push_back({at, at});
    parts.back().end_bytes = at = end;
  }
  return parts;
}

void SlowReads::disk_answered(Op& op) {
  if (op.disk.error == 0) {
    if (op.is_apart) disks_.read_well(op.disk.offset_bytes, op.disk.length_bytes);
    part_ended(op);
    return;
  }
  op.left.back().failed_here = true;
  disks_.read_failed(op.disk.error, op.disk.offset_bytes, op.disk.length_bytes);
  read_part(op);
}

void SlowReads::part_ended(Op& op) {
  op.left.pop_back();
  if (op.left.empty())
    finish(op, 0);
  else
    read_part(op);
}

void SlowReads::read_from_peer(Op& op) {
  op.error = 0;
  ContentCache* cache = op.is_apart ? nullptr : cache_for(*op.client);
  if (cache != nullptr) look(*cache, op);
  ask_for_what_is_missing(op);
  end_if_whole(op);
}

// Where the peer's replica is the only one, what is known of the contents is answered from the cache, as the peer would
// answer it: it is asked for nothing else, so this node is primary and has a whole peer in a session. Whether it may
// still be, the peer is not asked for each read: it has answered a heartbeat so lately that it can't have given this node up
// and been promoted since. The range is held, by the loop, which alone begins writes: what lies there does not change
// between the question and the answer, and no mark is needed.
ContentCache* SlowReads::cache_for(const ClientRequest& client) {
  const bool whole_blocks =
      client.offset_bytes % limits::kBlockBytes == 0 && client.length_bytes % limits::kBlockBytes == 0;
  const bool peer_waits = core_.clock.now_ns() < core_.stance().peer_waits_until_ns();
  return core_.phase().diskless() && whole_blocks && peer_waits ? core_.worker_view().cache() : nullptr;
}

// What is here is copied. What is on its way for another read, by its digest, is waited for: machines that do the same
// at the same time ask for equal blocks before the first of them has come. Not for long: the place that the other one reads may
// be one that the peer's disk is busy with.
void SlowReads::look(ContentCache& cache, Op& op) {
  const ClientRequest& client = *op.client;
  const std::vector<PlaceIndex::Place> places =
      cache.places(client.offset_bytes / limits::kBlockBytes, client.length_bytes / limits::kBlockBytes);
  if (cache.look(places, {client.data, client.length_bytes}, op.found) == 0) return;
  const uint64_t now = core_.clock.now_ns();
  for (size_t block = 0; block < places.size(); ++block) {
    if (op.found[block] || !places[block].known) continue;
    const auto [at, is_new] = coming_.try_emplace(places[block].tag, Coming{now + limits::kJoinedReadPatience_ns, {}});
    Coming& coming = at->second;
    if (is_new) {
      op.asked_for.push_back(places[block].tag);
      continue;
    }
    if (now >= coming.until_ns) continue;
    coming.waiting.emplace_back(&op, block);
    if (!patience_->armed() || coming.until_ns < patience_until_ns_) wait_until(coming.until_ns);
    op.found[block] = true;
    ++op.awaited;
  }
}

void SlowReads::ask(Op& op, uint64_t at_bytes, uint64_t length_bytes) {
  const uint64_t piece = limits::kFramePayloadBytesMax;
  for (const uint64_t end = at_bytes + length_bytes; at_bytes < end; at_bytes += piece) {
    ++op.pieces_outstanding;
    core_.session.request_unordered(wire::ReadFrame{.offset_bytes = op.client->offset_bytes + at_bytes,
                                                    .length_bytes = std::min(piece, end - at_bytes)},
                                    op);
  }
}

void SlowReads::ask_for_what_is_missing(Op& op) {
  if (op.found.empty()) {
    ask(op, op.left.back().at_bytes, op.left.back().length_bytes);
    return;
  }
  for (size_t begin = 0; begin < op.found.size(); ++begin) {
    if (op.found[begin]) continue;
    size_t end = begin;
    while (end < op.found.size() && !op.found[end]) ++end;
    ask(op, begin * limits::kBlockBytes, (end - begin) * limits::kBlockBytes);
    begin = end;
  }
}

void SlowReads::Op::answered(const PeerAnswer& answer) {
  const uint64_t at = answer.offset_bytes - client->offset_bytes;
  // What was asked for: up to a block that was not, or a whole piece.
  const uint64_t end = left.back().at_bytes + left.back().length_bytes;
  uint64_t expected = std::min<uint64_t>(limits::kFramePayloadBytesMax, end - at);
  for (uint64_t block = 0; !found.empty() && block * limits::kBlockBytes < expected; ++block)
    if (found[at / limits::kBlockBytes + block]) expected = block * limits::kBlockBytes;
  if (answer.error != 0) {
    error = answer.error;
    reads.disks_.peer().reads_fail();
  } else if (answer.payload.size() != expected) {
    error = EIO;
  } else {
    std::memcpy(client->data + at, answer.payload.data(), answer.payload.size());
  }
  if (--pieces_outstanding == 0) reads.arrived(*this);
}

// All that the peer was asked for, and the range is still held. What is kept costs some 600 ns a block, on the loop,
// beside a round trip.
void SlowReads::arrived(Op& op) {
  ContentCache* cache = cache_for(*op.client);
  if (op.error == 0 && cache != nullptr && !op.found.empty())
    cache->keep(op.client->offset_bytes / limits::kBlockBytes, {op.client->data, op.client->length_bytes},
                op.found, [] { return true; });
  op.found.assign(op.found.size(), true);
  if (!op.asked_for.empty()) hand_on(*core_.worker_view().cache(), op);
  go_on(op);
}

// To those who waited for what this one has asked for.
void SlowReads::hand_on(ContentCache& cache, Op& op) {
  std::vector<Op*> others;
  for (const ContentTag& tag : std::exchange(op.asked_for, {})) {
    const auto at = coming_.find(tag);
    const Waiting waiting = std::move(at->second.waiting);
    coming_.erase(at);
    for (const auto& [other, block] : waiting) {
      --other->awaited;
      // It did not come, did not stay, or is not what it was taken for.
      if (!cache.copy(tag, other->client->data + block * limits::kBlockBytes)) other->lacking.push_back(block);
      if (other != &op && std::ranges::find(others, other) == others.end()) others.push_back(other);
    }
  }
  for (Op* other : others)
    if (other->pieces_outstanding == 0) go_on(*other);
}

void SlowReads::wait_until(uint64_t moment_ns) {
  patience_until_ns_ = moment_ns;
  patience_->arm(moment_ns - core_.clock.now_ns());
}

// What has not come in time is asked for by those who waited.
void SlowReads::at_patience() {
  const uint64_t now = core_.clock.now_ns();
  uint64_t next_ns = UINT64_MAX;
  std::vector<Op*> others;
  for (auto& [tag, coming] : coming_) {
    if (coming.waiting.empty()) continue;
    if (now < coming.until_ns) {
      next_ns = std::min(next_ns, coming.until_ns);
      continue;
    }
    for (const auto& [other, block] : std::exchange(coming.waiting, {})) {
      --other->awaited;
      other->lacking.push_back(block);
      if (std::ranges::find(others, other) == others.end()) others.push_back(other);
    }
  }
  if (next_ns != UINT64_MAX) wait_until(next_ns);
  for (Op* other : others)
    if (other->pieces_outstanding == 0) go_on(*other);
}

// Nothing is on its way from the peer for this one.
void SlowReads::go_on(Op& op) {
  for (const size_t block : std::exchange(op.lacking, {})) op.found[block] = false;
  if (!op.found.empty()) ask_for_what_is_missing(op);
  end_if_whole(op);
}

void SlowReads::end_if_whole(Op& op) {
  if (op.pieces_outstanding > 0 || op.awaited > 0) return;
  if (op.error == 0) {
    part_ended(op);
    return;
  }
  op.left.back().failed_there = true;
  read_part(op);
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
  if (core_.stance().reads_wait()) return;
  for (Op* op : std::exchange(held_, {})) {
    // The disk has said that it can't: it is not asked for that all the time.
    const ClientRequest& client = *op->client;
    if (op->disk.error != 0 && !peer_has(client.offset_bytes, client.length_bytes) && peer_is_waited_for())
      held_.push_back(op);
    else
      start(*op);
  }
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
  coming_.clear();
  for (const auto& op : ops_.all())
    if (op->client != nullptr && (op->pieces_outstanding > 0 || op->awaited > 0)) lost.push_back(op.get());
  for (Op* op : lost) {
    if (peer_is_waited_for())
      start(*op);
    else
      finish(*op, EIO);
  }
}

}  // namespace twinblock
