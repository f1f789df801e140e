// The kernel's memory of a file, and how to be rid of it: after a write-back has failed, it shows
// what the disk does not hold, and counts it as written. Any thread; these block.
#pragma once

#include <cstdint>
#include <functional>

namespace twinblock {

// Makes the kernel drop all pages of the file or block device that are not waiting to be written.
// False where any are left: those, a page that a process has mapped, a file system that lives in
// memory; or where the kernel does not tell.
[[nodiscard]] bool drop_cached_pages(int fd, uint64_t size_bytes, bool is_device);

// Whether it can be shown that no page of it is in memory. `ask_quickly = false` takes the way that
// kernels before 6.5 need, for tests.
[[nodiscard]] bool nothing_is_cached(int fd, uint64_t size_bytes, bool ask_quickly = true);

// Calls `visit` with each run of pages of the range that are in memory, and now and then with none, of no length; until it
// says false. The range begins with a page. False: it did, or the kernel does not tell (errno).
bool for_cached_runs(int fd, uint64_t offset_bytes, uint64_t length_bytes,
                     const std::function<bool(uint64_t offset_bytes, uint64_t length_bytes)>& visit);

}  // namespace twinblock
