// Data that tests write and look for.
#pragma once

#include <cstddef>
#include <random>
#include <vector>

namespace twinblock {

using Bytes = std::vector<std::byte>;

// Not the same again for any other seed, nor from one block to the next.
inline Bytes pattern(size_t length, unsigned seed) {
  Bytes bytes(length);
  std::minstd_rand random(seed + 1);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() >> 8);
  return bytes;
}

}  // namespace twinblock
