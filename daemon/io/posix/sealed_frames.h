// Which bytes of the frames that were queued lie in which bytes of the ciphertext that a socket takes.
// Of one connection with keys; loop thread only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace twinblock {

class SealedFrames {
 public:
  // The frame that begins there in all that is queued is a sample: its head gets a record of its own.
  void sample(uint64_t offset) { sample_at_ = offset; }
  [[nodiscard]] bool sample_is_next() const { return sample_at_ == sealed_bytes_; }
  // How much goes into the next record at the most: of the sample's head, or of all else.
  [[nodiscard]] size_t record_bytes(size_t head_max, size_t record_max) const {
    if (sample_is_next()) return head_max;
    return sample_at_ ? std::min<uint64_t>(record_max, *sample_at_ - sealed_bytes_) : record_max;
  }
  // So many bytes more lie in a record that ends there in the ciphertext.
  void sealed(size_t bytes, uint64_t stream_end) {
    if (sample_is_next()) sample_at_.reset();
    sealed_bytes_ += bytes;
    records_.push_back({sealed_bytes_, stream_end});
  }
  // The socket has taken the ciphertext as far as there. How far it has taken the frames, if that is
  // farther than before.
  [[nodiscard]] std::optional<uint64_t> sent(uint64_t stream_bytes) {
    std::optional<uint64_t> end;
    for (; !records_.empty() && records_.front().stream_end <= stream_bytes; records_.pop_front())
      end = records_.front().frames_end;
    return end;
  }

 private:
  struct Record {
    uint64_t frames_end;  // of all that was queued …
    uint64_t stream_end;  // … and of what the socket gets
  };
  std::deque<Record> records_;  // not sent in full
  uint64_t sealed_bytes_ = 0;   // of all that was queued
  std::optional<uint64_t> sample_at_;  // not sealed yet
};

}  // namespace twinblock
