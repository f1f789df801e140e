#include "control/memory_words.h"

#include <cstring>
#include <vector>

namespace twinblock {

MemoryWords memory_words(const MemoryStanding& standing) {
  std::vector<std::string> refused;
  const auto add = [&refused](int error, const char* what) {
    if (error != 0) refused.push_back(std::string(what) + " (" + std::strerror(error) + ")");
  };
  add(standing.io_flusher_error, "to allocate without waiting for disks");
  add(standing.lock_error, "to stay in memory");
  add(standing.oom_error, "to be killed last");
  if (refused.empty()) return {};
  MemoryWords words{"When memory is short this node may stand still or be killed: it was refused",
                    "start it with its unit, or as root without a limit of locked memory"};
  for (size_t i = 0; i < refused.size(); ++i)
    words.refused += (i == 0 ? " " : i + 1 < refused.size() ? ", " : " and ") + refused[i];
  return words;
}

}  // namespace twinblock
