// Which steps between phases were taken, for those who count what was seen. `Phase`: an enum class whose
// values are 0 to kCount - 1. Counted by their owner's thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace twinblock {

template <typename Phase, size_t kCount>
class Steps {
 public:
  static_assert(kCount <= 16);
  void took(Phase from, Phase to) { seen_[static_cast<size_t>(from)] |= bit(to); }
  // What followed a phase, as bits.
  [[nodiscard]] uint16_t after(Phase from) const { return seen_[static_cast<size_t>(from)]; }
  static constexpr uint16_t bit(Phase phase) { return static_cast<uint16_t>(1u << static_cast<unsigned>(phase)); }

 private:
  std::array<uint16_t, kCount> seen_{};
};

}  // namespace twinblock
