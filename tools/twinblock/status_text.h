// The status of a node as text for people, in the manner of `zpool status`. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace twinblock {

// Renders the "result" of the status verb, several lines with a newline at the end. Missing or
// oddly typed members are left out, so that a CLI and a node of different ages understand each
// other.
std::string status_text(const nlohmann::json& status);

// One line on a running resync, without a newline: "52.1%, 1 GiB of 2 GiB, 310 MiB/s, 0:03 left".
std::string resync_line(const nlohmann::json& resync);

// One line that says how a finished resync went; empty when `last_resync` is null.
std::string last_resync_line(const nlohmann::json& last_resync);

// 187 as "3:07", 3725 as "1:02:05".
std::string clock_time(uint64_t seconds);

}  // namespace twinblock
