// Pieces of the text that this tool prints. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace twinblock {

// As printf, at most some 250 characters.
__attribute__((format(printf, 1, 2))) std::string printed(const char* format, ...);

// The parts that are not empty, with ", " between them.
std::string joined(const std::vector<std::string>& parts);

// 187 as "3:07", 3725 as "1:02:05".
std::string clock_time(uint64_t seconds);

}  // namespace twinblock
