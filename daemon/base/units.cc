#include "base/units.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>

namespace twinblock {
namespace {

struct Suffix {
  std::string_view text;
  uint64_t factor;
};

std::string_view trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())))
    text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())))
    text.remove_suffix(1);
  return text;
}

// NUMBER SUFFIX, where the suffix is one of `suffixes`, matched exactly.
template <size_t N>
std::optional<uint64_t> parse_scaled(std::string_view text, const std::array<Suffix, N>& suffixes,
                                     bool fractions) {
  text = trim(text);
  size_t digits = 0;
  while (digits < text.size() &&
         (std::isdigit(static_cast<unsigned char>(text[digits])) || text[digits] == '.'))
    ++digits;
  const std::string_view number = text.substr(0, digits);
  const std::string_view unit = trim(text.substr(digits));
  if (number.empty()) return std::nullopt;
  for (const Suffix& suffix : suffixes) {
    if (unit != suffix.text) continue;
    if (number.find('.') == std::string_view::npos) {
      uint64_t value = 0;
      const auto [end, error] =
          std::from_chars(number.data(), number.data() + number.size(), value);
      if (error != std::errc{} || end != number.data() + number.size()) return std::nullopt;
      uint64_t product = 0;
      if (__builtin_mul_overflow(value, suffix.factor, &product)) return std::nullopt;
      return product;
    }
    if (!fractions) return std::nullopt;
    double value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error != std::errc{} || end != number.data() + number.size()) return std::nullopt;
    const double product = value * static_cast<double>(suffix.factor);
    if (product >= 9.2e18) return std::nullopt;  // llround() takes no more
    return static_cast<uint64_t>(std::llround(product));
  }
  return std::nullopt;
}

constexpr std::array<Suffix, 10> kSizes{{{"", 1},
                                         {"B", 1},
                                         {"KiB", kKiB},
                                         {"MiB", kMiB},
                                         {"GiB", kGiB},
                                         {"TiB", kTiB},
                                         {"kB", 1000},
                                         {"MB", 1000'000},
                                         {"GB", 1000'000'000},
                                         {"TB", 1000'000'000'000}}};
// As sizes are written, the largest first.
constexpr std::array<Suffix, 4> kBinarySizes{
    {{"TiB", kTiB}, {"GiB", kGiB}, {"MiB", kMiB}, {"KiB", kKiB}}};
constexpr std::array<Suffix, 4> kDurations{{{"s", kSecond_ns},
                                            {"ms", kMillisecond_ns},
                                            {"us", kMicrosecond_ns},
                                            {"min", 60 * kSecond_ns}}};
constexpr std::array<Suffix, 4> kRates{
    {{"bit", 1}, {"kbit", 1000}, {"Mbit", 1000'000}, {"Gbit", 1000'000'000}}};

}  // namespace

std::optional<uint64_t> parse_size_bytes(std::string_view text) {
  return parse_scaled(text, kSizes, false);
}

std::optional<uint64_t> parse_duration_ns(std::string_view text) {
  return parse_scaled(text, kDurations, true);
}

std::optional<uint64_t> parse_rate_bits_per_s(std::string_view text) {
  return parse_scaled(text, kRates, true);
}

std::string format_size(uint64_t bytes) {
  for (const Suffix& unit : kBinarySizes) {
    if (bytes < unit.factor) continue;
    char text[48];
    const double value = static_cast<double>(bytes) / static_cast<double>(unit.factor);
    std::snprintf(text, sizeof text, bytes % unit.factor == 0 ? "%.0f %s" : "%.1f %s", value,
                  unit.text.data());
    return text;
  }
  return std::to_string(bytes) + " B";
}

std::string format_exact_size(uint64_t bytes) {
  for (const Suffix& unit : kBinarySizes)
    if (bytes != 0 && bytes % unit.factor == 0)
      return std::to_string(bytes / unit.factor) + std::string(unit.text);
  return std::to_string(bytes);
}

std::string format_duration(uint64_t ns) {
  char text[48];
  const auto value = static_cast<double>(ns);
  if (ns >= 60 * kSecond_ns)
    std::snprintf(text, sizeof text, "%llu min %llu s",
                  static_cast<unsigned long long>(ns / (60 * kSecond_ns)),
                  static_cast<unsigned long long>(ns / kSecond_ns % 60));
  else if (ns >= kSecond_ns)
    std::snprintf(text, sizeof text, "%.2f s", value / 1e9);
  else if (ns >= kMillisecond_ns)
    std::snprintf(text, sizeof text, "%.2f ms", value / 1e6);
  else
    std::snprintf(text, sizeof text, "%.1f us", value / 1e3);
  return text;
}

std::string format_timestamp(uint64_t unix_ns) {
  const auto time = static_cast<std::time_t>(unix_ns / kSecond_ns);
  std::tm parts{};
  char day[48] = "";
  if (gmtime_r(&time, &parts) != nullptr)
    (void)!std::strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &parts);
  char text[64];
  std::snprintf(text, sizeof text, "%s.%03lluZ", day,
                static_cast<unsigned long long>(unix_ns / kMillisecond_ns % 1000));
  return text;
}

std::string format_time(uint64_t unix_s) {
  const auto time = static_cast<std::time_t>(unix_s);
  std::tm parts{};
  char text[48];
  if (unix_s == 0 || gmtime_r(&time, &parts) == nullptr ||
      std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts) == 0)
    return "an unknown time";
  return text;
}

}  // namespace twinblock
