// What a node has counted and timed, in the text format of Prometheus (version 0.0.4). Pure but for
// the engine that it asks; loop thread only.
#pragma once

#include <string>

#include "volume/engine.h"

namespace twinblock {

// Families with HELP and TYPE, each sample with the labels `volume` and `node`. docs/metrics.md
// lists them.
std::string render_metrics(const Engine& engine);

// As above, of these views.
std::string render_metrics(const StatusView& view, const LatencyView& latency,
                           uint64_t events_total);

}  // namespace twinblock
