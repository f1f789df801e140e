// [cache] of the file: how much memory the cache of reads may take. Start-up code only.
#pragma once

#include <cstdint>

#include "config/toml_reader.h"

namespace twinblock {

// Without the table: 0, there is no cache. What is wrong goes to the table's errors.
uint64_t read_cache_bytes(const ConfigTable& top);

}  // namespace twinblock
