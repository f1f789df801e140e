#include "prepare.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/limits.h"
#include "wire/compression.h"

namespace twinblock {
PreparedWrite::PreparedWrite(Engine& engine, uint64_t offset_bytes, std::span<const std::byte> data)
    : engine_(engine),
      all_zero_(all_zero(data)),
      piece_bytes_(engine.worker_view().wire_piece_bytes()) {
  if (all_zero_) return;
  // Where reads of the disk are as fast as memory, nobody will ask.
  if (ContentCache* cache = engine.worker_view().cache();
      cache != nullptr && cache->effort().pays() && cache->may_learn(offset_bytes, data, engine.clock().now_ns()))
    tags_ = cache->tags_of(offset_bytes, data);
  piece_bytes_ = std::min<uint64_t>(piece_bytes_, data.size());
  cut(data);
  WorkerView& view = engine_.worker_view();
  if (view.peer_receives() && engine_.compression().setting().mode != Compression::kOff) {
    const uint64_t began_ns = engine_.clock().now_ns();
    const uint64_t rate_bytes_per_s = view.link_rate_bytes_per_s();
    LinkDemand& demand = view.link_demand();
    demand.begin(data.size(), began_ns);
    demanded_bytes_ = data.size();
    // Of its own pieces none travels before all are prepared.
    const uint64_t beside_bytes = demand.under_way_bytes() - data.size();
    if (compress({rate_bytes_per_s, demand.busy(rate_bytes_per_s),
                  demand.full(rate_bytes_per_s) ? beside_bytes + piece_bytes_ : 0}))
      compression_ns_ = engine_.clock().now_ns() - began_ns;
  }
  for (WirePiece& piece : pieces_) piece.crc = crc32c(piece.payload);
}

PreparedWrite::~PreparedWrite() { engine_.worker_view().link_demand().end(demanded_bytes_); }

void PreparedWrite::cut(std::span<const std::byte> data) {
  const size_t count = (data.size() + piece_bytes_ - 1) / piece_bytes_;
  if (count > few_.size()) many_.resize(count);
  pieces_ = count > few_.size() ? std::span(many_) : std::span(few_).first(count);
  for (WirePiece& piece : pieces_) {
    piece.payload = data.first(std::min<size_t>(piece_bytes_, data.size()));
    data = data.subspan(piece.payload.size());
  }
}

bool PreparedWrite::compress(CompressionPolicy::Links links) {
  CompressionPolicy& policy = engine_.compression();
  std::span<std::byte> left;
  bool any = false;
  for (WirePiece& piece : pieces_) {
    const CompressionPolicy::Choice choice = policy.choose(piece.payload, links);
    if (!choice.compress) continue;
    // Room for all that are left, at the first that needs any.
    if (!room_) {
      const size_t bytes = static_cast<size_t>(pieces_.data() + pieces_.size() - &piece) *
                           wire::compressed_bytes_max(piece_bytes_);
      room_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
      left = {room_.get(), bytes};
    }
    left = left.subspan(compress(piece, choice, left));
    any = any || piece.compressed;
  }
  policy.prepared(any);
  return room_ != nullptr;
}

// How much of `into` it took.
size_t PreparedWrite::compress(WirePiece& piece, CompressionPolicy::Choice choice,
                               std::span<std::byte> into) {
  CompressionPolicy& policy = engine_.compression();
  const Clock& clock = engine_.clock();
  const size_t raw_bytes = piece.payload.size();
  const uint64_t began_ns = clock.thread_cpu_ns();
  const size_t bytes = wire::compress(piece.payload, policy.setting().level, into);
  policy.tried(choice, raw_bytes, bytes, clock.thread_cpu_ns() - began_ns);
  if (bytes == 0) return 0;
  piece.payload = into.first(bytes);
  piece.compressed = true;
  return bytes;
}

void PreparedWrite::describe(ClientRequest& request) const {
  request.all_zero = all_zero_;
  request.piece_bytes = piece_bytes_;
  request.pieces = pieces_;
  request.tags = tags_;
  request.compression_ns = compression_ns_;
}

}  // namespace twinblock
