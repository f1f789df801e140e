#include "telemetry/unique_blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace twinblock {
namespace {

constexpr uint64_t kMinute_ns = 60 * kSecond_ns;

// The finaliser of splitmix64 (Steele, Lea, Flood, 2014): each bit of a number moves all of them.
uint64_t mixed(uint64_t number) {
  number += 0x9e3779b97f4a7c15;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
  number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
  return number ^ (number >> 31);
}

uint64_t minute_of(uint64_t now_ns) { return now_ns / kMinute_ns + 1; }

}  // namespace

void UniqueBlocks::record(uint64_t offset_bytes, uint64_t length_bytes, uint64_t now_ns) {
  if (length_bytes == 0) return;
  const uint64_t number = minute_of(now_ns);
  Minute& minute = minutes_[number % minutes_.size()];
  if (minute.number != number) minute = {number, {}};
  const uint64_t end = (offset_bytes + length_bytes - 1) / kBlock_bytes;
  for (uint64_t block = offset_bytes / kBlock_bytes; block <= end; ++block) {
    const uint64_t hash = mixed(block);
    uint8_t& rank = minute.sketch[hash >> (64 - kIndexBits)];
    // Where the first one stands behind the index; a one at the end bounds it.
    const uint64_t rest = hash << kIndexBits | uint64_t{1} << (kIndexBits - 1);
    rank = std::max(rank, static_cast<uint8_t>(std::countl_zero(rest) + 1));
  }
}

uint64_t UniqueBlocks::bytes(size_t minutes, uint64_t now_ns) const {
  const uint64_t now = minute_of(now_ns);
  Sketch all{};
  for (const Minute& minute : minutes_)
    if (minute.number != 0 && minute.number + minutes >= now)
      for (size_t i = 0; i < all.size(); ++i) all[i] = std::max(all[i], minute.sketch[i]);
  const auto registers = static_cast<double>(all.size());
  double sum = 0;
  for (const uint8_t rank : all) sum += std::ldexp(1.0, -rank);
  const auto empty = static_cast<double>(std::count(all.begin(), all.end(), uint8_t{0}));
  double blocks = 0.7213 / (1 + 1.079 / registers) * registers * registers / sum;
  if (blocks <= 2.5 * registers && empty > 0) blocks = registers * std::log(registers / empty);
  return static_cast<uint64_t>(blocks + 0.5) * kBlock_bytes;
}

}  // namespace twinblock
