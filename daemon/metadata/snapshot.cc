#include "metadata/snapshot.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/checks.h"
#include "base/crc32c.h"

namespace twinblock::metadata {
namespace {

static_assert(BlockMap::kChunkBytes == kSnapshotChunkBytes);
static_assert(BlockMap::kChunkBitmapBytes == kSnapshotBitmapBytes);

constexpr size_t kPieceBytes = 1 * kMiB;
constexpr size_t kEntryBytesMax = sizeof(SnapshotEntry) + kSnapshotBitmapBytes;

// Takes the entry at the front of `bytes` into `map`; how long it is, 0 when its end isn't there
// yet, or nothing when it is no entry that can follow `next_chunk`.
std::optional<size_t> take_entry(std::span<const std::byte> bytes, uint64_t volume_bytes,
                                 uint64_t& next_chunk, BlockMap& map) {
  SnapshotEntry entry;
  if (bytes.size() < sizeof entry) return 0;
  std::memcpy(&entry, bytes.data(), sizeof entry);
  if (entry.chunk < next_chunk) return std::nullopt;
  if (entry.kind != kSnapshotAll && entry.kind != kSnapshotBitmap) return std::nullopt;
  const size_t bits = entry.kind == kSnapshotBitmap ? kSnapshotBitmapBytes : 0;
  if (bytes.size() < sizeof entry + bits) return 0;
  BlockMap::ChunkView chunk;
  chunk.offset_bytes = entry.chunk * kSnapshotChunkBytes;
  if (chunk.offset_bytes >= volume_bytes) return std::nullopt;
  chunk.length_bytes = std::min(kSnapshotChunkBytes, volume_bytes - chunk.offset_bytes);
  chunk.bits = bytes.subspan(sizeof entry, bits);
  if (!map.merge_chunk(chunk)) return std::nullopt;
  next_chunk = uint64_t{entry.chunk} + 1;
  return sizeof entry + bits;
}

}  // namespace

SnapshotWriter::SnapshotWriter(Disk& disk) : disk_(disk) {
  request_.done = [this](DiskRequest&) { step_done(); };
}

void SnapshotWriter::write(const BlockMap& map, uint64_t snapshot_offset, Done done) {
  TB_CHECK(idle(), "one snapshot at a time");
  offset_bytes_ = snapshot_offset;
  map_ = &map;
  done_ = std::move(done);
  from_bytes_ = written_ = 0;
  crc_ = 0;
  error_ = 0;
  piece_.clear();
  piece_.reserve(kPieceBytes + kEntryBytesMax);
  next_piece();
}

// Entries until the piece is full; the last one may reach into the next piece.
void SnapshotWriter::fill() {
  while (piece_.size() < kPieceBytes) {
    const auto chunk = map_->next_chunk(from_bytes_);
    if (!chunk) return;
    from_bytes_ = chunk->offset_bytes + chunk->length_bytes;
    const SnapshotEntry entry{static_cast<uint32_t>(chunk->offset_bytes / kSnapshotChunkBytes),
                              chunk->bits.empty() ? kSnapshotAll : kSnapshotBitmap};
    const auto head = std::as_bytes(std::span(&entry, 1));
    piece_.insert(piece_.end(), head.begin(), head.end());
    piece_.insert(piece_.end(), chunk->bits.begin(), chunk->bits.end());
  }
}

void SnapshotWriter::next_piece() {
  fill();
  if (piece_.empty()) {
    submit_flush();
    return;
  }
  const size_t length = std::min(piece_.size(), kPieceBytes);
  crc_ = crc32c_extend(crc_, std::span(piece_).first(length));
  // Whole pages: what lies behind the end belongs to nobody.
  const size_t padded = (length + kPageBytes - 1) / kPageBytes * kPageBytes;
  if (piece_.size() < padded) piece_.resize(padded);
  request_.op = DiskOp::kWrite;
  request_.error = 0;
  request_.offset_bytes = offset_bytes_ + written_;
  request_.length_bytes = padded;
  request_.data = piece_.data();
  if (request_.offset_bytes + padded > disk_.size_bytes()) {
    // Told by way of the flush, so that nobody is called from within.
    error_ = ENOSPC;
    submit_flush();
    return;
  }
  written_ += length;
  disk_.submit(request_);
}

void SnapshotWriter::submit_flush() {
  request_.op = DiskOp::kFlush;
  request_.error = 0;
  request_.offset_bytes = request_.length_bytes = 0;
  request_.data = nullptr;
  disk_.submit(request_);
}

void SnapshotWriter::step_done() {
  TB_CHECK(map_ != nullptr, "a completion without a snapshot");
  if (error_ == 0) error_ = request_.error;
  if (request_.op == DiskOp::kWrite && error_ == 0) {
    const auto submitted = static_cast<std::ptrdiff_t>(std::min(piece_.size(), kPieceBytes));
    piece_.erase(piece_.begin(), piece_.begin() + submitted);
    next_piece();
    return;
  }
  map_ = nullptr;
  piece_ = {};
  std::exchange(done_, nullptr)(error_, written_, crc_);
}

std::optional<BlockMap> read_snapshot(const ReadAt& read, uint64_t file_bytes,
                                      uint64_t snapshot_offset, uint64_t snapshot_bytes,
                                      uint32_t snapshot_crc, uint64_t volume_bytes,
                                      std::string& why) {
  if (snapshot_bytes > snapshot_bytes_max(volume_bytes) || snapshot_offset > file_bytes ||
      snapshot_bytes > file_bytes - snapshot_offset) {
    why = "its end is missing";
    return std::nullopt;
  }
  BlockMap map(volume_bytes);
  uint64_t next_chunk = 0;
  uint32_t crc = 0;
  std::vector<std::byte> buffer;
  for (uint64_t at = 0; at < snapshot_bytes;) {
    const size_t kept = buffer.size();  // the beginning of an entry
    const size_t length = std::min<uint64_t>(kPieceBytes, snapshot_bytes - at);
    buffer.resize(kept + length);
    const auto piece = std::span(buffer).subspan(kept);
    if (Status got = read(snapshot_offset + at, piece); !got) {
      why = got.error().what;
      return std::nullopt;
    }
    at += length;
    crc = crc32c_extend(crc, piece);
    size_t taken = 0;
    while (true) {
      const auto entry =
          take_entry(std::span(buffer).subspan(taken), volume_bytes, next_chunk, map);
      if (!entry) {
        why = "it is damaged";
        return std::nullopt;
      }
      if (*entry == 0) break;
      taken += *entry;
    }
    buffer.erase(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(taken));
  }
  if (!buffer.empty() || crc != snapshot_crc) {
    why = "it is damaged";
    return std::nullopt;
  }
  return map;
}

}  // namespace twinblock::metadata
