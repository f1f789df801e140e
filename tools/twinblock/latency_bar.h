// The stages of a write as one stacked bar of characters: which part of its time goes where. Pure.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

namespace twinblock {

// A bar of exactly `width` letters for one class of the latency verb's answer, each part as long as
// its share of the mean write; with `colour`, on coloured ground (ANSI). Parts that would be
// shorter than half a letter are left out. Empty when the class has no time at all.
std::string latency_bar(const nlohmann::json& write_class, size_t width, bool colour);

// What the letters mean: lines of at most 80 characters, each with a newline.
std::string latency_legend(bool colour);

}  // namespace twinblock
