// What the two configuration files say, and should say alike: told to the peer, and compared; Stance is told for how long
// the peer waits. Owned by EngineSession; loop thread only.
#pragma once

#include <string>

#include "volume/core.h"
#include "wire/codec.h"

namespace twinblock {

class PeerSettings {
 public:
  explicit PeerSettings(Core& core) : core_(core) {}

  void session_up();
  void heard(const wire::SettingsPayload& theirs);
  // Where they differ (compare_settings()); empty: nowhere, or not compared yet.
  [[nodiscard]] const std::string& difference() const { return differ_; }

 private:
  Core& core_;
  std::string differ_;
};

}  // namespace twinblock
