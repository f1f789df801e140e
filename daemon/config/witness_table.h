// [witness] of the file: who is asked before a node goes on without its peer. Start-up code only.
#pragma once

#include <string>

#include "config/config.h"
#include "config/toml_reader.h"

namespace twinblock {

// Without the table: WitnessKind::kNone. What is wrong goes to the table's errors. `volume` is for
// examples.
WitnessConfig read_witness(const ConfigTable& top, const std::string& volume);

}  // namespace twinblock
