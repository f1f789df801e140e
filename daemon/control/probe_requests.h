// The request `probe`: begins one, or tells what it has measured so far. Loop thread only.
#pragma once

#include <nlohmann/json.hpp>

#include "control/replies.h"

namespace twinblock {

nlohmann::json probe_result_json(const ProbeResult& probe);

void answer_probe(Engine& engine, const nlohmann::json& args, const Send& send);

}  // namespace twinblock
