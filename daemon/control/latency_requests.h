// The verbs `latency` and `sample`: where the time of writes goes. Loop thread only.
#pragma once

#include <nlohmann/json.hpp>

#include "control/replies.h"

namespace twinblock {

nlohmann::json distribution_json(const Distribution& of);
// A size class of clients' writes, and how many of them have ended.
nlohmann::json size_class_json(const LatencyView::Class& each);
// … with its bytes, its total and its stages.
nlohmann::json class_latency_json(const LatencyView::Class& each);
nlohmann::json link_latency_json(const LatencyView::Link& each);
nlohmann::json write_load_json(const WriteLoad& load);

// `args` have the types that the table of verbs names.
void answer_latency(const Engine& engine, const nlohmann::json& args, const Send& send);
void answer_sample(Engine& engine, const nlohmann::json& args, const Send& send);

}  // namespace twinblock
