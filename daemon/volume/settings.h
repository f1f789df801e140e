// What the two configuration files should say alike: told to the peer when a session begins, and
// compared. What a frame tells is what a file may say. Nothing depends on it but a sentence in `status`, and on the peer's peer_timeout for how long a primary
// reads by itself (Stance::peer_waits_until_ns()). Pure.
#pragma once

#include <string>

#include "config/config.h"
#include "wire/codec.h"

namespace twinblock {

wire::SettingsPayload make_settings(const Config& config);

// Where `theirs`, of the peer, differs from this node's file: "peer_timeout (5.00 s here, 2.00 s
// there), link backup (only here)"; empty where it does not. What the peer sent may be anything.
std::string compare_settings(const wire::SettingsPayload& theirs, const Config& config);

}  // namespace twinblock
