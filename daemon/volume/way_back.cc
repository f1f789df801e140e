#include "volume/way_back.h"

#include <cerrno>
#include <utility>

#include "base/checks.h"
#include "base/units.h"
#include "words/peer_words.h"

namespace twinblock {
namespace {

// Copies answer within the file's time limit and some 2 s. Who never does keeps nobody waiting.
constexpr uint64_t kBeyondTimeout_ns = 5 * kSecond_ns;
// For how long a source is asked to wait at least, also by who knows already that there is no copy.
constexpr uint64_t kSourceGoesOn_ns = 2 * kSecond_ns;

}  // namespace

WayBack::WayBack(Core& core, Parts parts)
    : core_(core),
      parts_(std::move(parts)),
      guard_(core.clock.make_timer([this] { given_up(); })),
      kept_(static_cast<bool>(core.record().way_back)) {}

// --- steps, one at a time

uint64_t WayBack::patience_ns() const { return core_.config.copies.timeout_ns + kBeyondTimeout_ns; }

void WayBack::run(CopyStep step, Then then) {
  TB_CHECK(!step_ && parts_.copies != nullptr, "one step at a time");
  step_ = step;
  then_ = std::move(then);
  // What is being brought back may be written as long as it takes: nothing else may happen meanwhile.
  if (step != CopyStep::kRollback) guard_->arm(patience_ns());
  parts_.copies->begin(step, "", [this, number = ++step_number_](const Status& status) {
    if (number == step_number_) ended(status);
  });
}

void WayBack::ended(const Status& status) {
  guard_->disarm();
  step_.reset();
  std::exchange(then_, nullptr)(status);
  if (to_remove_ && !step_ && !rolling_back()) remove();
}

void WayBack::given_up() {
  ++step_number_;
  ended(Error{"a copy of the backing of " + core_.node + " did not end within " +
                  format_duration(core_.config.copies.timeout_ns),
              "see whether its disk answers (dmesg)", ETIMEDOUT});
}

// --- before this node becomes half-copied

// What is half-copied already, was lost, or may not be on the disk, is nothing to go back to. (What the record is not about may be
// the good one: the operator, to whom a way back leaves the choice, may know.)
bool WayBack::worth_keeping() const {
  const metadata::NodeRecord& record = core_.record();
  return parts_.copies != nullptr && parts_.copies->can(CopyStep::kBeforeResync) && !core_.state().blank() &&
         !core_.state().backing().lost() && !record.inconsistent && !record.flush_failed && !parts_.disks.any_failed();
}

bool WayBack::may_become_half_copied() {
  if (!worth_keeping()) return true;
  const uint64_t session = core_.phase().session();
  const uint64_t now = core_.clock.now_ns();
  if (!copy_ || copy_->session != session) copy_ = Copy{session, now};
  if (copy_->state == CopyState::kFailed && core_.config.on_no_way_back == OnNoWayBack::kWait) {
    // The source may have to go on without this node, by a witness' consent, and to record that, which it can in a
    // session only.
    if (now - copy_->since_ns < kSourceGoesOn_ns) return false;
    core_.session.drop("no copy of what " + core_.node + " holds could be taken before the resync: " + failure_ +
                           ". It is tried again; or let it go on without one: on_failure = \"go on\" in [copies]",
                       limits::kPeerDiskRetry_ns);
    return false;
  }
  if (copy_->state != CopyState::kWanted) return true;
  if (!step_)
    run(CopyStep::kBeforeResync, [this, session](const Status& status) { taken(session, status); });
  else if (now - copy_->since_ns > 2 * patience_ns())
    not_taken(Error{"an earlier copy does not end", "see whether its disk answers (dmesg)", EBUSY});
  return false;
}

void WayBack::taken(uint64_t session, const Status& status) {
  unnamed_ = unnamed_ || status.ok();
  // Asked for by a session that is gone: what is under way at another one's request is not known to be of now.
  if (!copy_ || copy_->session != session || !core_.phase().still(session)) {
    lapse();
    return;
  }
  if (!status) {
    // A copy for something else is under way: asked again, for as long as one would take.
    const bool busy = status.error().code == EBUSY;
    if (!busy || core_.clock.now_ns() - copy_->since_ns > patience_ns()) not_taken(status.error());
    return;
  }
  copy_->state = CopyState::kTaken;
  copy_->taken_s = core_.clock.wall_ns() / kSecond_ns;
  failure_.clear();
  const std::string place = parts_.copies->place(CopyStep::kBeforeResync, "");
  core_.log.log(Severity::kInfo, "a copy of what this node holds was taken before the resync: " + place);
  core_.events().tell("way-back-taken", {{"node", core_.node}, {"place", place}});
}

void WayBack::not_taken(const Error& error) {
  copy_->state = CopyState::kFailed;
  failure_ = in_words(error);
  const bool waits = core_.config.on_no_way_back == OnNoWayBack::kWait;
  core_.log.log(Severity::kWarning, "no way back before the resync: " + failure_ +
                                        (waits ? ". The resync waits for one (on_failure in [copies])"
                                               : ". The resync goes on without one"));
  core_.events().tell("way-back-failed", {{"node", core_.node}, {"reason", failure_}});
}

std::optional<metadata::WayBack> WayBack::to_record(uint64_t to_get_bytes) {
  if (!copy_ || copy_->state != CopyState::kTaken || !core_.phase().still(copy_->session)) return std::nullopt;
  if (core_.record().inconsistent) return std::nullopt;
  kept_ = true;
  unnamed_ = false;
  metadata::WayBack way;
  way.taken_s = copy_->taken_s;
  way.to_get_bytes = to_get_bytes;
  copy_.reset();
  return way;
}

// --- not needed any more

// Or was: where it is half-copied anew, or about to be, the copy of that is in the place of the one that is not needed.
void WayBack::whole() {
  if (core_.record().inconsistent) return;
  const bool next = copy_ && copy_->state != CopyState::kFailed && core_.phase().still(copy_->session);
  if (next) {
    unnamed_ = std::exchange(kept_, false) || unnamed_;
    return;
  }
  failure_.clear();
  if (kept_ || unnamed_) not_needed();
}

void WayBack::session_lost() { lapse(); }

// The next session takes its own, and there may be none. (A record may still be on its way to the disk which says that
// nothing is kept any more: whole() follows then.)
void WayBack::lapse() {
  if (unnamed_ && !kept_) not_needed();
}

void WayBack::not_needed() {
  kept_ = unnamed_ = false;
  to_remove_ = true;
  if (!step_ && !rolling_back()) remove();
}

void WayBack::remove() {
  to_remove_ = false;
  if (parts_.copies == nullptr || !parts_.copies->can(CopyStep::kAfterResync)) return;
  run(CopyStep::kAfterResync, [this](const Status& status) {
    if (status) return;
    const std::string why = in_words(status.error());
    core_.log.log(Severity::kWarning, "the copy that was taken before the resync is not needed any more, and could "
                                      "not be removed: " + why);
    core_.events().tell("way-back-failed", {{"node", core_.node}, {"reason", why}});
  });
}

// --- the operator's order

// What passes by itself.
std::optional<Error> WayBack::why_not_now() const {
  const std::string& volume = core_.config.volume;
  if (rolling_back())
    return Error{"a rollback is under way", "wait for it: twinblock status " + volume, EBUSY, Retry::kLater};
  if (const char* what = core_.stance().changing())
    return Error{std::string("the volume is just ") + what, "try again when that has ended", EBUSY, Retry::kLater};
  if (step_)
    return Error{"a copy of the backing is just being taken or removed", "try again", EBUSY, Retry::kLater};
  if (parts_.replica.draining())
    return Error{"the local disk has not finished what " + core_.peer + " had sent to it", "try again", EBUSY,
                 Retry::kLater};
  return std::nullopt;
}

std::optional<Error> WayBack::why_not() const {
  const std::string& volume = core_.config.volume;
  const metadata::NodeRecord& record = core_.record();
  if (core_.state().blank())
    return Error{"this node is not initialised", "see twinblock status " + volume, EINVAL, Retry::kWhenMended};
  if (auto error = why_not_now()) return error;
  if (parts_.roles.role() != Role::kSecondary || !record.inconsistent)
    return Error{"this replica is not half-copied: there is nothing to roll back",
                 "see twinblock status " + volume, EINVAL, Retry::kNotNow};
  if (!record.way_back)
    return Error{"this replica is half-copied, and what it was before was not kept",
                 "start twinblockd on " + core_.peer +
                     ", which finishes the copy; to have a way back the next time, see before_resync in [copies]",
                 ENOENT, Retry::kWhenMended};
  if (core_.session.up())
    return Error{core_.peer + " is connected, and finishes the copy: there is nothing to roll back from",
                 "wait for it: twinblock wait " + volume + " --for promotable --progress", EBUSY, Retry::kNotNow};
  if (parts_.copies == nullptr || !parts_.copies->can(CopyStep::kRollback))
    return Error{"the file " + core_.config.path + " does not say any more how the copy is brought back",
                 "put before_resync (and rollback) back into its [copies], and restart twinblockd here", EINVAL,
                 Retry::kWhenMended};
  if (core_.intents().creating() || parts_.disks.any_failed() || record.flush_failed)
    return Error{"a disk of this node has failed", "see twinblock status " + volume, EIO, Retry::kWhenMended};
  return std::nullopt;
}

void WayBack::order(Reply reply) {
  if (auto error = why_not()) {
    reply(*std::move(error));
    return;
  }
  rollback_ = std::move(reply);
  core_.stance().change_begins(Stance::Change::kRollingBack);
  core_.log.log(Severity::kWarning, "rolling back by the operator's order to what this node was before the resync, from " +
                                        parts_.copies->place(CopyStep::kRollback, ""));
  // Another state than the one that a handshake under way has told of: it begins anew, and waits.
  core_.state().begin_rollback();
  core_.differences().all_may_differ();
  core_.state().persist([this](int error) {
    if (error != 0)
      rollback_failed(parts_.disks.why_metadata_failed(error));
    else
      bring_back();
  });
  parts_.note_state();
}

void WayBack::bring_back() {
  run(CopyStep::kRollback, [this](const Status& status) { brought_back(status); });
}

void WayBack::brought_back(const Status& status) {
  // What was known of what lies where is of before, however far it came.
  core_.worker_view().forget_places();
  if (!status) {
    rollback_failed(status.error());
    return;
  }
  const metadata::WayBack was = core_.record().way_back;
  core_.state().roll_back();
  core_.differences().set_valid(true);
  core_.state().persist([this, was](int error) {
    if (error == 0) {
      rolled_back(was);
      return;
    }
    // This process knows the copy as one that is back: only the next one reads that it is half-copied still.
    Error failed = parts_.disks.why_metadata_failed(error);
    failed.action = "mend the disk of this node's metadata, and restart twinblockd here";
    rollback_failed(failed);
  });
}

void WayBack::rolled_back(const metadata::WayBack& was) {
  const std::string& volume = core_.config.volume;
  const std::string lacks = "it lacks what " + core_.peer + " has acknowledged since, and the " +
                            format_size(was.to_get_bytes) + " that it was to get then";
  const std::string is = volume + " is on " + core_.node + " again what it was at " + format_time(was.taken_s) +
                         ", before the resync; " + lacks;
  core_.log.log(Severity::kWarning, is);
  core_.events().tell("rolled-back", {{"node", core_.node}, {"reason", is}});
  failure_.clear();
  if (std::exchange(kept_, false)) to_remove_ = true;
  // The peer's history, of which an etcd tells, is not this node's any more.
  const bool without_witness = core_.stance().alone_right().asks_register(core_.record());
  end_rollback(is + ". To go on with it: " + promote_by_word(volume, without_witness) + "; when " + core_.peer +
               " is back, the two have diverged: twinblock resolve " + volume + " says what each would lose");
  if (to_remove_ && !step_) remove();
}

// The record says that it is half-copied, and what it was: the order can be given again.
void WayBack::rollback_failed(const Error& error) {
  const std::string why = in_words(error);
  core_.log.log(Severity::kError, "the rollback failed: " + why);
  core_.events().tell("rollback-failed", {{"node", core_.node}, {"reason", why}});
  Error told = error;
  told.what = "the rollback failed: " + error.what;
  told.action += std::string(told.action.empty() ? "" : "; then ") + "give the order again, or start twinblockd on " +
                 core_.peer + ", which finishes the copy";
  end_rollback(std::move(told));
}

void WayBack::end_rollback(Result<std::string> result) {
  const Reply reply = *std::exchange(rollback_, std::nullopt);
  core_.stance().change_ended();
  parts_.note_state();
  reply(std::move(result));
  core_.session.poke();
}

}  // namespace twinblock
