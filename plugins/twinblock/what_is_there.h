// What a node finds when it starts: its metadata, and whether its backing holds data. Before the loop runs: it blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/data_search.h"
#include "config/config.h"
#include "io/log.h"
#include "io/posix/disk_file.h"
#include "metadata/load.h"

namespace twinblock {

// What is found is acted upon: nobody else may write it since, nor may the kernel what a killed process had asked for.
// Null: there are none yet.
Result<std::unique_ptr<DiskFile>> lock_metadata(const NodeConfig& node);

Result<metadata::Loaded> load_metadata(const std::string& path, uint64_t volume_bytes);

// It may take a while, and is done only where the answer decides anything: may this node join, has it lost its data?
Result<DataFound> look_at_backing(const std::string& backing, const metadata::Loaded& loaded);

// Whether what memory holds of the backing is what the disk holds: where it is not, `loaded` says from now on that a flush
// failed, and so does the record. False: nothing may be dropped of it, as the disk hangs, or the record could not be written.
bool may_forget_memory(const std::string& backing, const DiskFile* metadata, Log& log, metadata::Loaded& loaded);

}  // namespace twinblock
