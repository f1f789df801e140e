// Where the time of writes goes, as text for people, 80 columns wide. Pure. Renders the answer of
// the latency verb; members that are missing or of another type are left out.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

namespace twinblock {

// A table for each size class, a bar for each, the parts of round trips on each link, and what that
// means. Without writes: that there are none, and what to do.
std::string latency_text(const nlohmann::json& latency, bool colour);

// The same for a screen that is drawn again and again: what matters most comes first, and at most
// `rows` lines (0: all).
std::string latency_frame(const nlohmann::json& latency, bool colour, size_t rows);

}  // namespace twinblock
