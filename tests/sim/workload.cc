#include "workload.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/crc32c.h"
#include "base/limits.h"
#include "report.h"
#include "wire/compression.h"

namespace twinblock::sim {
namespace {

constexpr uint64_t kLookForOthers_ns = 20'000;
constexpr uint64_t kFailedReadMax_ns = 300 * kMillisecond_ns;

}  // namespace

Workload::Workload(Scheduler& scheduler, History& history, const Options& options, Random random,
                   Answered answered)
    : scheduler_(scheduler),
      history_(history),
      options_(options),
      random_(random),
      piece_random_(random),
      keep_random_(random),
      answered_(std::move(answered)) {}

void Workload::open(SimNode& node) {
  // By name, as who is back after a process does: a client that leaves without a write has been there, too.
  if (Status opened = node.engine().clients().opened(node.engine().status().mine.term); !opened)
    Report::violation("the new primary refuses its client: " + opened.error().what);
  node_ = &node;
  acknowledged_.assign(options_.volume_bytes / kSectorBytes, kUnknown);
  ++opened_;
  go_on();
}

uint64_t Workload::longest_wait_ns() const {
  return requests_.empty() ? 0 : scheduler_.now_ns() - requests_.begin()->second->began_ns;
}

void Workload::go_on() {
  issuing_ = true;
  next_due_ = false;
  next(0);
}

void Workload::burst() {
  while (issuing_ && requests_.size() < options_.depth) issue();
}

void Workload::close() {
  node_->engine().clients().closed();
  node_ = nullptr;
  issuing_ = false;
}

void Workload::abandon() {
  requests_.clear();
  node_ = nullptr;
  issuing_ = false;
  ++opened_;
}

void Workload::next(uint64_t delay_ns) {
  if (std::exchange(next_due_, true)) return;
  scheduler_.after(delay_ns, node_->process(), [this, opened = opened_] {
    if (opened != opened_) return;
    next_due_ = false;
    if (!issuing_) return;
    const uint64_t burst = random_.chance(0.2) ? random_.between(1, options_.depth) : 1;
    for (uint64_t i = 0; i < burst && requests_.size() < options_.depth && issuing_; ++i) issue();
    if (issuing_) next(random_.below(options_.think_max_ns));
  });
}

Workload::Request& Workload::add(ClientOp op) {
  auto request = std::make_unique<Request>();
  Request& added = *request;
  added.id = next_id_++;
  added.client.op = op;
  added.began_ns = scheduler_.now_ns();
  added.client.received_ns = node_->clock().now_ns();
  added.troubles = troubles_;
  added.pauses = node_->pauses_total();
  added.late_ns = scheduler_.stood_still_total_ns();
  requests_.emplace(added.id, std::move(request));
  return added;
}

void Workload::choose_range(Request& request, uint64_t bytes_max) {
  // All of the volume, or a part of it that moves on: what is left behind cools down.
  uint64_t base = 0;
  uint64_t sectors = options_.volume_bytes / kSectorBytes;
  if (options_.hot_bytes > 0 && options_.hot_bytes < options_.volume_bytes &&
      random_.chance(0.99)) {
    const uint64_t places = options_.volume_bytes / options_.hot_bytes;
    base = scheduler_.now_ns() / options_.hot_ns % places * (options_.hot_bytes / kSectorBytes);
    sectors = options_.hot_bytes / kSectorBytes;
  }
  const uint64_t most = std::min(sectors, bytes_max / kSectorBytes);
  uint64_t length = random_.spread(1, most);
  if (random_.chance(0.4)) length = std::min(most, (length + 7) / 8 * 8);
  const uint64_t first = random_.below(sectors - length + 1);
  // Every other one near the same place: overlaps are what is interesting.
  const uint64_t offset = random_.chance(0.5) ? std::min(first, random_.below(128)) : first;
  request.client.offset_bytes = (base + std::min(offset, sectors - length)) * kSectorBytes;
  request.client.length_bytes = length * kSectorBytes;
}

void Workload::issue() {
  const double draw = random_.unit();
  if (draw < options_.read_share) {
    begin_read(add(ClientOp::kRead));
  } else if (draw < options_.read_share + options_.flush_share) {
    submit(add(ClientOp::kFlush));
  } else if (random_.chance(options_.zero_share)) {
    begin_zero(add(ClientOp::kZero));
  } else {
    begin_write(add(ClientOp::kWrite));
  }
}

void Workload::begin_write(Request& request) {
  ClientRequest& client = request.client;
  choose_range(request, options_.write_bytes_max);
  client.fua = random_.chance(options_.fua_share);
  client.all_zero = random_.chance(0.02);
  write(request);
}

void Workload::write_over(uint64_t offset_bytes, uint64_t length_bytes) {
  Request& request = add(ClientOp::kWrite);
  request.client.offset_bytes = offset_bytes;
  request.client.length_bytes = length_bytes;
  write(request);
}

void Workload::write(Request& request) {
  ClientRequest& client = request.client;
  request.number = history_.write_begins(client.offset_bytes, client.length_bytes, client.all_zero,
                                         scheduler_.now_ns());
  request.buffer.resize(client.length_bytes);
  if (!client.all_zero) history_.fill(request.number, client.offset_bytes, request.buffer);
  client.data = request.buffer.data();
  if (!client.all_zero) cut(request);
  if (ContentCache* cache = node_->engine().worker_view().cache(); cache != nullptr && !client.all_zero) {
    request.tags = cache->tags_of(client.offset_bytes, request.buffer);
    client.tags = request.tags;
  }
  submit(request);
}

// As a worker does; pieces of any length will do, but the disks count in sectors.
void Workload::cut(Request& request) {
  ClientRequest& client = request.client;
  const std::span<const std::byte> bytes(request.buffer);
  Engine& engine = node_->engine();
  client.piece_bytes = piece_random_.chance(0.8) ? engine.worker_view().wire_piece_bytes()
                                                 : piece_random_.spread(8, 64) * kSectorBytes;
  const bool may_compress =
      engine.worker_view().peer_receives() &&
      engine.compression().setting().mode != Compression::kOff;
  for (size_t at = 0; at < bytes.size(); at += client.piece_bytes) {
    const auto piece = bytes.subspan(at, std::min<size_t>(client.piece_bytes, bytes.size() - at));
    request.pieces.push_back({piece, 0, false});
    if (may_compress && piece_random_.chance(options_.compressed_share))
      compress(request, request.pieces.back());
    request.pieces.back().crc = crc32c(request.pieces.back().payload);
  }
  client.pieces = request.pieces;
}

void Workload::compress(Request& request, WirePiece& piece) {
  std::vector<std::byte> room(wire::compressed_bytes_max(piece.payload.size()));
  const size_t bytes =
      wire::compress(piece.payload, node_->engine().compression().setting().level, room);
  if (bytes == 0) return;
  request.compressed.push_back(std::move(room));
  piece.payload = std::span(request.compressed.back()).first(bytes);
  piece.compressed = true;
}

void Workload::begin_zero(Request& request) {
  choose_range(request, options_.write_bytes_max);
  request.client.fua = random_.chance(options_.fua_share);
  request.client.may_unmap = random_.chance(0.5);
  request.number = history_.write_begins(request.client.offset_bytes, request.client.length_bytes,
                                         true, scheduler_.now_ns());
  submit(request);
}

// As the plugin's workers do: a mark, the file, and the question whether writes have begun since.
// Writes may come between any of these, and between two parts of what is read.
void Workload::begin_read(Request& request) {
  choose_range(request, options_.write_bytes_max);
  request.buffer.resize(request.client.length_bytes);
  ClientRequest& client = request.client;
  client.data = request.buffer.data();
  const WorkerView& view = node_->engine().worker_view();
  const auto mark = view.mark_local_read(node_->clock(), client.offset_bytes, client.length_bytes);
  if (!mark) {
    submit(request);
    return;
  }
  request.cached = std::make_unique<CachedRead>(view.cache(), view, *mark, client.offset_bytes, request.buffer,
                                                node_->clock().now_ns());
  const uint64_t half = client.length_bytes / kSectorBytes / 2 * kSectorBytes;
  const bool failed = !read_missing(request, 0, half);
  // A disk takes its time to say that it can't be read somewhere.
  const uint64_t tried_ns = failed ? keep_random_.below(kFailedReadMax_ns) : 0;
  scheduler_.after(random_.below(50'000) + tried_ns, node_->process(),
                   [this, opened = opened_, id = request.id, mark = *mark, half, failed] {
                     if (opened == opened_) finish_read(id, mark, half, failed);
                   });
}

// Of what the cache has not, the part of the request between two places.
bool Workload::read_missing(Request& request, uint64_t from, uint64_t to) {
  for (const CachedRead::Run& run : request.cached->missing()) {
    const uint64_t begin = std::max(from, run.at_bytes);
    const uint64_t end = std::min(to, run.at_bytes + run.length_bytes);
    if (begin >= end) continue;
    const std::span<std::byte> part = std::span(request.buffer).subspan(begin, end - begin);
    if (node_->data().read_now(request.client.offset_bytes + begin, part) != 0) return false;
  }
  return true;
}

// A worker may be held up between its last question and the moment at which it keeps what it has read: that comes
// later here, when the client has its answer and writes may have come and gone.
void Workload::keep_later(Request& request) {
  // What was read stays where it is, and the client gets a copy.
  auto read = std::make_shared<std::vector<std::byte>>(request.buffer);
  read->swap(request.buffer);
  const std::shared_ptr<CachedRead> cached = std::move(request.cached);
  scheduler_.after(keep_random_.below(2'000'000), node_->process(),
                   [this, opened = opened_, cached, read] {
                     if (opened == opened_) cached->keep();
                   });
}

void Workload::finish_read(uint64_t id, InflightFilter::Mark mark, uint64_t from, bool failed) {
  Request& request = *requests_.at(id);
  const ClientRequest& client = request.client;
  if (!failed) failed = !read_missing(request, from, client.length_bytes);
  const WorkerView& view = node_->engine().worker_view();
  bool later = false;
  if (!failed && view.cache() != nullptr && view.unchanged(client.offset_bytes, client.length_bytes, mark)) {
    later = !keep_random_.chance(0.5);
    if (!later) request.cached->keep();
  }
  request.cached->end();
  wait_for_others(id, mark, failed, later);
}

// As a worker that waits, but for the scheduler.
void Workload::wait_for_others(uint64_t id, InflightFilter::Mark mark, bool failed, bool later) {
  Request& request = *requests_.at(id);
  ClientRequest& client = request.client;
  if (!failed && request.cached->waits(node_->clock().now_ns())) {
    scheduler_.after(kLookForOthers_ns, node_->process(),
                     [this, opened = opened_, id, mark, later] {
                       if (opened == opened_) wait_for_others(id, mark, false, later);
                     });
    return;
  }
  if (!failed) {
    request.cached->take_what_came();
    failed = !read_missing(request, 0, client.length_bytes);
  }
  const WorkerView& view = node_->engine().worker_view();
  if (!failed && view.unchanged(client.offset_bytes, client.length_bytes, mark)) {
    check_bypassed(request);
    if (later) keep_later(request);
    answered(request);
    return;
  }
  client.local_error = failed ? EIO : 0;
  client.local_mark = mark;
  submit(request);
}

// A read that did not wait for its range returns what was acknowledged last, of each sector: no
// write in flight, and no half of one.
void Workload::check_bypassed(const Request& request) const {
  const ClientRequest& client = request.client;
  for (uint64_t at = 0; at < client.length_bytes; at += kSectorBytes) {
    const uint64_t sector = (client.offset_bytes + at) / kSectorBytes;
    const uint64_t number =
        history_.number_of(sector, std::span(request.buffer).subspan(at, kSectorBytes));
    if (acknowledged_[sector] == kUnknown || number == acknowledged_[sector]) continue;
    Report::violation("a read beside the loop found sector " + std::to_string(sector) + " of " +
                      history_.describe(number) + ", but acknowledged last was " +
                      history_.describe(acknowledged_[sector]));
  }
}

void Workload::note_acknowledged(const Request& request, bool counts) {
  const ClientRequest& client = request.client;
  if (request.number == 0) return;
  const uint64_t first = client.offset_bytes / kSectorBytes;
  const bool zero = client.op == ClientOp::kZero || client.all_zero;
  const uint64_t now = client.error != 0 || !counts ? kUnknown : zero ? 0 : request.number;
  std::fill_n(acknowledged_.begin() + static_cast<std::ptrdiff_t>(first),
              client.length_bytes / kSectorBytes, now);
}

void Workload::submit(Request& request) {
  request.asked_ns = scheduler_.now_ns();
  request.client.done = [this, &request](ClientRequest&) { answered(request); };
  node_->engine().clients().submit(request.client);
}

void Workload::answered(Request& request) {
  ++answers_;
  const uint64_t now = scheduler_.now_ns();
  history_.set_oldest_read(oldest()->began_ns);
  const ClientRequest& client = request.client;
  const bool counts = answered_(*node_, request);
  note_acknowledged(request, counts);
  if (client.error != 0 || !counts) {
    if (request.number != 0) history_.write_failed(request.number);
  } else {
    switch (client.op) {
      case ClientOp::kWrite:
      case ClientOp::kZero:
        ++writes_;
        history_.write_acknowledged(request.number, client.fua, now);
        break;
      case ClientOp::kFlush:
        history_.flush_acknowledged(request.began_ns);
        break;
      case ClientOp::kRead:
        history_.read_returned(client.offset_bytes, request.buffer, request.began_ns, now);
        break;
    }
  }
  // The client uses its memory for something else at once; the request goes when this turn ends.
  request.buffer = {};
  request.compressed = {};
  scheduler_.after(0, node_->process(), [this, opened = opened_, id = request.id] {
    if (opened == opened_) requests_.erase(id);
  });
}

bool Workload::writing(uint64_t offset_bytes, uint64_t length_bytes) const {
  return std::any_of(requests_.begin(), requests_.end(), [&](const auto& each) {
    const ClientRequest& client = each.second->client;
    return (client.op == ClientOp::kWrite || client.op == ClientOp::kZero) &&
           client.offset_bytes < offset_bytes + length_bytes &&
           offset_bytes < client.offset_bytes + client.length_bytes;
  });
}

void Workload::read_all() {
  constexpr uint64_t kStep = 64 * kKiB;
  for (uint64_t at = 0; at < options_.volume_bytes; at += kStep) {
    Request& request = add(ClientOp::kRead);
    request.client.offset_bytes = at;
    request.client.length_bytes = std::min(kStep, options_.volume_bytes - at);
    request.buffer.resize(request.client.length_bytes);
    request.client.data = request.buffer.data();
    submit(request);
  }
}

void Workload::flush_all() { submit(add(ClientOp::kFlush)); }

}  // namespace twinblock::sim
