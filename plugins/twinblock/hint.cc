#include "hint.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>

#include "base/limits.h"

namespace twinblock {

int read_hint(uint64_t offset_bytes, uint64_t length_bytes, const std::function<bool()>& stops,
              const std::function<int(std::span<std::byte> into, uint64_t offset_bytes)>& read) {
  const uint64_t end_bytes = offset_bytes + std::min<uint64_t>(length_bytes, limits::kClientRequestBytesMax);
  const size_t room_bytes = std::min<size_t>(end_bytes - offset_bytes, kMiB);
  const std::unique_ptr<std::byte[]> memory(new (std::nothrow) std::byte[room_bytes]);
  if (memory == nullptr) return ENOMEM;
  while (offset_bytes < end_bytes && !stops()) {
    const size_t part_bytes = std::min<size_t>(room_bytes, end_bytes - offset_bytes);
    if (const int error = read({memory.get(), part_bytes}, offset_bytes); error != 0) return error;
    offset_bytes += part_bytes;
  }
  return 0;
}

}  // namespace twinblock
