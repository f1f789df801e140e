// Green, yellow, red: whether a load that was recorded gets on with one gigabit link. Pure.
#pragma once

#include <optional>
#include <string>

#include "twinblock/plan_load.h"

namespace twinblock {

constexpr double kMB = 1e6;  // bytes

enum class Zone { kGreen, kYellow, kRed };

// "green", "yellow", "red".
const char* zone_word(Zone zone);

// Below the first is green, above the second is red.
struct Limits {
  double yellow_bytes_per_s = 0;
  double red_bytes_per_s = 0;
  double yellow_size_bytes = 0;
  double red_size_bytes = 0;
};

// For one gigabit link, from the paper: 35 and 50 MB/s, 8 and 16 KiB.
Limits paper_limits();

// At the first limit it is yellow already.
Zone rate_zone(double bytes_per_s, const Limits& limits);
// At the first limit it is green still: writes of 8 KiB are what the paper found good.
Zone size_zone(double bytes, const Limits& limits);

// One sentence: what to do.
std::string recommendation(const Load& load, const Limits& limits);
// One sentence: what that rests on, and how sure it is.
std::string confidence(const Load& load);
// "sure", "fairly sure", "little sure".
const char* confidence_word(const Load& load);

}  // namespace twinblock
