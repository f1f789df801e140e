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

// Three digits, for tables: 851443712 as "812 MiB", 1048575 as "1.00 MiB"; 80500 ns as "80.5 us".
std::string compact_size(uint64_t bytes);
std::string compact_duration(uint64_t ns);

// 23800000 as "23.8 MB/s".
std::string rate_moved(double bytes_per_s);

// At most so many lines of it; 0: all.
std::string first_lines(const std::string& text, size_t lines);

// 187 as "3:07", 3725 as "1:02:05".
std::string clock_time(uint64_t seconds);

}  // namespace twinblock
