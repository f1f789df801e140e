#include "volume/snapshot_steps.h"

#include <cerrno>
#include <utility>

#include "base/checks.h"
#include "volume/wait_advice.h"

namespace twinblock {
namespace {

CopyStep copy_step(wire::SnapshotStep step) {
  switch (step) {
    case wire::SnapshotStep::kTake:
      return CopyStep::kTakeSnapshot;
    case wire::SnapshotStep::kKeep:
      return CopyStep::kKeepSnapshot;
    default:
      return CopyStep::kDropSnapshot;
  }
}

}  // namespace

std::optional<Error> SnapshotSteps::why_not() const {
  const std::string see = "see twinblock status " + core_.config.volume;
  if (copies_ == nullptr || !copies_->can(CopyStep::kTakeSnapshot))
    return Error{core_.node + " has no way to copy its backing", "name one in [copies]", EOPNOTSUPP,
                 Retry::kWhenMended};
  if (core_.state().blank()) return Error{core_.node + " is not initialised", see, 0, Retry::kWhenMended};
  if (under_way_)
    return Error{"the last snapshot is still being given up on " + core_.node, "try again soon", EBUSY,
                 Retry::kLater};
  if (const char* what = core_.stance().changing(); what != nullptr && !core_.stance().taking_snapshot())
    return Error{std::string("the volume is just ") + what,
                 "try again when that has ended: twinblock status " + core_.config.volume, EBUSY, Retry::kLater};
  if (roles_.role() != Role::kPrimary && roles_.role() != Role::kSecondary)
    return Error{core_.node + " is changing its role just now", "try again", EBUSY, Retry::kLater};
  if (core_.intents().creating() || disks_.any_failed())
    return Error{"a disk of " + core_.node + " has failed, or is being set up", see, EIO, Retry::kWhenMended};
  if (!core_.session.up() || !core_.phase().both_whole())
    return Error{"a snapshot is taken on both nodes, and " + core_.peer +
                     (core_.session.up() ? " is not up to date" : " is not connected"),
                 advise_wait_for_both(core_, roles_.role() == Role::kPrimary), EAGAIN, Retry::kLater};
  return std::nullopt;
}

void SnapshotSteps::begin(wire::SnapshotStep step, const std::string& name, Done done) {
  TB_CHECK(!under_way_, "one step of a snapshot at a time");
  under_way_ = true;
  Done ended = [this, done = std::move(done)](Status status) {
    under_way_ = false;
    done(std::move(status));
  };
  if (step == wire::SnapshotStep::kDrop) {
    copies_->begin(CopyStep::kDropSnapshot, name, [this, name, ended = std::move(ended)](const Status& dropped) {
      ended(dropped ? dropped : Status(may_be_left(dropped.error(), name)));
    });
    return;
  }
  if (step != wire::SnapshotStep::kFlush) {
    copies_->begin(copy_step(step), name, std::move(ended));
    return;
  }
  flush([this, name, ended = std::move(ended)](const Status& flushed) {
    // A reflink walks all pieces of the file, and does so in no time over those that an earlier one has: it
    // is taken once now, while nobody waits, and anew when writes are held. What can't be is seen here, too.
    if (flushed && core_.config.copies.snapshot.reflink)
      copies_->begin(CopyStep::kTakeSnapshot, name, ended);
    else
      ended(flushed);
  });
}

void SnapshotSteps::flush(Done done) {
  flush_.flush([this, done = std::move(done)](const DiskRequest& flushed) {
    if (flushed.error == 0) {
      done(ok_status());
      return;
    }
    disks_.own_flush_failed(flushed);
    done(system_error(flushed.error, "flush the backing of " + core_.node));
  });
}

// It is not dropped a second time.
Error SnapshotSteps::may_be_left(Error error, const std::string& name) const {
  error.what = "something of snapshot " + name + ", which failed, may be left: " + error.what;
  error.action = core_.config.copies.snapshot.reflink ? "remove " + place(name) + "* if it is there"
                                                      : "see what its command has left";
  return error;
}

std::string SnapshotSteps::place(const std::string& name) const {
  return copies_ == nullptr ? "" : copies_->place(CopyStep::kTakeSnapshot, name);
}

}  // namespace twinblock
