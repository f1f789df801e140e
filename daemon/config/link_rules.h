// What names and rates have to be like, in the file and for links that are added at run time. Pure;
// any thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace twinblock {

// Names become parts of file names and of command lines: no slash, no space, no leading '-'.
// `what` is for the message: "link".
Status check_name(const std::string& what, const std::string& name);

// "10Gbit" as bits a second, within what a link can have.
Result<uint64_t> parse_link_rate(const std::string& text);
[[nodiscard]] bool is_link_rate(uint64_t rate_bits_per_s);

}  // namespace twinblock
