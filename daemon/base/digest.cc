#include "base/digest.h"

#include <xxhash.h>

#include <cstring>

namespace twinblock {

Digest digest_of(std::span<const std::byte> bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  Digest digest;
  static_assert(sizeof canonical == sizeof digest);
  std::memcpy(digest.data(), &canonical, sizeof digest);
  return digest;
}

}  // namespace twinblock
