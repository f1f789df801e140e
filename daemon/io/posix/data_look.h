// Whether a backing holds anybody's data. For start-up, before the loop runs: it blocks.
#pragma once

#include <cstdint>
#include <string>

#include "base/data_search.h"
#include "base/limits.h"
#include "base/result.h"

namespace twinblock {

// Of a regular file each extent of data counts; of a block device (and where a file system can't tell extents) what is
// not zero, wherever it lies (base/data_search.h), until the patience is at an end. Links are followed. Nothing is held
// where there is no file. What can't be read was not seen; an error only where nothing can be read at all. The zeroes
// that were read leave memory, or stay there, where that is still to be compared with the disk (memory_look.h).
Result<DataFound> look_for_data(const std::string& path, uint64_t patience_ns = limits::kSearch_ns,
                                bool forget_zeroes = true);

}  // namespace twinblock
