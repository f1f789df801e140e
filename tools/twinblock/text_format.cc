#include "twinblock/text_format.h"

#include <array>
#include <cmath>
#include <cstdarg>
#include <cstdio>

namespace twinblock {
namespace {

struct ScaledUnit {
  const char* name;
  double factor;
};

// In the first unit in which three digits before the point do, or else the last.
template <size_t N>
std::string compact(double value, const std::array<ScaledUnit, N>& units) {
  size_t unit = 0;
  while (unit + 1 < N && value / units[unit].factor >= 999.5) ++unit;
  const double scaled = value / units[unit].factor;
  const bool whole = unit == 0 || scaled == std::floor(scaled);
  const int decimals = whole || scaled >= 99.95 ? 0 : scaled >= 9.995 ? 1 : 2;
  return printed("%.*f %s", decimals, scaled, units[unit].name);
}

}  // namespace

std::string printed(const char* format, ...) {
  char text[256];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return text;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts)
    if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
  return text;
}

std::string rate_moved(double bytes_per_s) { return printed("%.4g MB/s", bytes_per_s / 1e6); }

std::string compact_size(uint64_t bytes) {
  constexpr std::array<ScaledUnit, 5> units{
      {{"B", 1}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}}};
  return compact(static_cast<double>(bytes), units);
}

std::string compact_duration(uint64_t ns) {
  constexpr std::array<ScaledUnit, 4> units{{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}};
  return compact(static_cast<double>(ns), units);
}

std::string first_lines(const std::string& text, size_t lines) {
  if (lines == 0) return text;
  size_t at = 0;
  for (size_t line = 0; line < lines; ++line) {
    const size_t end = text.find('\n', at);
    if (end == std::string::npos) return text;
    at = end + 1;
  }
  return text.substr(0, at);
}

std::string clock_time(uint64_t seconds) {
  const auto h = static_cast<unsigned long long>(seconds / 3600);
  const auto m = static_cast<unsigned long long>(seconds / 60 % 60);
  const auto s = static_cast<unsigned long long>(seconds % 60);
  return h > 0 ? printed("%llu:%02llu:%02llu", h, m, s) : printed("%llu:%02llu", m, s);
}

}  // namespace twinblock
