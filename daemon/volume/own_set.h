// The target's own set of blocks that may differ, on its way to the source: chunk by chunk on the
// control stream, as fast as the peer takes them. A fragmented set of a volume of 64 TiB is 2 GiB,
// of which no more than `bytes_max` wait here at one time. Owned by the engine; loop thread only.
#pragma once

#include <functional>
#include <span>
#include <utility>

#include "base/checks.h"
#include "base/limits.h"
#include "metadata/block_map.h"
#include "wire/codec.h"

namespace twinblock {

class OwnSet {
 public:
  struct Stream {
    std::function<void(const wire::DirtyFrame& chunk, std::span<const std::byte> bits)> send;
    std::function<uint64_t()> unconfirmed_bytes;  // that were sent and that the peer may not have
  };

  OwnSet(const BlockMap& set, Stream stream, uint64_t bytes_max = limits::kControlBytesMax)
      : set_(set), stream_(std::move(stream)), bytes_max_(bytes_max) {}

  // In a session; the set is not changed until all is told.
  void begin() {
    telling_ = true;
    from_bytes_ = 0;
    go_on();
  }
  // The peer has taken some of what was sent.
  void go_on() {
    while (telling_ && stream_.unconfirmed_bytes() < bytes_max_) tell_next();
    if (telling_ || !told_) return;
    std::exchange(told_, nullptr)();
  }
  // Calls `told` when all of the set has been sent, perhaps at once.
  void when_told(std::function<void()> told) {
    TB_CHECK(told_ == nullptr, "one answer at a time waits for the set to be told");
    told_ = std::move(told);
    go_on();
  }
  void session_lost() {
    telling_ = false;
    told_ = nullptr;
  }

 private:
  void tell_next() {
    const auto chunk = set_.next_chunk(from_bytes_);
    telling_ = chunk.has_value();
    if (!chunk) return;
    TB_CHECK(chunk->offset_bytes >= from_bytes_, "the set is told in order, and nothing twice");
    stream_.send(wire::DirtyFrame{chunk->offset_bytes, chunk->length_bytes}, chunk->bits);
    from_bytes_ = chunk->offset_bytes + chunk->length_bytes;
  }

  const BlockMap& set_;
  const Stream stream_;
  const uint64_t bytes_max_;
  bool telling_ = false;
  uint64_t from_bytes_ = 0;
  std::function<void()> told_;
};

}  // namespace twinblock
