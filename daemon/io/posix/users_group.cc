#include "io/posix/users_group.h"

#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

namespace twinblock {
namespace {

constexpr const char* kGroup = "twinblock";
// With all its members' names a group may be long; one that is longer than this is nobody's leave either.
constexpr size_t kEntryBytesMax = 1 << 20;

bool look_for_users_group() {
  group entry{};
  group* found = nullptr;
  std::vector<char> text(1024);
  int error = 0;
  while ((error = ::getgrgid_r(::getegid(), &entry, text.data(), text.size(), &found)) == ERANGE &&
         text.size() < kEntryBytesMax)
    text.resize(2 * text.size());
  return error == 0 && found != nullptr && std::string(found->gr_name) == kGroup;
}

// Of this process, whose group stays what it is. Whoever knows groups may be far away, and the loop must not wait for
// that at each connection: it is asked when the socket is opened.
bool has_users_group() {
  static const bool has = look_for_users_group();
  return has;
}

// The groups of who connected, beside its first one.
std::vector<gid_t> groups_of_peer(int fd) {
  std::vector<gid_t> groups(64);
  for (int i = 0; i < 2; ++i) {
    auto bytes = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
    const int failed = ::getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &bytes);
    const int error = failed != 0 ? errno : 0;
    if (failed != 0 && error != ERANGE) break;
    groups.resize(bytes / sizeof(gid_t));  // for ERANGE, what it takes
    if (error == 0) return groups;
  }
  return {};
}

}  // namespace

bool from_users_group(int fd) {
  if (!has_users_group()) return false;
  const gid_t wanted = ::getegid();
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.gid == wanted)
    return true;
  const std::vector<gid_t> groups = groups_of_peer(fd);
  return std::find(groups.begin(), groups.end(), wanted) != groups.end();
}

Status open_to_users_group(const std::string& path) {
  if (::chmod(path.c_str(), has_users_group() ? 0660 : 0600) == 0 || errno == ENOENT) return ok_status();
  return system_error(errno, "the mode of " + path);
}

}  // namespace twinblock
