// The verbs `latency` and `sample`: where the time of writes goes. Loop thread only.
#pragma once

#include <nlohmann/json.hpp>

#include "control/replies.h"

namespace twinblock {

// A size class of clients' writes, and how many of them have ended.
nlohmann::json size_class_json(const LatencyView::Class& each);

// `args` have the types that the table of verbs names.
void answer_latency(const Engine& engine, const nlohmann::json& args, const Send& send);
void answer_sample(Engine& engine, const nlohmann::json& args, const Send& send);

}  // namespace twinblock
