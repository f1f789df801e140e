// What a promoter goes by of a node's `status`. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace twinblock {

struct PromoterView {
  std::string volume;
  std::string node;
  std::string peer;
  bool witness = false;   // somebody is asked before a node goes on without the other …
  bool witness_counts = true;  // … and the other one asks the same; else a promotion would be an operator's affair
  bool primary = false;
  bool resumes = false;   // may be primary again by itself, by the promotion of its last process
  bool able = false;      // this replica could be served
  bool peer_connected = false;  // and in that session:
  bool peer_primary = false;
  bool peer_able = false;
  // Of each node's last promotion: the higher one was primary last. 0: none.
  uint64_t term = 0;
  uint64_t peer_term = 0;
  uint64_t uptime_ns = 0;  // of the node's process
  // For how long nothing has come from the peer; none: this process of the node never met it.
  std::optional<uint64_t> silent_ns;
  // All that a refused promotion may have followed from, as one text: while it is the same, so is the
  // answer.
  std::string standing;
};

PromoterView promoter_view(const nlohmann::json& status);

}  // namespace twinblock
