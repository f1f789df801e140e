// Sizes, durations and rates as users write and read them. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace twinblock {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;
constexpr uint64_t kGiB = 1024 * kMiB;
constexpr uint64_t kTiB = 1024 * kGiB;
constexpr uint64_t kMicrosecond_ns = 1000;
constexpr uint64_t kMillisecond_ns = 1000 * kMicrosecond_ns;
constexpr uint64_t kSecond_ns = 1000 * kMillisecond_ns;
constexpr double in_seconds(uint64_t ns) { return static_cast<double>(ns) / 1e9; }

// "10GiB", "512 MiB", "1000MB", "4096": bytes. Binary (KiB…TiB) and decimal (kB…TB) suffixes;
// nullopt for anything else, for a fraction and on overflow.
std::optional<uint64_t> parse_size_bytes(std::string_view text);
// "5s", "500ms", "250us", "2min": nanoseconds.
std::optional<uint64_t> parse_duration_ns(std::string_view text);
// "10Gbit", "100Mbit", "1.5Gbit": bits a second.
std::optional<uint64_t> parse_rate_bits_per_s(std::string_view text);

// 1610612736 as "1.5 GiB".
std::string format_size(uint64_t bytes);
// 21474836480 as "20GiB", 21474840576 as "20971524KiB": what parse_size_bytes() takes for the same size.
std::string format_exact_size(uint64_t bytes);
// 1500000 as "1.50 ms".
std::string format_duration(uint64_t ns);
// Nanoseconds since 1970 as "2026-03-01T12:00:05.123Z".
std::string format_timestamp(uint64_t unix_ns);
// Seconds since 1970 as "2026-03-01 12:00:05 UTC"; "an unknown time" for 0.
std::string format_time(uint64_t unix_s);

}  // namespace twinblock
