// Reading and writing past the kernel's page cache (O_DIRECT). Start-up code: it blocks.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace twinblock {

// Makes the open file, or block device, do so from now on. Returns what offsets and lengths have to
// be multiples of, at most AlignedBuffers::kAlign. An error, which says what to do, where that is not
// possible; the file is then as it was.
Result<uint64_t> make_direct(int fd, const std::string& path, bool is_device);

}  // namespace twinblock
