// What the figures of `latency` mean, in sentences: how much is wire, and whether a faster link
// would help. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace twinblock {

// Of the latency verb's answer; of the size class with most writes, and of the one where the wire
// weighs most, if that is another one. Empty without writes.
std::vector<std::string> latency_verdict(const nlohmann::json& latency);

// Why wire and stack are not told apart exactly, and what to do; empty when they are.
std::string latency_doubt(const nlohmann::json& latency);

}  // namespace twinblock
