#include "volume/disk_health.h"

#include <utility>

#include "base/limits.h"
#include "volume/disk_errors.h"

namespace twinblock {

// A flush failed, and this process can't see what of: the kernel shows what it dropped as if it had
// been written, until it forgets that, too. If it has, all is as after a power cut.
void DiskHealth::load(bool cache_is_gone) {
  if (!core_.record().flush_failed) return;
  const std::string failed = "a flush of " + backing() + " failed, or had not ended, before this process began";
  if (cache_is_gone) {
    core_.state().set_flush_failed(false);
    log(Severity::kWarning, failed + "; what the disk did not take is lost, as after a power cut");
    return;
  }
  note_ = failed + ", and what is read there may not be on the disk";
  log(Severity::kWarning, note_);
}

void DiskHealth::local_disk_failed(const DiskRequest& request) {
  const int error = request.error;
  note(error);
  note_failed_flush(request);
  const bool for_good = request.flush_failed || !may_pass(error);
  if (core_.phase().peer_whole() || (for_good && core_.stance().stands_aside())) leave_local_disk(error);
}

void DiskHealth::write_failed_beside_peer(const DiskRequest& request) {
  if (may_pass(request.error) && !request.flush_failed)
    note(request.error);
  else
    local_disk_failed(request);
}

void DiskHealth::replica_disk_failed(const DiskRequest& request) {
  note(request.error);
  note_failed_flush(request);
  const bool lasting = request.flush_failed || !may_pass(request.error);
  if (lasting && local_ok()) data_error_ = request.error;
}

void DiskHealth::own_flush_failed(const DiskRequest& request) {
  if (!owner_.is_secondary()) return local_disk_failed(request);
  replica_disk_failed(request);
  given_up_unasked_ = !local_ok();
}

// The peer answers what can't be read here, and what is compared counts as different: nobody has
// noticed anything so far.
void DiskHealth::read_failed(int error, uint64_t offset_bytes, uint64_t length_bytes) {
  const bool told = read_errors_.places() > 0;
  if (read_errors_.add(offset_bytes, length_bytes)) {
    read_error_ =
        system_error(error, "read " + backing() + " at offset " + std::to_string(offset_bytes)).what;
    if (!told) tell_disk_error(core_, core_.node, "data", read_error_);
    // Of a disk that nobody can stand in for, or give up, there may be any number of places.
    if (local_ok() && !read_errors_.too_many()) log(Severity::kError, read_error_);
    owner_.note_state();
  }
  // Perhaps there have been for long, and nobody could stand in for it until now.
  if (!read_errors_.too_many() || !local_ok()) return;
  // Half a disk is better than none, and two halves may be a whole.
  if ((!core_.phase().peer_whole() && !core_.phase().receives_from_whole()) || peer_.has_bad_places()) return;
  note(error);
  if (owner_.is_secondary()) {
    data_error_ = error;
    given_up_unasked_ = true;
  } else {
    leave_local_disk(error);
  }
}

// A peer that asks for nothing does not hear of it, and would leave its own disk to this one. (Not at once: who found it is
// still to answer for it.)
void DiskHealth::tell_peer_of_giving_up() {
  if (std::exchange(given_up_unasked_, false))
    core_.session.drop(core_.node + "'s disk is no longer used: " + in_words(), limits::kReconnectDelayMin_ns);
}

void DiskHealth::leave_local_disk(int error) {
  if (!local_ok()) return;
  log(Severity::kError, (core_.phase().peer_whole() ? "going on with " : "waiting for ") + core_.peer +
                            "'s replica, the only good copy from now on; `twinblock status` says what "
                            "to do");
  give_up(error);
}

// The peer stands in from now on; or when it is back, as if the disk had failed before it was left (Stance::stands_aside()).
// That is not on record before: the peer may have gone on without this node, or be gone. A later process finds here what was
// promised, but for what that disk was given, and does not flush any more.
void DiskHealth::give_up(int error) {
  data_error_ = error;
  left_aside_ = !core_.phase().peer_whole();
  if (!left_aside_) {
    owner_.peer_stands_in();
    return;
  }
  given_up_unasked_ = core_.session.up();  // one that is just beginning, to copy from here
  if (metadata_error() == 0) {
    core_.state().set_flush_failed(true);
    core_.state().persist([](int) {});
  }
  owner_.note_state();
}

// On record for the processes to come: the page cache shows them what the disk may not have.
void DiskHealth::note_failed_flush(const DiskRequest& request) {
  if (!request.flush_failed || flush_failed_) return;
  flush_failed_ = true;
  core_.state().set_flush_failed(true);
  if (!core_.state().blank()) core_.state().persist([](int) {});
}

// Without a record of what may differ nothing may be written here; as with a failed disk, the peer
// stands in if it can, and this node's replica is outdated from then on.
void DiskHealth::metadata_failed(int error) {
  const bool with_peer = core_.stance().peer_holds_all();
  const bool stands_in = with_peer && local_ok();
  if (!metadata_failure_told_) {
    const std::string what = why_metadata_failed(error).what;
    tell_disk_error(core_, core_.node, "metadata", what);
    log(Severity::kError,
        what + "; " +
            (with_peer ? (core_.stance().stands_aside() ? "waiting for " : "going on with ") + core_.peer +
                             "'s replica. Detach, stop this node, go on at " + core_.peer +
                             " (`promote --peer-is-dead`), and replace that disk"
                       : "writes to regions that were idle fail here. Mend that disk, and keep this "
                         "node's data: it holds what " +
                             core_.peer + " lacks"));
  }
  metadata_failure_told_ = true;
  if (stands_in) give_up(error);
}

void DiskHealth::record_failed(int error) {
  if (record_failure_told_) return;
  record_failure_told_ = true;
  log(Severity::kError, system_error(error, "write to the metadata " + metadata()).what +
                            "; replace that disk: this node can't go on without its peer");
  tell_disk_error(core_, core_.node, "metadata", system_error(error, metadata()).what);
}

int DiskHealth::metadata_error() const {
  const int error = core_.state().store().error();
  return error != 0 ? error : core_.intents().error();
}

Error DiskHealth::why_metadata_failed(int error) const {
  Error failed = system_error(error, "write to the metadata " + metadata());
  failed.retry = Retry::kWhenMended;
  if (core_.phase().diskless())
    failed.action = "go on at " + core_.peer + ": detach, stop twinblockd here, and run `twinblock promote " +
                    core_.config.volume + " --peer-is-dead` there";
  else if (failed.action.empty())
    failed.action = "look at that disk (dmesg), and start twinblockd anew when it is well";
  return failed;
}

void DiskHealth::note(int error) {
  const std::string what = system_error(error, "the local disk failed: " + backing()).what;
  if (note_ != what) {
    log(Severity::kError, what);
    tell_disk_error(core_, core_.node, "data", what);
  }
  note_ = what;
  note_error_ = error;
  note_at_ns_ = core_.clock.now_ns();
  note_writes_ = core_.counters().now().writes;
}

// A primary's disk that was full and takes writes again is no longer worth a word; a secondary's
// note goes when it has been brought up to date.
void DiskHealth::forget_what_passed() {
  if (note_.empty() || !may_pass(note_error_)) return;
  if (!local_ok() || flush_failed_ || core_.counters().now().writes <= note_writes_ + 1 ||
      core_.clock.now_ns() - note_at_ns_ < limits::kDiskNoteKept_ns)
    return;
  note_.clear();
  log(Severity::kInfo, "the local disk takes writes again");
  core_.events().tell("disk-mended", {{"node", core_.node}, {"disk", "data"}});
}

// Perhaps nobody waited for what could not be written: whoever serves clients hands them over while somebody can stand in, and
// not when the next one waits and the peer is away.
void DiskHealth::look_at_metadata() {
  const int error = metadata_error();
  if (error == 0) return;
  const bool somebody_stands_in = core_.phase().now() == Phase::kDuplex || core_.stance().stands_aside();
  if (somebody_stands_in && !owner_.is_secondary())
    metadata_failed(error);
  else
    record_failed(error);
}

void DiskHealth::look() {
  tell_peer_of_giving_up();
  look_at_metadata();
  const bool stalled = stalls_.look();
  if (stalls_.stalled_ns() > 0)
    owner_.disk_stalls();
  else if (stalled)
    owner_.disk_gets_on();
}

// What had been lost was copied; but not what a flush of this very process may have lost.
void DiskHealth::copied_anew() {
  core_.state().set_flush_failed(flush_failed_);
  note_.clear();
  peer_.is_copied_anew();
}

// What a failed flush may have lost here is not mended by having sent it to the peer.
void DiskHealth::note_in_sync() {
  if (!core_.record().flush_failed) note_.clear();
}

std::string DiskHealth::in_words() const {
  if (const int error = metadata_error(); error != 0)
    return system_error(error, "the metadata disk failed: " + metadata()).what;
  if (note_.empty() && !local_ok())
    return system_error(data_error_, "the local disk failed: " + backing()).what;
  return note_;
}

bool DiskHealth::lacks_room() const {
  if (const int error = metadata_error(); error != 0) return may_pass(error);
  return may_pass(note_.empty() ? data_error_ : note_error_);
}

}  // namespace twinblock
