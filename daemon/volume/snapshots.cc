#include "volume/snapshots.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/checks.h"
#include "base/limits.h"
#include "base/snapshot_name.h"
#include "base/units.h"

namespace twinblock {
namespace {

using wire::SnapshotStep;

// While the one node flushed, clients wrote on, and the copy has to write what came then: it is flushed again
// until that took a short time, as it will in the pause; but not for ever where clients write faster.
constexpr int kFlushesMax = 4;
constexpr uint64_t kShortFlush_ns = 20 * kMillisecond_ns;

// In milliseconds.
std::string pause_words(uint64_t ns) { return std::to_string((ns + kMillisecond_ns - 1) / kMillisecond_ns); }

// Of what the peer refuses.
Retry retry_of(int error) {
  return error == EBUSY || error == EAGAIN || error == ETIMEDOUT ? Retry::kLater : Retry::kWhenMended;
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Snapshots::Snapshots(Core& core, WritePath& writes, const Verifier& verifier, DiskHealth& disks,
                     const Roles& roles, Copies* copies)
    : core_(core),
      writes_(writes),
      verifier_(verifier),
      roles_(roles),
      steps_(core, disks, roles, copies),
      part_(core, steps_),
      deadline_(core.clock.make_timer([this] { late(); })) {}

// --- whether it may be

std::optional<Error> Snapshots::why_not_order(const std::string& name) const {
  if (!is_snapshot_name(name))
    return Error{"'" + wire::printable(wire::text_bytes(name)) + "' can't be the name of a snapshot",
                 std::string("a name is ") + kSnapshotNameRule, EINVAL, Retry::kWhenMended};
  if (name == core_.config.volume)
    return Error{"'" + name + "' is the volume's name, and no snapshot's", "write it like: twinblock snapshot " + name +
                     " before-upgrade", EINVAL, Retry::kWhenMended};
  if (run_ && !run_->failed)
    return Error{"snapshot " + run_->name + " is just being taken", "try again when it has been", EBUSY,
                 Retry::kLater};
  // (What the peer has kept may still be dropped by it.)
  if (run_ || part_.may_be_dropped())
    return Error{run_ ? "the last snapshot is still being given up" : "a snapshot is just being taken, ordered at " +
                                                                          core_.peer,
                 "try again soon", EBUSY, Retry::kLater};
  // Before what is in the way on this node: an order that is not given here waits for nothing here.
  if (roles_.role() != Role::kPrimary && roles_.peer() == PeerRole::kPrimary)
    return Error{core_.peer + " is primary",
                 "run `twinblock snapshot " + core_.config.volume + " " + name + "` there", EBUSY,
                 Retry::kWhenMended};
  if (auto error = steps_.why_not()) return error;
  if ((verifier_.active() || verifier_.ending()) && verifier_.report().repair)
    return Error{"a verification that repairs is under way", "wait for its end, or stop it", EBUSY, Retry::kLater};
  return std::nullopt;
}

// --- who asks for it

void Snapshots::order(const std::string& name, Reply reply) {
  if (std::optional<Error> error = why_not_order(name)) {
    reply(*std::move(error));
    return;
  }
  run_.emplace(Run{.name = name, .reply = std::move(reply)});
  asked_name_ = name;
  core_.stance().snapshot_begins();
  deadline_->arm(limits::kSnapshotFlushMax_ns);
  begin(SnapshotStep::kFlush);
}

void Snapshots::heard(const wire::SnapshotFrame& frame, std::span<const std::byte> name) {
  std::optional<Error> refused;
  if (run_)
    refused = Error{"a snapshot is just being taken, ordered at " + core_.node, "try again", EBUSY, Retry::kLater};
  else if (roles_.role() != Role::kSecondary)
    refused = Error{core_.node + " is not secondary", "give the order there", EBUSY, Retry::kLater};
  part_.heard(frame, text_of(name), refused);
}

void Snapshots::session_lost() {
  part_.session_lost();
  if (!run_) return;
  // It has not answered, or has said that it keeps it.
  const bool may_be_kept = run_->step == SnapshotStep::kKeep && (run_->there || !run_->failed);
  run_->there = false;
  run_->asked_there = false;
  fail(Error{"the session with " + core_.peer + " was lost meanwhile",
             may_be_kept ? core_.peer + " may have kept its copy: where it is there, remove it, or choose another name"
                         : "try again when the two are together",
             EAGAIN, Retry::kLater});
  next();
}

void Snapshots::disk_left() {
  if (run_ && !run_->failed) fail_for_a_disk();
}

void Snapshots::fail_for_a_disk() {
  fail(Error{"a disk failed meanwhile", "see twinblock status " + core_.config.volume, EIO, Retry::kWhenMended});
  next();
}

// --- its steps

void Snapshots::begin(SnapshotStep step) {
  run_->step = step;
  run_->step_since_ns = core_.clock.now_ns();
  run_->here = run_->there = true;
  // A drop may concern one of the two only.
  if (step == SnapshotStep::kDrop) {
    run_->here = run_->taken_here;
    run_->there = run_->asked_there && session().up();
  }
  run_->asked_there = run_->there;
  ++number_;
  if (run_->there) ask();
  if (run_ && run_->here)
    steps_.begin(step, run_->name, [this](const Status& status) { ended_here(status); });
}

void Snapshots::ask() {
  session().request_ordered(wire::SnapshotFrame{.request = 0, .step = run_->step, .number = number_},
                            wire::text_bytes(asked_name_), *this);
}

void Snapshots::answered(const PeerAnswer& answer) {
  TB_CHECK(run_ && run_->there, "the peer answers what it was asked in this session");
  // A step that has failed need not be waited for: the next one is to drop it.
  const bool waits = !run_->failed || run_->step == SnapshotStep::kDrop;
  if (answer.error == EINPROGRESS && waits) {
    ask();
    return;
  }
  run_->there = false;
  if (answer.error != 0 && answer.error != EINPROGRESS)
    fail(Error{core_.peer + ": " + wire::printable(answer.payload), "", answer.error, retry_of(answer.error)});
  else if (answer.error == 0 && run_->step == SnapshotStep::kKeep)
    run_->taken.there = wire::printable(answer.payload);
  next();
}

void Snapshots::ended_here(const Status& status) {
  run_->here = false;
  const bool takes = run_->step == SnapshotStep::kTake ||
                     (run_->step == SnapshotStep::kFlush && core_.config.copies.snapshot.reflink);
  if (takes && status) run_->taken_here = true;
  if (run_->step == SnapshotStep::kDrop) run_->taken_here = false;
  if (!status) {
    Error error = status.error();
    error.what = core_.node + ": " + error.what;
    fail(std::move(error));
  }
  next();
}

// When a step has ended on both nodes.
void Snapshots::next() {
  if (!run_ || run_->here || run_->there || run_->draining) return;
  if (run_->failed) {
    clean_up();
    return;
  }
  switch (run_->step) {
    case SnapshotStep::kFlush:
      flushed();
      return;
    case SnapshotStep::kTake:
      run_->taken.at_ns = core_.clock.wall_ns();
      begin(SnapshotStep::kKeep);
      let_go_on();
      return;
    case SnapshotStep::kKeep:
      kept();
      return;
    case SnapshotStep::kDrop:
      return;
  }
}

void Snapshots::flushed() {
  const uint64_t took_ns = core_.clock.now_ns() - run_->step_since_ns;
  if (++run_->flushes < kFlushesMax && took_ns > kShortFlush_ns)
    begin(SnapshotStep::kFlush);
  else
    hold();
}

uint64_t Snapshots::hold_limit_ns() const {
  return std::min(core_.config.copies.timeout_ns, limits::kSnapshotHoldMax_ns);
}

void Snapshots::hold() {
  run_->held_since_ns = core_.clock.now_ns();
  run_->draining = true;
  deadline_->arm(hold_limit_ns());
  if (writes_.hold(*this)) drained();
}

// All that anybody was told to be written is on both disks now, and nothing else is.
void Snapshots::drained() {
  if (!run_ || !std::exchange(run_->draining, false)) return;
  // What ended last may have ended badly.
  if (!session().up() || !core_.phase().both_whole()) {
    fail_for_a_disk();
    return;
  }
  begin(SnapshotStep::kTake);
}

// The one place where a hold ends.
void Snapshots::let_go_on() {
  deadline_->disarm();
  core_.stance().snapshot_ended();
  if (!run_ || !run_->held_since_ns) return;
  run_->draining = false;
  run_->taken.pause_ns += core_.clock.now_ns() - *std::exchange(run_->held_since_ns, std::nullopt);
  // What goes on now may end badly, and this run with it.
  writes_.let_go_on();
}

// --- its end

void Snapshots::late() {
  const bool held = run_->held_since_ns.has_value();
  const std::string who = run_->draining             ? "what clients had begun to write"
                          : run_->here && run_->there ? core_.node + " and " + core_.peer
                          : run_->here                ? core_.node
                                                      : core_.peer;
  const uint64_t limit_ns = held ? hold_limit_ns() : limits::kSnapshotFlushMax_ns;
  fail(Error{who + " did not get ready " + (held ? "with the copy" : "with the flush before it") + " within " +
                 format_duration(limit_ns) + ": writes go on without a snapshot",
             held ? "give it more time (timeout in [copies]), or see the logs of both nodes"
                  : "see whether its disk is slow, and try again",
             ETIMEDOUT, Retry::kLater});
  next();
}

void Snapshots::hold_denied() {
  fail(Error{"this node is stopping", "", ESHUTDOWN, Retry::kLater});
  next();
}

// The first failure is the order's; what follows from it, or comes after it, is in the log.
void Snapshots::fail(Error error) {
  core_.log.log(Severity::kWarning, "snapshot " + run_->name + ": " + in_words(error));
  if (std::exchange(run_->failed, true)) return;
  const uint64_t pause_ns =
      run_->taken.pause_ns + (run_->held_since_ns ? core_.clock.now_ns() - *run_->held_since_ns : 0);
  core_.events().tell("snapshot-failed", {{"name", run_->name},
                                        {"node", core_.node},
                                        {"pause_ms", pause_words(pause_ns)},
                                        {"reason", in_words(error)}});
  error.what = "there is no snapshot " + run_->name + ": " + error.what;
  std::exchange(run_->reply, nullptr)(std::move(error));
  let_go_on();
}

void Snapshots::clean_up() {
  const bool dropped = run_->step == SnapshotStep::kDrop;
  if (!dropped && (run_->taken_here || (run_->asked_there && session().up())))
    begin(SnapshotStep::kDrop);
  else
    run_.reset();
}

void Snapshots::kept() {
  Taken taken = std::move(run_->taken);
  const Reply reply = std::move(run_->reply);
  taken.name = run_->name;
  taken.here = steps_.place(taken.name);
  run_.reset();
  const std::string pause = pause_words(taken.pause_ns);
  taken.said = "snapshot " + taken.name + " was taken on both nodes at " + format_timestamp(taken.at_ns) +
               "; writes waited " + pause + " ms. " + core_.node + ": " + taken.here + ", " + core_.peer + ": " +
               taken.there;
  core_.log.log(Severity::kInfo, taken.said);
  core_.events().tell("snapshot", {{"name", taken.name}, {"node", core_.node}, {"pause_ms", pause}});
  reply(std::move(taken));
}

}  // namespace twinblock
