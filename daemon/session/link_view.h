// What status says of one link: codes and figures.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace twinblock {

enum class LinkState {
  kDown,        // not connected, and just not being dialled
  kConnecting,  // being dialled, or introducing itself
  kUp,
  kDamped,    // came and went too often: it is left alone for a while
  kRefused,   // the peer does not take it
  kDisabled,  // by an operator
};

// "down", "connecting", "up", "damped", "refused", "disabled": in --json.
const char* link_state_name(LinkState state);

struct LinkView {
  std::string name;
  LinkState state = LinkState::kDown;
  std::string local, peer;  // addresses
  std::string protection;   // of the connection, if it is up: Connection::protection()
  std::string last_error;
  std::optional<uint64_t> round_trip_ns;
  uint64_t nominal_bits_per_s = 0;    // as configured; 0: not given
  uint64_t measured_bytes_per_s = 0;  // what it moved when it was busy; 0: it never was
  uint64_t in_bytes_per_s = 0, out_bytes_per_s = 0;  // lately
  uint64_t in_bytes = 0, out_bytes = 0;              // since this process started
  uint64_t cipher_ns = 0;            // spent on encryption by this node, since this process started
  uint64_t in_flight_bytes = 0;                      // sent, and not acknowledged yet
  uint64_t failovers = 0;    // how often another link took over what this one carried
  uint64_t silence_limit_ns = 0;  // for so long it may be silent while another one lives …
  bool silence_limit_raised = false;  // … which is more than link_timeout, as it was given up wrongly
  uint64_t retry_in_ns = 0;  // until it is dialled again; 0: it is not waited for
};

}  // namespace twinblock
