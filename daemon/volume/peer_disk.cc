#include "volume/peer_disk.h"

#include "base/limits.h"
#include "volume/disk_errors.h"

namespace twinblock {

void PeerDisk::failed(int error, const char* doing) {
  drop(error, core_.peer + "'s disk failed while " + doing, core_.config.other(core_.node).backing);
}

void PeerDisk::metadata_failed(int error) {
  drop(error, core_.peer + " could not record its state", core_.config.other(core_.node).metadata);
}

bool PeerDisk::lacks_room(int error, const char* doing) {
  if (!core_.phase().diskless() || !may_pass(error)) {
    failed(error, doing);
    return false;
  }
  const std::string& file = core_.config.other(core_.node).backing;
  const std::string what = system_error(error, core_.peer + "'s disk refused a write (" + file + ")").what;
  if (error_ != what) {
    core_.log.log(Severity::kError, what + "; all that needs no room goes on there");
    note(error, what, file);
  }
  refused_ns_ = core_.clock.now_ns();
  return true;
}

void PeerDisk::has_room() {
  if (refused_ns_ == 0 || core_.clock.now_ns() - refused_ns_ < limits::kDiskNoteKept_ns) return;
  is_back();
  core_.log.log(Severity::kInfo, core_.peer + "'s disk takes writes again");
  core_.events().tell("disk-mended", {{"node", core_.peer}, {"disk", "data"}});
}

void PeerDisk::is_back() {
  error_.clear();
  is_full_ = false;
  refused_ns_ = 0;
}

void PeerDisk::drop(int error, const std::string& what, const std::string& file) {
  note(error, system_error(error, what + " (" + file + ")").what, file);
  core_.session.drop(error_, limits::kPeerDiskRetry_ns);
}

void PeerDisk::note(int error, const std::string& why, const std::string& file) {
  error_ = why;
  error_file_ = file;
  is_full_ = may_pass(error);
  refused_ns_ = 0;
  tell_disk_error(core_, core_.peer, file == core_.config.other(core_.node).backing ? "data" : "metadata", why);
}

}  // namespace twinblock
