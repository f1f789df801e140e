#include "twinblock/promoter_view.h"

#include "base/units.h"
#include "twinblock/json_fields.h"

namespace twinblock {
namespace {

using nlohmann::json;

// A node that the other one is refused by, or refuses, waits for an operator: its data may have to be
// given up.
bool is_able(const json& status) {
  const std::string state = text_at(status, "state");
  return text_at(status, "data") == "current" && state != "refused" && state != "failed";
}

std::string standing_of(const json& status, const json& peer) {
  const json parts{text_at(status, "state"),
                   text_at(status, "data"),
                   text_at(object_at(status, "disk"), "error"),
                   text_at(object_at(status, "generation"), "current"),
                   count_at(status, "pid"),
                   flag_at(peer, "connected"),
                   text_at(peer, "role"),
                   text_at(peer, "data")};
  return json_text(parts);
}

}  // namespace

PromoterView promoter_view(const json& status) {
  const json peer = object_at(status, "peer");
  const json witness = object_at(status, "witness");
  PromoterView view;
  view.volume = text_at(status, "volume");
  view.node = text_at(status, "node");
  view.peer = text_at(peer, "name");
  view.witness = !text_at(witness, "kind").empty() && text_at(witness, "kind") != "none";
  view.witness_counts = text_at(witness, "state") != "off";
  view.primary = text_at(status, "role") == "primary";
  view.peer_connected = flag_at(peer, "connected");
  view.peer_primary = view.peer_connected && text_at(peer, "role") == "primary";
  view.peer_able = view.peer_connected && text_at(peer, "data") == "current";
  view.resumes = flag_at(status, "resumes");
  view.able = is_able(status);
  view.term = count_at(status, "term");
  view.peer_term = count_at(peer, "term");
  view.uptime_ns = time_at_ns(status, "uptime_s", static_cast<double>(kSecond_ns));
  if (peer.contains("silent_ms") && peer["silent_ms"].is_number())
    view.silent_ns = time_at_ns(peer, "silent_ms", static_cast<double>(kMillisecond_ns));
  view.standing = standing_of(status, peer);
  return view;
}

}  // namespace twinblock
