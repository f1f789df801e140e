// What a snapshot may be called. The name becomes part of a file's name on both hosts, and of a command's
// environment: nothing in it leads elsewhere, or is an option. Pure; any thread.
#pragma once

#include <algorithm>
#include <string_view>

#include "base/limits.h"

namespace twinblock {

constexpr bool is_snapshot_name(std::string_view name) {
  // By hand: what a letter is may not depend on the process' language.
  const auto alphanumeric = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  // What is not finished yet of snapshot "x" is in ….x.part.
  return !name.ends_with(".part") && !name.empty() && name.size() <= limits::kSnapshotNameBytesMax && alphanumeric(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return alphanumeric(c) || c == '_' || c == '.' || c == '-'; });
}
constexpr const char* kSnapshotNameRule =
    "1 to 63 letters, digits, '_', '.' and '-', the first one a letter or a digit, and does not end in .part";

}  // namespace twinblock
