// What `status` says: the state in a sentence or some, and what to do about it. Pure.
#pragma once

#include <string>

#include "volume/status_view.h"

namespace twinblock {

struct StatusWords {
  std::string status;
  std::string action;  // empty where there is nothing to do
};

StatusWords status_words(const StatusView& view);

// As above, of the volume's state alone: without links that are missing, orders about links that the
// peer refuses, and configuration files that differ.
StatusWords state_words(const StatusView& view);

// "primary" or "secondary"; of the peer also "unknown".
const char* role_name(Role role);
const char* role_name(PeerRole role);

}  // namespace twinblock
