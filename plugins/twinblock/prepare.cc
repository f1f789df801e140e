#include "prepare.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/limits.h"
#include "wire/compression.h"

namespace twinblock {
namespace {

// Memory for compressed pieces, kept for the thread's next write unless it has become large.
class Room {
 public:
  std::span<std::byte> at_least(size_t bytes) {
    if (bytes > bytes_) {
      memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
      bytes_ = bytes;
    }
    return {memory_.get(), bytes_};
  }
  void shrink() {
    if (bytes_ <= limits::kCompressedBytesKept) return;
    memory_.reset();
    bytes_ = 0;
  }

 private:
  std::unique_ptr<std::byte[]> memory_;
  size_t bytes_ = 0;
};
thread_local Room room;

}  // namespace

PreparedWrite::PreparedWrite(Engine& engine, std::span<const std::byte> data)
    : engine_(engine), all_zero_(all_zero(data)), piece_bytes_(engine.wire_piece_bytes()) {
  if (all_zero_) return;
  piece_bytes_ = std::min<uint64_t>(piece_bytes_, data.size());
  cut(data);
  if (engine_.peer_receives() && engine_.compression().setting().mode != Compression::kOff)
    compress();
  for (WirePiece& piece : pieces_) piece.crc = crc32c(piece.payload);
}

PreparedWrite::~PreparedWrite() {
  if (unanswered_bytes_ == 0) return;
  engine_.unanswered_bytes().fetch_sub(unanswered_bytes_, std::memory_order_relaxed);
  room.shrink();
}

void PreparedWrite::cut(std::span<const std::byte> data) {
  const size_t count = (data.size() + piece_bytes_ - 1) / piece_bytes_;
  if (count > few_.size()) many_.resize(count);
  pieces_ = count > few_.size() ? std::span(many_) : std::span(few_).first(count);
  for (WirePiece& piece : pieces_) {
    piece.payload = data.first(std::min<size_t>(piece_bytes_, data.size()));
    data = data.subspan(piece.payload.size());
  }
}

void PreparedWrite::compress() {
  const CompressionPolicy::Links links = engine_.links_together();
  CompressionPolicy& policy = engine_.compression();
  std::span<std::byte> left;
  bool any = false;
  for (WirePiece& piece : pieces_) {
    if (policy.wants(piece.payload, links)) {
      // Room for all that are left, at the first that needs any.
      if (left.empty())
        left = room.at_least(static_cast<size_t>(pieces_.data() + pieces_.size() - &piece) *
                             wire::compressed_bytes_max(piece_bytes_));
      left = left.subspan(compress(piece, left));
      any = any || piece.compressed;
    }
    unanswered_bytes_ += piece.payload.size();
  }
  engine_.unanswered_bytes().fetch_add(unanswered_bytes_, std::memory_order_relaxed);
  auto& writes = any ? policy.counters.writes_compressed : policy.counters.writes_raw;
  writes.fetch_add(1, std::memory_order_relaxed);
}

// How much of `into` it took.
size_t PreparedWrite::compress(WirePiece& piece, std::span<std::byte> into) {
  CompressionPolicy& policy = engine_.compression();
  const Clock& clock = engine_.clock();
  const size_t raw_bytes = piece.payload.size();
  const uint64_t began_ns = clock.now_ns();
  const uint64_t cpu_began_ns = clock.thread_cpu_ns();
  const size_t bytes = wire::compress(piece.payload, policy.setting().level, into);
  const uint64_t cpu_ns = clock.thread_cpu_ns() - cpu_began_ns;
  policy.tried(raw_bytes, bytes, clock.now_ns() - began_ns);
  policy.counters.compress_cpu_ns.fetch_add(cpu_ns, std::memory_order_relaxed);
  if (bytes == 0) return 0;
  piece.payload = into.first(bytes);
  piece.compressed = true;
  return bytes;
}

void PreparedWrite::describe(ClientRequest& request) const {
  request.all_zero = all_zero_;
  request.piece_bytes = piece_bytes_;
  request.pieces = pieces_;
}

}  // namespace twinblock
