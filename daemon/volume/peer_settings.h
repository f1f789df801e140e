// What the two configuration files say, and should say alike: told to the peer, and compared; Stance is told for how long
// the peer waits. A session in which the peer does not tell it ends, where clients' reads wait for that. Owned by
// EngineSession; loop thread only.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "volume/core.h"
#include "wire/codec.h"

namespace twinblock {

class PeerSettings {
 public:
  explicit PeerSettings(Core& core);

  void session_up();
  void session_lost();
  void heard(const wire::SettingsFrame& frame, const wire::SettingsPayload& theirs);
  // Witness::mark(), after each answer.
  void witness_answered(uint64_t mark);
  // Where they differ (compare_settings()); empty: nowhere, or not compared yet.
  [[nodiscard]] const std::string& difference() const { return differ_; }

 private:
  struct Told {
    uint64_t witness_mark;
    wire::SettingsPayload settings;
  };

  void tell();
  void compare();
  void at_silence();

  Core& core_;
  const std::unique_ptr<Timer> not_told_;
  uint64_t witness_mark_ = 0;
  // Marks differ for a moment where an entry is made anew: until the other node has looked.
  const std::unique_ptr<Timer> marks_differ_;
  bool marks_may_be_old_ = true;
  std::optional<Told> told_;  // by the peer, in this session or the last one
  std::string differ_;
};

}  // namespace twinblock
