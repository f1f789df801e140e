// What there is to say of the witness in `status`, and its object in --json. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "control/status_words.h"
#include "volume/status_view.h"

namespace twinblock {

// Of a primary whose clients wait for it: what the state is, and what to do.
StatusWords waiting_words(const StatusView& view);
// Of one whose peer is refused: what to do beside mending that; sentences, or nothing.
std::string go_on_words(const StatusView& view);
// A sentence to be added where nobody waits; empty where all is well.
std::string witness_warning(const StatusView& view);

nlohmann::json render_witness(const WitnessView& view);

}  // namespace twinblock
