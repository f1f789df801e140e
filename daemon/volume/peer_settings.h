// What the two configuration files say, and should say alike: told to the peer, and compared; Stance is told for how long
// the peer waits. A session in which the peer does not tell it ends, where clients' reads wait for that. Owned by
// EngineSession; loop thread only.
#pragma once

#include <memory>
#include <string>

#include "volume/core.h"
#include "wire/codec.h"

namespace twinblock {

class PeerSettings {
 public:
  explicit PeerSettings(Core& core);

  void session_up();
  void session_lost() { not_told_->disarm(); }
  void heard(const wire::SettingsPayload& theirs);
  // Where they differ (compare_settings()); empty: nowhere, or not compared yet.
  [[nodiscard]] const std::string& difference() const { return differ_; }

 private:
  void at_silence();

  Core& core_;
  const std::unique_ptr<Timer> not_told_;
  std::string differ_;
};

}  // namespace twinblock
