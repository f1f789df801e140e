// What `why` says: how the state came about, what a promotion here would lose, what to do. Pure.
#pragma once

#include <string>
#include <vector>

#include "volume/status_view.h"

namespace twinblock {

// Sentences, the state first.
std::vector<std::string> why_words(const StatusView& view);

}  // namespace twinblock
