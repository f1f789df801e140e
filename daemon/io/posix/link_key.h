// The secret that two nodes share, by which each proves to the other who it is (TLS 1.3 with a pre-shared key,
// RFC 8446, 2.2). It lies in a file of its own, the same on both hosts. Any thread.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"

namespace twinblock {

struct LinkKey {
  static constexpr size_t kBytes = 32;
  std::array<std::byte, kBytes> secret{};
  // Names the key, and tells nothing of it: 64 bits of a SHA-256, as "9f86-d081-884c-7d65". Goes over the wire in
  // the clear.
  std::string fingerprint;
};

// By which of them this node proves itself, first; the others it takes from a peer as well. At least one.
using LinkKeys = std::vector<LinkKey>;

// The one with this fingerprint; null: there is none.
const LinkKey* find_link_key(const LinkKeys& keys, const std::string& fingerprint);

// More than the one in use and the next one are nobody's.
constexpr size_t kLinkKeysMax = 2;

// The keys of the file's `text`: a line of 64 hexadecimal digits each; '#' begins a remark. `path` is for messages.
Result<LinkKeys> parse_link_keys(const std::string& text, const std::string& path);

// Those of a file that nobody can read but its owner, who is this user or root; others are refused.
Result<LinkKeys> read_link_keys(const std::string& path);

LinkKey make_link_key();

// Writes `keys` to a new file, mode 0600, on stable storage; `volume` is for its first line. A file
// that is there is left alone, and an error.
Status write_link_keys(const std::string& path, const std::string& volume, const LinkKeys& keys);

// The same in the place of a file that is there: whoever reads it finds the old or the new keys.
Status replace_link_keys(const std::string& path, const std::string& volume, const LinkKeys& keys);

}  // namespace twinblock
