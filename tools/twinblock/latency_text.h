// Where the time of writes goes, as text for people, 80 columns wide. Pure. Renders the answer of
// the latency verb; members that are missing or of another type are left out.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace twinblock {

// What is shown beside the sentence, the bars and the one table, which fit on a screen of 30 lines.
struct LatencyDetail {
  bool sizes = false;  // how long each stage took, a table for each size class
  bool links = false;  // the parts of round trips, a table for each link
};

// What it means, a bar for each size class, a table of them, and what `detail` says. Without writes: that
// there are none, and what to do.
std::string latency_text(const nlohmann::json& latency, const LatencyDetail& detail, bool colour);

}  // namespace twinblock
