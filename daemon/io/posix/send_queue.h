// What a connection has yet to send: copied heads and referenced bodies, in order, as few iovecs as
// possible. Adjacent heads share one buffer and one iovec. Reuses its memory: nothing is allocated
// in a steady state. Loop only.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/units.h"

namespace twinblock {

class SendQueue {
 public:
  // A body up to this long is copied like a head: cheaper than an iovec of its own.
  static constexpr size_t kCopyBytesMax = 256;

  SendQueue() = default;
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;

  // `body` must stay valid until consume() has passed it.
  void add(std::span<const std::byte> head, std::span<const std::byte> body);
  [[nodiscard]] bool empty() const { return first_ == pieces_.size(); }
  // The front of the queue, at most out.size() iovecs and about bytes_max bytes; how many iovecs.
  [[nodiscard]] size_t gather(std::span<iovec> out, size_t bytes_max) const;
  // At most bytes_max, and room.size(), bytes of the front in one piece, not empty: where they lie,
  // or, of several pieces, copied into `room`.
  [[nodiscard]] std::span<const std::byte> front(size_t bytes_max, std::span<std::byte> room) const;
  // The first `bytes` have been sent.
  void consume(size_t bytes);
  void clear();

 private:
  static constexpr size_t kChunkBytes = 16 * kKiB;
  static constexpr size_t kSpareChunksMax = 4;
  struct Chunk {
    std::array<std::byte, kChunkBytes> bytes;
    size_t filled = 0;
    size_t sent = 0;
  };
  struct Piece {
    const std::byte* data;
    size_t length;
    bool copied;
  };
  void copy(std::span<const std::byte> bytes);
  void release(size_t copied_bytes);

  std::vector<Piece> pieces_;  // those before first_ are sent
  size_t first_ = 0;
  std::vector<std::unique_ptr<Chunk>> chunks_;  // oldest first; the last one is being filled
  std::vector<std::unique_ptr<Chunk>> spare_;
};

}  // namespace twinblock
