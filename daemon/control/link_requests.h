// The verbs `link` and `compression`: what goes between the nodes, and how. Loop thread only.
#pragma once

#include <nlohmann/json.hpp>

#include "control/replies.h"

namespace twinblock {

// `args` have the types that the table of verbs names; which of them go together is checked here.
void answer_link(Engine& engine, const nlohmann::json& args, Send send);
void answer_compression(Engine& engine, const nlohmann::json& args, Send send);

}  // namespace twinblock
