// What the kernel says of a TCP socket (struct tcp_info of linux/tcp.h). Any thread.
#pragma once

#include <optional>

#include "io/connection.h"

namespace twinblock {

// Nothing where the kernel does not say it.
[[nodiscard]] std::optional<StreamState> stream_state_of(int fd);

}  // namespace twinblock
