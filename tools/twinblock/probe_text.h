// A probe of a link for people: as text, and as a picture. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace twinblock {

// Of what probe_json() made of one link.
std::string probe_text(const nlohmann::json& link);

// The gaps picture of each link, one below the other, as an SVG document: bytes of each interval, gaps marked, the
// cumulative rate, and the plateau.
std::string probe_picture(const nlohmann::json& links);

}  // namespace twinblock
