// The digest by which the cache of reads knows a block's content: GMAC, which is AES-128-GCM's tag over data that is
// authenticated only (NIST SP 800-38D), with a random key of this process and one nonce. Equal blocks have equal
// digests. Two that differ have equal ones with a chance of 257 in 2^128, whatever who made them knows but the key
// (GHASH is a universal hash: Carter and Wegman, 1979), and of the key nobody learns anything: a digest never leaves the
// process, which is also why one nonce will do. So a guest can't make a block that is taken for another one.
// Owned by ContentCache; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace twinblock {

using ContentTag = std::array<uint64_t, 2>;

class ContentDigest {
 public:
  using Key = std::array<std::byte, 16>;  // random, anew for each process

  explicit ContentDigest(const Key& key) : key_(key) {}
  ~ContentDigest();
  ContentDigest(const ContentDigest&) = delete;
  ContentDigest& operator=(const ContentDigest&) = delete;

  // Of `tags.size()` blocks that lie one behind the other in `data`.
  void tags_of(std::span<const std::byte> data, std::span<ContentTag> tags);

 private:
  class Borrowed;

  const Key key_;
  // GnuTLS' handles, which have the key's tables and serve one thread at a time. The lock is held to take one or
  // give it back, once a request.
  std::mutex lock_;
  std::vector<void*> idle_;
};

}  // namespace twinblock
