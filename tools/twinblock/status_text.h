// The status of a node as text for people, in the manner of `zpool status`. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace twinblock {

// Renders the "result" of the status verb, several lines with a newline at the end. Missing or
// oddly typed members are left out, so that a CLI and a node of different ages understand each
// other.
std::string status_text(const nlohmann::json& status);

// Of {"volumes": […]}, a line for each; what is to be done for one follows. Those that carry "error" in place
// of a status are told of with that.
std::string status_list(const nlohmann::json& all);

// "r0 on alpha: primary, duplex", with a newline.
std::string short_status(const nlohmann::json& status);

}  // namespace twinblock
