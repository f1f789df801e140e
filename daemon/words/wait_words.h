// What an order that needs both replicas whole advises where they are not. Pure; any thread.
#pragma once

#include <optional>
#include <string>

#include "mirror/generation.h"

namespace twinblock {

// To wait. `primary`: this node is; where none is there is no duplex, and a session alone ("connected") is not what the
// order lacks.
std::string wait_for_both_words(const std::string& volume, bool primary);
// The two refuse each other, which passes by no waiting (a split brain, say) where they have found out what they are to
// each other, and perhaps by itself where they have not. `verdict`: that, or none.
std::string refusal_lasts_words(const std::string& refusal, const std::optional<Verdict>& verdict, const std::string& volume,
                                const std::string& peer);

}  // namespace twinblock
