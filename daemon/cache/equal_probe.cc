#include "cache/equal_probe.h"

#include <array>
#include <bit>
#include <cstring>

#include "base/digest.h"
#include "base/limits.h"
#include "cache/zeroed_array.h"

namespace twinblock {
namespace {

// Some words of the block, from all over it.
bool chosen(const std::byte* block) {
  constexpr size_t kStep = limits::kBlockBytes / 4;
  uint64_t mixed = 0;
  for (size_t i = 0; i < 4; ++i) {
    uint64_t word = 0;
    std::memcpy(&word, block + i * kStep + i * sizeof word, sizeof word);
    mixed = (std::rotl(mixed, 23) ^ word) * 0x9e3779b97f4a7c15;
  }
  return (mixed >> 32) % EqualProbe::kEvery == 1;  // not 0: of words that are all zero nothing follows
}

}  // namespace

uint64_t EqualProbe::equal(std::span<const std::byte> blocks) {
  uint64_t seen = 0;
  for (size_t at = 0; at + limits::kBlockBytes <= blocks.size(); at += limits::kBlockBytes) {
    if (!chosen(blocks.data() + at)) continue;
    const auto hash = std::bit_cast<std::array<uint64_t, 2>>(digest_of(blocks.subspan(at, limits::kBlockBytes)));
    const uint32_t name = static_cast<uint32_t>(hash[0]) | 1;
    if (hashes_[spread_over(hash[1], hashes_.size())].exchange(name, std::memory_order_relaxed) == name) ++seen;
  }
  return seen * kEvery;
}

}  // namespace twinblock
