// CRC-32C (Castagnoli, RFC 3720 appendix B.4), by ISA-L, which picks the processor's instruction.
// Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace twinblock {

// The checksum of `bytes`; crc32c of "123456789" is 0xE3069283.
uint32_t crc32c(std::span<const std::byte> bytes);

// The checksum of what `crc` covers, followed by `bytes`.
uint32_t crc32c_extend(uint32_t crc, std::span<const std::byte> bytes);

}  // namespace twinblock
