// The counters of a node as text for people. Pure. Renders the answer of the stats verb; members
// that are missing or of another type count as 0.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace twinblock {

// A line for each, at most 80 columns wide.
std::string stats_text(const nlohmann::json& stats);

}  // namespace twinblock
