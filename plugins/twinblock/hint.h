// What a client says that it is going to read (NBD_CMD_CACHE).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace twinblock {

// Reads it into memory of its own, which is forgotten: what a read leaves in the host's memory, and in the cache of
// contents, is what helps. 0 or an errno value, as `read` gives it.
//
// A request may name 4 GiB, and nobody can take it back: who asked may have died, and counts as a client until it ends. So
// no more of it is read than of any other request, and nothing once `stops` says that the node is to end: it is a hint.
int read_hint(uint64_t offset_bytes, uint64_t length_bytes, const std::function<bool()>& stops,
              const std::function<int(std::span<std::byte> into, uint64_t offset_bytes)>& read);

}  // namespace twinblock
