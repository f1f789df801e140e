// What nobody who runs a volume asks of an engine, and those do that check from outside how it gets on: the
// simulator and the tests. It looks and changes nothing. Made by the engine where it is asked for; loop thread only.
#pragma once

#include "session/session.h"
#include "volume/core.h"
#include "volume/own_facts.h"
#include "volume/write_path.h"

namespace twinblock {

class EngineInside {
 public:
  EngineInside(const Core& core, const OwnFacts& facts, const WritePath& writes)
      : core_(core), facts_(facts), writes_(writes) {}

  // What the peer would be told, if it died now and came back.
  struct Outlook {
    SyncFacts facts;
    BlockMap dirty;
    bool sessions_on_record;  // of its past, that is
  };
  [[nodiscard]] Outlook without_peer() const {
    Outlook outlook{facts_.now(), writes_.dirty_without_peer(), core_.state().durable().sessions.stood.front() != 0};
    outlook.facts.dirty = outlook.facts.dirty || !outlook.dirty.empty();
    return outlook;
  }
  // Writes wait for a snapshot's copies.
  [[nodiscard]] bool holds_writes() const { return writes_.held_back(); }
  [[nodiscard]] bool session_stands() const { return core_.session.up(); }
  [[nodiscard]] Phase phase() const { return core_.phase().now(); }
  // It has enough to do, and reads nothing of its peer's until some of it is done.
  [[nodiscard]] bool stopped_reading() const {
    return core_.session.up() && core_.session.links().paused();
  }
  // The steps of the table of phases that were taken.
  [[nodiscard]] const PhaseSteps& phase_steps() const { return core_.phase().steps(); }
  // … and of that of a connection's phases.
  [[nodiscard]] const ChannelSteps& channel_steps() const { return core_.session.links().steps(); }

 private:
  const Core& core_;
  const OwnFacts& facts_;
  const WritePath& writes_;
};

}  // namespace twinblock
