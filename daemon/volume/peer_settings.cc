#include "volume/peer_settings.h"

#include <utility>

#include "base/limits.h"
#include "base/units.h"
#include "volume/settings.h"

namespace twinblock {

PeerSettings::PeerSettings(Core& core)
    : core_(core), not_told_(core.clock.make_timer([this] { at_silence(); })) {}

void PeerSettings::session_up() {
  core_.stance().session_up();
  not_told_->arm(core_.config.disk_timeout_ns);
  const wire::SettingsPayload settings = make_settings(core_.config);
  core_.session.send_ordered(wire::SettingsFrame{}, wire::bytes_of(settings));
}

void PeerSettings::at_silence() {
  const AloneRight& right = core_.stance().alone_right();
  if (right.witness() != WitnessKind::kEtcd || !right.asks(core_.record())) return;
  core_.session.drop(core_.peer + " has not told its peer_timeout for " + format_duration(core_.config.disk_timeout_ns) +
                         ", without which nothing is read here",
                     limits::kReconnectDelayMax_ns);
}

void PeerSettings::heard(const wire::SettingsPayload& theirs) {
  not_told_->disarm();
  std::string differ = compare_settings(theirs, core_.config);
  if (!differ.empty() && differ != differ_)
    core_.peer_told("the configuration files differ: " + differ + ";", "there is " + core_.peer, Severity::kWarning);
  differ_ = std::move(differ);
  core_.stance().peer_told_timeout(theirs.peer_timeout_ns);
}

}  // namespace twinblock
