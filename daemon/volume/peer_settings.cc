#include "volume/peer_settings.h"

#include <utility>

#include "base/limits.h"
#include "base/units.h"
#include "volume/settings.h"

namespace twinblock {

PeerSettings::PeerSettings(Core& core)
    : core_(core),
      not_told_(core.clock.make_timer([this] { at_silence(); })),
      marks_differ_(core.clock.make_timer([this] {
        marks_may_be_old_ = false;
        compare();
      })) {}

void PeerSettings::session_up() {
  core_.stance().session_up();
  not_told_->arm(core_.config.disk_timeout_ns);
  tell();
}

void PeerSettings::session_lost() {
  not_told_->disarm();
  if (told_) told_->witness_mark = 0;  // the peer's register may be made anew meanwhile
  compare();
}

void PeerSettings::tell() {
  const wire::SettingsPayload settings = make_settings(core_.config);
  core_.session.send_ordered(wire::SettingsFrame{witness_mark_}, wire::bytes_of(settings));
}

void PeerSettings::witness_answered(uint64_t mark) {
  if (mark == witness_mark_) return;
  witness_mark_ = mark;
  if (core_.session.up()) tell();
  compare();
}

void PeerSettings::at_silence() {
  const AloneRight& right = core_.stance().alone_right();
  if (right.witness() != WitnessKind::kEtcd || !right.asks(core_.record())) return;
  core_.session.drop(core_.peer + " has not told its peer_timeout for " + format_duration(core_.config.disk_timeout_ns) +
                         ", without which nothing is read here",
                     limits::kReconnectDelayMax_ns);
}

void PeerSettings::heard(const wire::SettingsFrame& frame, const wire::SettingsPayload& theirs) {
  not_told_->disarm();
  told_ = {frame.witness_mark, theirs};
  compare();
  core_.stance().peer_told_timeout(theirs.peer_timeout_ns);
}

void PeerSettings::compare() {
  if (!told_) return;
  std::string differ = compare_settings(told_->settings, core_.config);
  const uint64_t there = told_->witness_mark;
  const bool marks_differ = there != 0 && witness_mark_ != 0 && there != witness_mark_;
  if (!marks_differ) {
    marks_differ_->disarm();
    marks_may_be_old_ = true;
  } else if (marks_may_be_old_) {
    marks_differ_->arm(limits::kWitnessMarksDiffer_ns);
  } else {
    differ += (differ.empty() ? "" : ", ") +
              std::string("witness (another register of etcd here than there: both may go on alone)");
  }
  if (!differ.empty() && differ != differ_)
    core_.peer_told("the configuration files differ: " + differ + ";", "there is " + core_.peer, Severity::kWarning);
  differ_ = std::move(differ);
}

}  // namespace twinblock
