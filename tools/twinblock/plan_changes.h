// What else than another link would change what clients see: another disk, encryption, compression. Pure: from what
// was measured with the things as they are.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "twinblock/forecast.h"

namespace twinblock {

// What this host needs to seal so many bytes, by its cipher; 0: not measured.
struct SealCost {
  double fixed_ns = 0;
  double byte_ns = 0;
};

struct PlannedChange {
  std::string title;  // "disk of beta, 2x"
  Change change;
  std::string doubt;  // what it takes for granted; may be empty
};

bool is_encrypted(const nlohmann::json& status);

// Each disk twice as fast, where writes wait for it; encryption, and compression, off where they are on; encryption
// on where it is off, by `seal`; compression on where it is off and `ratio` (over 1) says to how much less the data
// compresses.
std::vector<PlannedChange> changes_of(const Workload& workload, const nlohmann::json& latency,
                                      const nlohmann::json& status, const SealCost& seal, double ratio);

}  // namespace twinblock
