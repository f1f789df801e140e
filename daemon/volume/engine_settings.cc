// What the two configuration files say, and should say alike: told to the peer, and compared.
#include <utility>

#include "volume/engine.h"
#include "volume/settings.h"

namespace twinblock {

void Engine::tell_settings() {
  const wire::SettingsPayload settings = make_settings(core_.config);
  session_.send_small(wire::header_of(wire::FrameType::kSettings), wire::bytes_of(settings));
}

void Engine::handle_settings(const wire::Frame& frame) {
  std::string differ =
      compare_settings(wire::payload_as<wire::SettingsPayload>(frame.payload), core_.config);
  if (!differ.empty() && differ != settings_differ_)
    log(Severity::kWarning,
        "the configuration files differ: " + differ + "; there is " + core_.peer);
  settings_differ_ = std::move(differ);
}

void Engine::explain_settings(StatusView& view) const {
  if (settings_differ_.empty()) return;
  view.status += " The configuration files of this node (here) and " + core_.peer +
                 " (there) differ: " + settings_differ_ + ".";
}

}  // namespace twinblock
