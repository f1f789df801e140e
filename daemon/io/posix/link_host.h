// What this host says of its end of a link: the interface that has the address, its counters, and the
// settings that bound a socket's buffers. Blocks for microseconds. Any thread.
#pragma once

#include <string>

#include "io/connection.h"
#include "io/posix/tcp_address.h"

namespace twinblock {

[[nodiscard]] LinkHost link_host_of(const TcpAddress& local, const std::string& congestion);

}  // namespace twinblock
