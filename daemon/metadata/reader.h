// How the metadata is read before the loop runs: by whoever has the file open. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>

#include "base/result.h"

namespace twinblock::metadata {

// Fills `into` with the bytes at `offset_bytes`, blocking; never asked for bytes past the file's
// end.
using ReadAt = std::function<Status(uint64_t offset_bytes, std::span<std::byte> into)>;

// Of a file that is in memory, which must outlive the reader.
inline ReadAt reader_of(std::span<const std::byte> file) {
  return [file](uint64_t offset_bytes, std::span<std::byte> into) -> Status {
    std::memcpy(into.data(), file.data() + offset_bytes, into.size());
    return ok_status();
  };
}

}  // namespace twinblock::metadata
