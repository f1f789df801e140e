#include "base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace twinblock {

uint32_t crc32c_extend(uint32_t crc, std::span<const std::byte> bytes) {
  // ISA-L takes an int length and neither pre- nor post-inverts.
  constexpr size_t kChunk = size_t{1} << 30;
  uint32_t state = ~crc;
  while (!bytes.empty()) {
    const size_t n = std::min(bytes.size(), kChunk);
    // ISA-L's signature lacks const; it only reads.
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
    state = crc32_iscsi(data, static_cast<int>(n), state);
    bytes = bytes.subspan(n);
  }
  return ~state;
}

uint32_t crc32c(std::span<const std::byte> bytes) { return crc32c_extend(0, bytes); }

}  // namespace twinblock
