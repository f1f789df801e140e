// Questions about plain memory. Any thread.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

namespace twinblock {

// Whether every byte is zero; true of no bytes.
inline bool all_zero(std::span<const std::byte> bytes) {
  // Compared with itself one byte on: memcmp is as fast as it gets, and stops at the first data.
  return bytes.empty() || (bytes[0] == std::byte{0} &&
                           std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

}  // namespace twinblock
