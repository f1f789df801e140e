// Small helpers for start-up, before the loop runs: they block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace twinblock {

enum class FileKind { kMissing, kRegular, kBlockDevice, kDirectory, kOther };

// What is at `path`, links followed.
Result<FileKind> file_kind(const std::string& path);
// The first bytes of a file or device, at most bytes_max.
Result<std::vector<std::byte>> read_front(const std::string& path, size_t bytes_max);
// Makes `path` and its missing parents (mode 0755, umask applied).
Status make_directories(const std::string& path);
// Whether somebody's data may be in the file: a regular file with any data extent, a block device
// whose first 1 MiB is not all zeroes. False where there is no file.
Result<bool> holds_data(const std::string& path);
// Random bytes from the kernel, for UUIDs and generations.
void random_bytes(std::span<std::byte> into);
// As `hostname` prints it.
std::string host_name();

}  // namespace twinblock
