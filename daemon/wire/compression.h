// zstd for the payloads of data frames. Each thread has one context for either direction, made at
// its first use and kept: making one costs more than compressing a block. Any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace twinblock::wire {

// What a compressed payload may need; data that does not shrink below this travels as it is.
constexpr size_t compressed_bytes_max(size_t raw_bytes) { return raw_bytes - raw_bytes / 8; }

// One zstd frame, which says how long its content is, at the front of `into`
// (compressed_bytes_max(raw.size()) bytes at least); its length, or 0 when `raw` does not shrink
// enough. `raw` is not empty; `level` as in limits.h.
[[nodiscard]] size_t compress(std::span<const std::byte> raw, int level, std::span<std::byte> into);

// Fills `into` with what the frame holds. A phrase that says what is wrong with the payload, or an
// empty string. Payloads come from outside: the frame must be one, whole, and say that its content
// is as long as `into`, which is checked before anything is decompressed; no more is ever written,
// and nothing is allocated by what a payload says.
[[nodiscard]] std::string decompress(std::span<const std::byte> payload, std::span<std::byte> into);

}  // namespace twinblock::wire
