// What users read of why writes are compressed, or are not. Pure.
#pragma once

#include <string>

#include "config/config.h"
#include "mirror/compression_decision.h"

namespace twinblock {

// A sentence.
std::string compression_words(Compression mode, const CompressionDecision& decision);

}  // namespace twinblock
