// Links and compression in words. Pure. The objects are those of the status verb; members that are
// missing or of another type are left out of the text.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace twinblock {

// 10000000000 as "10 Gbit/s".
std::string bit_rate(uint64_t bits_per_s);

// A table with a line for each link, and below it what is wrong with those that are not up. Ends
// with a newline.
std::string links_table(const nlohmann::json& links);

// The same table with all that is known of each link below its line.
std::string links_text(const nlohmann::json& links);

// "auto, level 1: 12 GiB sent as 4 GiB (3.0:1), …", without a newline at the end; what `auto`
// decided is a line of its own. Empty when nothing is known.
std::string compression_text(const nlohmann::json& compression);

}  // namespace twinblock
