#include "io/posix/send_queue.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checks.h"

namespace twinblock {

void SendQueue::add(std::span<const std::byte> head, std::span<const std::byte> body) {
  copy(head);
  if (body.size() <= kCopyBytesMax)
    copy(body);
  else
    pieces_.push_back(Piece{body.data(), body.size(), false});
}

void SendQueue::copy(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (chunks_.empty() || chunks_.back()->filled == kChunkBytes) {
      if (spare_.empty()) {
        chunks_.push_back(std::make_unique<Chunk>());
      } else {
        chunks_.push_back(std::move(spare_.back()));
        spare_.pop_back();
      }
    }
    Chunk& chunk = *chunks_.back();
    std::byte* to = chunk.bytes.data() + chunk.filled;
    const size_t n = std::min(bytes.size(), kChunkBytes - chunk.filled);
    std::memcpy(to, bytes.data(), n);
    chunk.filled += n;
    bytes = bytes.subspan(n);
    if (!empty() && pieces_.back().copied && pieces_.back().data + pieces_.back().length == to)
      pieces_.back().length += n;
    else
      pieces_.push_back(Piece{to, n, true});
  }
}

size_t SendQueue::gather(std::span<iovec> out, size_t bytes_max) const {
  size_t count = 0;
  size_t bytes = 0;
  for (size_t i = first_; i < pieces_.size() && count < out.size() && bytes < bytes_max; ++i) {
    const size_t length = std::min(pieces_[i].length, bytes_max - bytes);
    out[count++] = iovec{const_cast<std::byte*>(pieces_[i].data), length};
    bytes += length;
  }
  return count;
}

std::span<const std::byte> SendQueue::front(size_t bytes_max, std::span<std::byte> room) const {
  bytes_max = std::min(bytes_max, room.size());
  TB_CHECK(!empty() && bytes_max > 0, "the front of nothing");
  if (pieces_[first_].length >= bytes_max || first_ + 1 == pieces_.size())
    return {pieces_[first_].data, std::min(pieces_[first_].length, bytes_max)};
  size_t bytes = 0;
  for (size_t i = first_; i < pieces_.size() && bytes < bytes_max; ++i) {
    const size_t length = std::min(pieces_[i].length, bytes_max - bytes);
    std::memcpy(room.data() + bytes, pieces_[i].data, length);
    bytes += length;
  }
  return room.first(bytes);
}

void SendQueue::consume(size_t bytes) {
  while (bytes > 0) {
    TB_CHECK(!empty(), "more was sent than queued");
    Piece& piece = pieces_[first_];
    const size_t n = std::min(bytes, piece.length);
    piece.data += n;
    piece.length -= n;
    bytes -= n;
    if (piece.copied) release(n);
    if (piece.length == 0) ++first_;
  }
  if (empty()) {
    pieces_.clear();
    first_ = 0;
  } else if (first_ >= 1024 && first_ * 2 >= pieces_.size()) {
    // A queue that never runs empty must not grow by what is long sent.
    pieces_.erase(pieces_.begin(), pieces_.begin() + static_cast<ptrdiff_t>(first_));
    first_ = 0;
  }
}

// Copied bytes leave in the order in which they filled the chunks.
void SendQueue::release(size_t copied_bytes) {
  Chunk& chunk = *chunks_.front();
  chunk.sent += copied_bytes;
  TB_CHECK(chunk.sent <= chunk.filled, "a copied piece spans two chunks");
  if (chunk.sent < chunk.filled) return;
  chunk.filled = chunk.sent = 0;
  if (chunks_.size() == 1) return;  // it goes on being filled, from its start
  if (spare_.size() < kSpareChunksMax) spare_.push_back(std::move(chunks_.front()));
  chunks_.erase(chunks_.begin());
}

void SendQueue::clear() {
  pieces_.clear();
  first_ = 0;
  chunks_.clear();
}

}  // namespace twinblock
