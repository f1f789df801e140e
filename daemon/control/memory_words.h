// What users read of how a node stands when its host is short of memory. Pure.
#pragma once

#include <string>

#include "io/memory_standing.h"

namespace twinblock {

struct MemoryWords {
  std::string refused;  // one sentence; empty: all was granted
  std::string action;
};

MemoryWords memory_words(const MemoryStanding& standing);

}  // namespace twinblock
