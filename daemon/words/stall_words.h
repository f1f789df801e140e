// What users are told of a primary whose own disk stands still. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>

namespace twinblock {

// A part of a sentence: "its disk has stood still for …".
std::string stalled_words(uint64_t stalled_ns);
// What has to be done to it before another node goes on by an operator's word: a part of a sentence.
std::string end_stalled_primary(const std::string& node);

}  // namespace twinblock
