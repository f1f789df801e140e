// Files that nobody may read but this user: keys, passwords. Any thread; they block.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace twinblock {

// How messages speak of a kind of secret, and what to do about it.
struct SecretWords {
  const char* name;     // "key"
  const char* write;    // … where there is none that can be used
  const char* own;      // … where it belongs to somebody else
  const char* replace;  // … where somebody may have read it
};

// What is in the file, which nobody can read or change but its owner, who is this user or root; others
// are refused, as are longer ones.
Result<std::string> read_secret_file(const std::string& path, size_t bytes_max,
                                     const SecretWords& words);

}  // namespace twinblock
