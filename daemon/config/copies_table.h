// [copies] of the file: how copies of the backing are taken. Start-up code only.
#pragma once

#include "config/config.h"
#include "config/toml_reader.h"

namespace twinblock {

// Into config.copies and config.on_no_way_back. Without the table no way back is kept before a resync, and
// snapshots are reflinks. What is wrong goes to the table's errors.
void read_copies(const ConfigTable& top, Config& config);

}  // namespace twinblock
