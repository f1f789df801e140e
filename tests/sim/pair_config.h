// What all simulated pairs have in common: alpha and beta, whose links are as each run draws them.
#pragma once

#include "base/units.h"
#include "config/config.h"

namespace twinblock::sim {

inline Config pair_config(uint64_t volume_bytes) {
  Config config;
  config.path = "sim.toml";
  config.volume = "r0";
  config.size_bytes = volume_bytes;
  config.encryption = Encryption::kOff;
  config.nodes = {{"alpha", "/alpha.img", "/alpha.meta", "/run"},
                  {"beta", "/beta.img", "/beta.meta", "/run"}};
  return config;
}

// … with one link.
inline Config linked_pair_config(uint64_t volume_bytes) {
  Config config = pair_config(volume_bytes);
  config.links.push_back({"main", {{"alpha", "10.0.0.1:7700"}, {"beta", "10.0.0.2:7700"}}, 0});
  return config;
}

// … and timeouts that a short run has the time for.
inline Config quick_pair_config(uint64_t volume_bytes, OnRestart on_restart) {
  Config config = linked_pair_config(volume_bytes);
  config.peer_timeout_ns = kSecond_ns;
  config.on_restart = on_restart;
  config.link_timeout_ns = 300 * kMillisecond_ns;
  config.disk_timeout_ns = 5 * kSecond_ns;
  config.compression = Compression::kOff;
  return config;
}

}  // namespace twinblock::sim
