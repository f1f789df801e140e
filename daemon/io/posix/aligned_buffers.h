// Memory that direct I/O takes: whole pages, kept for the next one that needs as much. Any thread.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#include "base/checks.h"
#include "base/units.h"

namespace twinblock {

class AlignedBuffers {
 public:
  static constexpr uint64_t kAlign = 4 * kKiB;
  static constexpr uint64_t kBytesMax = 1 * kMiB;   // of one
  static constexpr uint64_t kKeptBytes = 2 * kMiB;  // of each size

  AlignedBuffers() = default;
  ~AlignedBuffers() {
    for (const std::vector<std::byte*>& kept : kept_)
      for (std::byte* memory : kept) std::free(memory);
  }
  AlignedBuffers(const AlignedBuffers&) = delete;
  AlignedBuffers& operator=(const AlignedBuffers&) = delete;

  // At least `bytes`, 1 to kBytesMax; its content is whatever it was. To be given back with the
  // same number. Throws std::bad_alloc.
  [[nodiscard]] std::byte* take(uint64_t bytes) {
    const size_t index = index_of(bytes);
    {
      const std::lock_guard lock(mutex_);
      std::vector<std::byte*>& kept = kept_[index];
      if (!kept.empty()) {
        std::byte* memory = kept.back();
        kept.pop_back();
        return memory;
      }
    }
    void* memory = std::aligned_alloc(kAlign, kAlign << index);
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<std::byte*>(memory);
  }

  void give_back(std::byte* memory, uint64_t bytes) {
    const size_t index = index_of(bytes);
    {
      const std::lock_guard lock(mutex_);
      std::vector<std::byte*>& kept = kept_[index];
      if (kept.size() < kKeptBytes / (kAlign << index)) {
        kept.push_back(memory);
        return;
      }
    }
    std::free(memory);
  }

 private:
  // Sizes are kAlign, twice that, and so on.
  static size_t index_of(uint64_t bytes) {
    TB_CHECK(bytes > 0 && bytes <= kBytesMax, "a buffer of a size that there is");
    return static_cast<size_t>(std::bit_width((bytes - 1) / kAlign));
  }

  std::mutex mutex_;
  std::array<std::vector<std::byte*>, std::bit_width(kBytesMax / kAlign)> kept_;
};

// One buffer, for as long as this stands.
class AlignedBuffer {
 public:
  AlignedBuffer(AlignedBuffers& from, uint64_t bytes)
      : from_(from), bytes_(bytes), memory_(from.take(bytes)) {}
  ~AlignedBuffer() { from_.give_back(memory_, bytes_); }
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;
  [[nodiscard]] std::byte* get() const { return memory_; }

 private:
  AlignedBuffers& from_;
  const uint64_t bytes_;
  std::byte* const memory_;
};

}  // namespace twinblock
