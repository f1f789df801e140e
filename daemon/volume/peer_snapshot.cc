#include "volume/peer_snapshot.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/limits.h"
#include "base/units.h"

namespace twinblock {

using wire::SnapshotStep;

namespace {

// Both nodes begin to keep their copies at the same time; but for the way of a frame, and a process that stands still.
constexpr uint64_t kKeptApart_ns = 10 * kSecond_ns;

}  // namespace

PeerSnapshot::PeerSnapshot(Core& core, SnapshotSteps& steps)
    : core_(core),
      steps_(steps),
      late_(core.clock.make_timer([this] { answer_late(); })),
      silence_(core.clock.make_timer([this] { at_silence(); })) {}

void PeerSnapshot::heard(const wire::SnapshotFrame& frame, const std::string& name,
                         const std::optional<Error>& refused) {
  const bool again = part_ && part_->number == frame.number && part_->step == frame.step && part_->name == name;
  if (again && part_->abandoned && frame.step != SnapshotStep::kDrop) {
    core_.answer(frame.request, given_up());
    return;
  }
  if (!again) {
    const bool first = frame.step == SnapshotStep::kFlush && !under_way();
    std::optional<Error> error = frame.step == SnapshotStep::kDrop ? std::nullopt : refused;
    if (!error) error = first ? steps_.why_not() : why_not(frame, name);
    if (error) {
      core_.answer(frame.request, error);
      return;
    }
    // There is nothing to drop: it was, or it never was.
    if (frame.step == SnapshotStep::kDrop && (!part_ || (!part_->under_way && !part_->taken))) {
      forget();
      core_.answer(frame.request, std::nullopt);
      return;
    }
    if (first) part_.emplace(Part{.name = name, .step = frame.step, .number = frame.number, .under_way = false});
    part_->step = frame.step;
    part_->number = frame.number;
    // What is under way ends first.
    if (part_->under_way)
      part_->abandoned = true;
    else
      begin(frame.step);
  }
  silence_->disarm();
  asks_ = frame.request;
  if (part_->under_way)
    late_->arm(limits::kSnapshotAnswer_ns);
  else
    answer_ended();
}

// Of every step but the first.
std::optional<Error> PeerSnapshot::why_not(const wire::SnapshotFrame& frame, const std::string& name) const {
  if (frame.step == SnapshotStep::kDrop) {
    if (!part_ || (part_->name == name && (part_->under_way || !steps_.under_way()))) return std::nullopt;
    return Error{core_.node + " is busy with another snapshot", "", EBUSY};
  }
  if (!part_ || part_->name != name || part_->abandoned) return given_up();
  const SnapshotStep after = frame.step == SnapshotStep::kKeep ? SnapshotStep::kTake : SnapshotStep::kFlush;
  if (part_->under_way || part_->error || part_->step != after)
    return Error{core_.node + " is not ready for this step of a snapshot", "try again", EPROTO, Retry::kLater};
  return std::nullopt;
}

Error PeerSnapshot::given_up() const {
  return {core_.node + " has given this snapshot up meanwhile, or is busy with another one",
          "see its log, and try again", EBUSY, Retry::kLater};
}

void PeerSnapshot::begin(SnapshotStep step) {
  part_->under_way = true;
  part_->error.reset();
  steps_.begin(step, part_->name, [this, step](const Status& status) { ended(step, status); });
}

void PeerSnapshot::ended(SnapshotStep step, const Status& status) {
  part_->under_way = false;
  const bool takes =
      step == SnapshotStep::kTake || (step == SnapshotStep::kFlush && core_.config.copies.snapshot.reflink);
  if (takes && status) part_->taken = true;
  if (step == SnapshotStep::kDrop) part_->taken = false;
  part_->error = status ? std::nullopt : std::optional(status.error());
  if (!status)
    core_.log.log(Severity::kWarning, "snapshot " + part_->name + ", ordered at " + core_.peer + ": " +
                                          in_words(status.error()));
  if (part_->abandoned && step != SnapshotStep::kDrop) {
    if (part_->taken) {
      begin(SnapshotStep::kDrop);
      return;
    }
    part_->error.reset();
  }
  if (asks_) {
    answer_ended();
  } else if (!core_.session.up()) {
    part_.reset();
  } else {
    silence_->arm(patience_ns());
  }
}

// It is asked again at once.
void PeerSnapshot::answer_late() {
  if (asks_) core_.answer(*std::exchange(asks_, std::nullopt), Error{"it is still under way", "", EINPROGRESS});
  silence_->arm(patience_ns());
}

// Nothing is asked here while whoever ordered it flushes on, and waits then for what clients had begun to write; nor while it
// keeps its own copy, and may have this one dropped when it could not.
uint64_t PeerSnapshot::patience_ns() const {
  const uint64_t timeout_ns = core_.config.copies.timeout_ns;
  if (part_->step == SnapshotStep::kKeep) return timeout_ns + kKeptApart_ns;
  if (part_->step != SnapshotStep::kFlush) return timeout_ns;
  return std::max(timeout_ns, limits::kSnapshotFlushMax_ns + limits::kSnapshotHoldMax_ns);
}

void PeerSnapshot::answer_ended() {
  late_->disarm();
  const bool kept = part_->step == SnapshotStep::kKeep && !part_->error;
  core_.answer(*std::exchange(asks_, std::nullopt), part_->error, kept ? steps_.place(part_->name) : "");
  if (kept && !std::exchange(part_->kept, true)) {
    core_.log.log(Severity::kInfo, "snapshot " + part_->name + ", ordered at " + core_.peer + ": " +
                                       steps_.place(part_->name));
  }
  if (part_->step == SnapshotStep::kDrop)
    forget();
  else
    silence_->arm(patience_ns());
}

void PeerSnapshot::forget() {
  late_->disarm();
  silence_->disarm();
  part_.reset();
}

void PeerSnapshot::abandon(const std::string& why) {
  asks_.reset();
  late_->disarm();
  silence_->disarm();
  if (!part_) return;
  // What was kept, and told, is whole; whoever ordered it knows.
  if (!part_->under_way && (part_->kept || !part_->taken)) {
    part_.reset();
    return;
  }
  core_.log.log(Severity::kWarning, "gives up its part of snapshot " + part_->name + ": " + why);
  if (std::exchange(part_->abandoned, true)) return;
  if (!part_->under_way) begin(SnapshotStep::kDrop);
}

void PeerSnapshot::session_lost() { abandon("the session with " + core_.peer + " was lost"); }

void PeerSnapshot::at_silence() {
  abandon("nothing more was heard of it from " + core_.peer + " for " +
          format_duration(patience_ns()));
}

}  // namespace twinblock
