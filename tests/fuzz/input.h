// What a target makes of libFuzzer's bytes: values from front to back (zeroes when they run out),
// so that a mutation at one place leaves what stands before it as it was; and how a target says
// that an invariant is broken.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace twinblock::fuzz {

// Ends the process, so that libFuzzer keeps the input.
inline void require(bool holds, const char* what, const std::string& details = {}) {
  if (holds) [[likely]]
    return;
  std::fprintf(stderr, "FINDING: %s%s%s\n", what, details.empty() ? "" : ": ", details.c_str());
  std::abort();
}

class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(std::as_bytes(std::span(data, size))) {}

  [[nodiscard]] bool empty() const { return rest_.empty(); }
  [[nodiscard]] size_t left() const { return rest_.size(); }
  template <std::unsigned_integral T>
  T take() {
    T value = 0;
    const auto from = bytes(sizeof value);
    if (!from.empty()) std::memcpy(&value, from.data(), from.size());
    return value;
  }
  uint8_t byte() { return take<uint8_t>(); }
  // 0 … end - 1, from as few bytes as suffice.
  uint64_t below(uint64_t end) {
    if (end <= 1) return 0;
    if (end <= 256) return byte() % end;
    if (end <= 65536) return take<uint16_t>() % end;
    return take<uint64_t>() % end;
  }
  template <typename T, size_t N>
  const T& one_of(const T (&choices)[N]) {
    return choices[below(N)];
  }
  // Fewer when there are fewer left.
  std::span<const std::byte> bytes(size_t count) {
    const auto taken = rest_.first(std::min(count, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  std::span<const std::byte> rest() { return bytes(rest_.size()); }

 private:
  std::span<const std::byte> rest_;
};

// Cheap chance for what need not be chosen by the fuzzer itself.
class Noise {
 public:
  explicit Noise(uint64_t seed) : state_(seed * 2 + 1) {}
  uint64_t below(uint64_t end) {
    state_ = state_ * 6364136223846793005 + 1442695040888963407;
    return end == 0 ? 0 : (state_ >> 33) % end;
  }

 private:
  uint64_t state_;
};

// `length` bytes that repeat `pattern`; zeroes without one.
inline std::vector<std::byte> repeated(std::span<const std::byte> pattern, size_t length) {
  std::vector<std::byte> bytes(length);
  for (size_t at = 0; !pattern.empty() && at < length; at += pattern.size())
    std::memcpy(bytes.data() + at, pattern.data(), std::min(pattern.size(), length - at));
  return bytes;
}

inline bool printable_line(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; });
}

}  // namespace twinblock::fuzz
