#include "volume/peer_settings.h"

#include <utility>

#include "volume/settings.h"

namespace twinblock {

void PeerSettings::session_up() {
  core_.stance().session_up();
  const wire::SettingsPayload settings = make_settings(core_.config);
  core_.session.send_ordered(wire::SettingsFrame{}, wire::bytes_of(settings));
}

void PeerSettings::heard(const wire::SettingsPayload& theirs) {
  std::string differ = compare_settings(theirs, core_.config);
  if (!differ.empty() && differ != differ_)
    core_.log.log(Severity::kWarning,
                  "the configuration files differ: " + differ + "; there is " + core_.peer);
  differ_ = std::move(differ);
  core_.stance().peer_told_timeout(theirs.peer_timeout_ns);
}

}  // namespace twinblock
