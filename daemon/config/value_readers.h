// Kinds of values that more than one table of the file has. What is wrong goes to the table's errors,
// and something that the rest of the file can be checked with is returned. Start-up code only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/limits.h"
#include "base/units.h"
#include "config/toml_reader.h"

namespace twinblock {

// The absolute path at `key`, normalised; empty where there is none.
std::string read_path(const ConfigTable& table, const std::string& key, const std::string& example,
                      bool required);

struct TimeoutRange {
  uint64_t min_ns, max_ns;
  const char* text;
};
constexpr TimeoutRange kTimeouts{limits::kTimeoutMin_ns, limits::kTimeoutMax_ns, "200ms to 10min"};

// The duration at `key`, in nanoseconds; `otherwise_ns` where the key is missing.
uint64_t read_timeout(const ConfigTable& table, const std::string& key, uint64_t otherwise_ns,
                      const TimeoutRange& range = kTimeouts);

// "a", "b" or "c": for messages.
std::string list_choices(std::span<const char* const> choices);

// One of `choices` at `key`, as its index; `otherwise` where the key is missing.
size_t read_choice(const ConfigTable& table, const std::string& key,
                   std::span<const char* const> choices, size_t otherwise);

}  // namespace twinblock
