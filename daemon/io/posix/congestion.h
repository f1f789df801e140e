// The congestion control of the links' sockets: a thing of the kernel's, which alone knows the
// names. Any thread.
#pragma once

#include <string>

#include "base/result.h"

namespace twinblock {

// The one that links have, unless another one is asked for: what Linux chooses by itself. A host
// may have been set to BBR, which sends next to nothing for 200 ms every 10 s, to measure, and
// paces what a fast link could take at once.
constexpr const char* kCongestionDefault = "cubic";

// Whether this kernel lets us choose it: a name of tcp(7), "system" for what the host is set to,
// or empty: kCongestionDefault, if it can be had.
[[nodiscard]] Status check_congestion(const std::string& congestion);

// Of one socket, before connect() or listen(): some are not undone by a later choice. 0 or an errno
// value.
int set_congestion(int fd, const std::string& wanted);

}  // namespace twinblock
