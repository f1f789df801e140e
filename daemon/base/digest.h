// What two replicas compare instead of a block's bytes: XXH3 with 128 bits (Y. Collet, xxHash).
// It tells blocks apart that differ by accident; it is no defence against a forger. Any thread.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace twinblock {

using Digest = std::array<std::byte, 16>;

Digest digest_of(std::span<const std::byte> bytes);

}  // namespace twinblock
