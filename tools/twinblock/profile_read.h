// Reads a file that a user named. System calls.
#pragma once

#include <string>

#include "base/result.h"

namespace twinblock {

// The whole of a regular file of at most 256 MiB. Errors (kExitRefused) name it.
Result<std::string> read_profile_file(const std::string& path);

}  // namespace twinblock
