// An array of a fixed length in memory that costs nothing until it is touched: of a large one the kernel gives pages of
// zeroes one by one. For plain data to which zero means "nothing yet". Who owns it says which thread uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

namespace twinblock {

template <typename T>
class ZeroedArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  explicit ZeroedArray(size_t length)
      : length_(length), memory_(std::calloc(1, length * sizeof(T) + kLineBytes)) {
    if (!memory_) throw std::bad_alloc();
    void* begin = memory_.get();
    size_t room = length * sizeof(T) + kLineBytes;
    items_ = static_cast<T*>(std::align(kLineBytes, length * sizeof(T), begin, room));
  }
  T& operator[](size_t index) { return items_[index]; }
  const T& operator[](size_t index) const { return items_[index]; }
  [[nodiscard]] size_t size() const { return length_; }
  [[nodiscard]] size_t bytes() const { return length_ * sizeof(T); }

 private:
  static constexpr size_t kLineBytes = 64;  // of the processor's cache
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  size_t length_;
  std::unique_ptr<void, Free> memory_;
  T* items_;
};

// A hash, of which the upper half counts, to a number below `count`, evenly.
inline size_t spread_over(uint64_t hash, size_t count) { return (hash >> 32) * count >> 32; }

}  // namespace twinblock
