// What follows when a disk fails: this node's or the peer's, for data or metadata, in a read, a write or
// a flush.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/limits.h"
#include "volume/engine.h"

namespace twinblock {
namespace {

// A write that failed for want of room may be done again later. A flush that failed may not, whatever
// its error: the kernel counts what it could not write as written, and says so once.
bool may_pass(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

}  // namespace

// A flush failed, and this process can't see what of: the kernel shows what it dropped as if it had
// been written, until it forgets that, too. If it has, all is as after a power cut.
void Engine::load_failed_flush(bool cache_is_gone) {
  if (!core_.record.flush_failed) return;
  const std::string& backing = core_.config.node(core_.node).backing;
  const std::string failed = "a flush of " + backing + " failed before this process began";
  if (cache_is_gone) {
    core_.record.flush_failed = false;
    log(Severity::kWarning, failed + "; what the disk did not take is lost, as after a power cut");
    return;
  }
  disk_note_ = failed + ", and what is read there may not be on the disk";
  log(Severity::kWarning, disk_note_);
}

void Engine::local_disk_failed(const DiskRequest& request) {
  const int error = request.error;
  note_disk_error(error);
  note_failed_flush(request);
  leave_local_disk(error);
}

// The peer stands in from now on, if it can.
void Engine::leave_local_disk(int error) {
  if (!core_.peer_whole() || !core_.local_ok()) return;
  core_.data_error = error;
  update_local_reads();
  log(Severity::kError, "going on with " + core_.peer +
                            "'s replica; replace the disk, then demote this node and restart "
                            "twinblockd here");
  record_sole_copy();
}

// The peer answers what can't be read here, and what is compared counts as different: nobody has
// noticed anything so far.
void Engine::read_failed(int error, uint64_t offset_bytes) {
  const bool told = core_.read_errors.places() > 0;
  if (!core_.read_errors.add(offset_bytes)) return;
  read_error_ = system_error(error, "read " + core_.config.node(core_.node).backing +
                                        " at offset " + std::to_string(offset_bytes))
                    .what;
  if (!told) core_.tell_disk_error(core_.node, "data", read_error_);
  if (core_.local_ok()) log(Severity::kError, read_error_);
  note_state();
  if (!core_.read_errors.too_many() || !core_.local_ok()) return;
  if (role_ != Role::kSecondary && !core_.peer_whole()) return;  // half a disk is better than none
  note_disk_error(error);
  if (role_ == Role::kSecondary)
    core_.data_error = error;
  else
    leave_local_disk(error);
}

// Without a record of what may differ nothing may be written here; as with a failed disk, the peer
// stands in if it can, and this node's replica is outdated from then on.
void Engine::metadata_failed(int error) {
  const bool stands_in = core_.peer_whole() && core_.local_ok();
  if (!metadata_failure_told_) {
    core_.tell_disk_error(core_.node, "metadata", metadata_error(error).what);
    log(Severity::kError, metadata_error(error).what + "; " +
                              (stands_in ? "going on with " + core_.peer + "'s replica"
                                         : "writes to regions that were idle fail here") +
                              ". Detach, stop this node, go on at " + core_.peer +
                              " (`promote --peer-is-dead`), and replace that disk");
  }
  metadata_failure_told_ = true;
  if (!stands_in) return;
  core_.data_error = error;
  update_local_reads();
  record_sole_copy();
}

int Engine::metadata_error_code() const {
  return store_.error() != 0 ? store_.error() : intents_.error();
}

void Engine::note_disk_error(int error) {
  const std::string what =
      system_error(error, "the local disk failed: " + core_.config.node(core_.node).backing).what;
  if (disk_note_ != what) {
    log(Severity::kError, what);
    core_.tell_disk_error(core_.node, "data", what);
  }
  disk_note_ = what;
  disk_note_error_ = error;
  disk_note_at_ns_ = core_.clock.now_ns();
  disk_note_writes_ = core_.counters.writes;
}

// A primary's disk that was full and takes writes again is no longer worth a word; a secondary's
// note goes when it has been brought up to date.
void Engine::forget_disk_note() {
  if (disk_note_.empty() || role_ != Role::kPrimary || !may_pass(disk_note_error_)) return;
  if (!core_.local_ok() || core_.flush_failed || core_.counters.writes <= disk_note_writes_ + 1 ||
      core_.clock.now_ns() - disk_note_at_ns_ < limits::kDiskNoteKept_ns)
    return;
  disk_note_.clear();
  log(Severity::kInfo, "the local disk takes writes again");
  core_.events.tell("disk-mended", {{"node", core_.node}, {"disk", "data"}});
}

void Engine::peer_disk_failed(int error, const char* doing) {
  drop_failing_peer(error, core_.peer + "'s disk failed while " + doing,
                    core_.config.other(core_.node).backing);
}

void Engine::peer_metadata_failed(int error) {
  drop_failing_peer(error, core_.peer + " could not record its state",
                    core_.config.other(core_.node).metadata);
}

void Engine::drop_failing_peer(int error, const std::string& what, const std::string& file) {
  core_.peer_error = system_error(error, what + " (" + file + ")").what;
  const bool data = file == core_.config.other(core_.node).backing;
  core_.tell_disk_error(core_.peer, data ? "data" : "metadata", core_.peer_error);
  core_.peer_error_file = file;
  session_.drop(core_.peer_error, limits::kPeerDiskRetry_ns);
}

void Engine::replica_disk_failed(const DiskRequest& request) {
  note_disk_error(request.error);
  note_failed_flush(request);
  const bool lasting = request.flush_failed || !may_pass(request.error);
  if (lasting && core_.data_error == 0) core_.data_error = request.error;
}

// On record for the processes to come: the page cache shows them what the disk may not have.
void Engine::note_failed_flush(const DiskRequest& request) {
  if (!request.flush_failed || core_.flush_failed) return;
  core_.flush_failed = true;
  core_.record.flush_failed = true;
  if (!core_.blank) core_.persist([](int) {});
}

}  // namespace twinblock
