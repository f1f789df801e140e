// Who may use a node's sockets beside root and the node's own user: the members of the group `twinblock`, where the
// node runs with that group (its unit says so). Another group that a process happens to have is nobody's leave.
#pragma once

#include <string>

#include "base/result.h"

namespace twinblock {

// Whether who is at the other end of `fd` is a member, and members may. A group of processes counts as they had it when
// they connected.
bool from_users_group(int fd);
// Gives the socket's file the mode 0660 with that group, else 0600, whatever it had and the umask is. One that is not
// there is nobody's.
Status open_to_users_group(const std::string& path);

}  // namespace twinblock
