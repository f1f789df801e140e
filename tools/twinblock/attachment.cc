#include "twinblock/attachment.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "twinblock/exit_status.h"
#include "twinblock/json_fields.h"

namespace twinblock {
namespace {

using nlohmann::json;

Error failed(int code, const std::string& path) {
  return refused(system_error(code, path).what,
                 code == EACCES ? "attach and detach as the user that runs the node" : "");
}

Status write_note(const std::string& path, int flags, const std::string& text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0640);
  if (fd < 0) return failed(errno, path);
  const ssize_t written = ::write(fd, text.data(), text.size());
  const int code = written < 0 ? errno : ENOSPC;  // a part of it fits
  close(fd);
  if (written == static_cast<ssize_t>(text.size())) return ok_status();
  unlink(path.c_str());  // what can't be understood would be in the way of the next attempt
  return failed(code, path);
}

// A change of the note puts another file in its place.
bool is_that_of_now(int fd, const std::string& path) {
  struct stat held {};
  struct stat now {};
  return fstat(fd, &held) != 0 || stat(path.c_str(), &now) != 0 || held.st_ino == now.st_ino;
}

}  // namespace

json to_json(const Attachment& attachment) {
  json out{{"volume", attachment.volume},     {"node", attachment.node},
           {"method", attachment.method},     {"device", attachment.device},
           {"node_pid", attachment.node_pid}, {"complete", attachment.complete}};
  if (attachment.method == kMethodNbd) {
    out["nbd_pid"] = attachment.nbd_pid;
    out["link"] = attachment.link;
    out["volume_uuid"] = attachment.volume_uuid;
    out["term"] = attachment.term;
    out["server_pid"] = attachment.server.pid;
    out["server_start_ticks"] = attachment.server.start_ticks;
    out["client_pid"] = attachment.client_pid;
    out["hung_up_by_pid"] = attachment.hung_up_by.pid;
    out["hung_up_by_start_ticks"] = attachment.hung_up_by.start_ticks;
    out["ended"] = attachment.ended;
    out["maker_pid"] = attachment.maker.pid;
    out["maker_start_ticks"] = attachment.maker.start_ticks;
  }
  if (attachment.mount_dir.empty()) return out;
  out["mount_dir"] = attachment.mount_dir;
  out["file"] = attachment.file;
  out["log"] = attachment.log;
  out["nbdfuse_pid"] = attachment.nbdfuse.pid;
  out["nbdfuse_start_ticks"] = attachment.nbdfuse.start_ticks;
  return out;
}

std::string attachment_path(const std::string& stem) { return stem + ".attach.json"; }

Result<std::optional<Attachment>> read_attachment(const std::string& stem) {
  const std::string path = attachment_path(stem);
  if (access(path.c_str(), F_OK) != 0 && errno == ENOENT) return std::optional<Attachment>{};
  std::ifstream file(path);
  if (!file) return failed(errno, path);
  const json note = json::parse(file, nullptr, false);
  if (!note.is_object())
    return refused(path + " can't be understood",
                   "see what is attached with losetup, lsblk and mount, undo it by hand, "
                   "then remove the file");
  Attachment attachment;
  attachment.volume = text_at(note, "volume");
  attachment.node = text_at(note, "node");
  attachment.method = text_at(note, "method");
  attachment.device = text_at(note, "device");
  attachment.mount_dir = text_at(note, "mount_dir");
  attachment.file = text_at(note, "file");
  attachment.log = text_at(note, "log");
  attachment.nbdfuse.pid = static_cast<pid_t>(count_at(note, "nbdfuse_pid"));
  attachment.nbdfuse.start_ticks = count_at(note, "nbdfuse_start_ticks");
  attachment.node_pid = static_cast<pid_t>(count_at(note, "node_pid"));
  attachment.nbd_pid = static_cast<pid_t>(count_at(note, "nbd_pid"));
  attachment.link = text_at(note, "link");
  attachment.volume_uuid = text_at(note, "volume_uuid");
  attachment.term = count_at(note, "term");
  attachment.server.pid = static_cast<pid_t>(count_at(note, "server_pid"));
  attachment.server.start_ticks = count_at(note, "server_start_ticks");
  attachment.client_pid = static_cast<pid_t>(count_at(note, "client_pid"));
  attachment.hung_up_by.pid = static_cast<pid_t>(count_at(note, "hung_up_by_pid"));
  attachment.hung_up_by.start_ticks = count_at(note, "hung_up_by_start_ticks");
  attachment.ended = text_at(note, "ended");
  attachment.maker.pid = static_cast<pid_t>(count_at(note, "maker_pid"));
  attachment.maker.start_ticks = count_at(note, "maker_start_ticks");
  attachment.complete = flag_at(note, "complete");
  return std::optional<Attachment>(attachment);
}

Status create_attachment(const std::string& stem, const Attachment& attachment) {
  return write_note(attachment_path(stem), O_EXCL, to_json(attachment).dump(1) + "\n");
}

StagedNote::StagedNote(const std::string& stem)
    : path_(attachment_path(stem)), staged_(path_ + "." + std::to_string(getpid())) {}

StagedNote::~StagedNote() { unlink(staged_.c_str()); }

Status StagedNote::write(const Attachment& attachment) {
  return write_note(staged_, O_TRUNC, to_json(attachment).dump(1) + "\n");
}

Status StagedNote::place() {
  if (rename(staged_.c_str(), path_.c_str()) != 0) return failed(errno, path_);
  return ok_status();
}

Status update_attachment(const std::string& stem, const Attachment& attachment) {
  StagedNote note(stem);
  Status written = note.write(attachment);
  return written ? note.place() : written;
}

HeldNote::HeldNote(const std::string& stem) {
  const std::string path = attachment_path(stem);
  do {
    if (fd_ >= 0) close(fd_);
    fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd_ < 0) return;  // whoever reads it says why
    while (flock(fd_, LOCK_EX) != 0 && errno == EINTR) continue;
  } while (!is_that_of_now(fd_, path));
}

HeldNote::~HeldNote() {
  if (fd_ >= 0) close(fd_);
}

Status remove_attachment(const std::string& stem) {
  const std::string path = attachment_path(stem);
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return failed(errno, path);
  return ok_status();
}

}  // namespace twinblock
