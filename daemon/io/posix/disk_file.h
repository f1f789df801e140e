// A backing file or block device: opened and checked once, then its blocking calls, each complete
// (no short transfers, no EINTR). All are for any thread; errors are errno values, 0 is success.
//
// Direct (O_DIRECT), nothing passes through the page cache: what is written is with the disk when
// the call ends, what is read comes from there. The kernel takes whole blocks in aligned memory only:
// other memory is copied, and of a block that is written in part the rest is read first. Those who
// write different parts of one block at the same time do it one after the other; whoever writes all
// of it overlaps with them, which the owner of this file rules out as for any two writes.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "io/posix/aligned_buffers.h"

namespace twinblock {

// The system calls that write, as a table so that a test can replace one by a slow or failing one.
struct DiskCalls {
  ssize_t (*pwrite)(int fd, const void* data, size_t length, off_t offset);
  int (*fdatasync)(int fd);
  int (*fallocate)(int fd, int mode, off_t offset, off_t length);
  // As pwrite, and what it has written is on stable storage afterwards (RWF_DSYNC).
  ssize_t (*pwrite_durably)(int fd, const void* data, size_t length, off_t offset);
  static const DiskCalls& system();
};

// What a flush goes through: an open file description, which the kernel tells once of each failed
// write-back. One flush at a time on each.
class FlushHandle {
 public:
  FlushHandle(int fd, const DiskCalls& calls, std::shared_ptr<const std::atomic<uint64_t>> least_bytes)
      : fd_(fd), calls_(calls), least_bytes_(std::move(least_bytes)) {}
  ~FlushHandle();
  FlushHandle(const FlushHandle&) = delete;
  FlushHandle& operator=(const FlushHandle&) = delete;
  // fdatasync of the whole file. Any thread; blocks; 0 or an errno value. EIO where a file that was not shorter than
  // `least_bytes` is by now: what lay there is gone, and a write beyond would make zeroes of it.
  [[nodiscard]] int flush() const;
  // Has the kernel tell this description of what has failed to be written by now, and writes nothing. It does not say so
  // again: it must be on record.
  void hear_old_error() const;

 private:
  const int fd_;
  const DiskCalls& calls_;
  const std::shared_ptr<const std::atomic<uint64_t>> least_bytes_;
};

// Whether flushes may be under way side by side on that file system (statfs' f_type), each with a description of its
// own, as on block devices: those of which it is known that they report errors of the page cache to each of these, and
// that an fdatasync leaves nothing to another one that is under way (f2fs does: the first to end clears the mark that
// the device is still to be flushed).
[[nodiscard]] bool flushes_side_by_side(uint64_t file_system);

// What of a device's statistics (Linux: Documentation/block/stat.rst) tells that it has done anything: what was completed,
// and not what is or was waiting, which grows while a device hangs.
[[nodiscard]] uint64_t completed_work(std::istream& stat);

class DiskFile {
 public:
  enum class Cache { kBuffered, kDirect, kDirectWherePossible };
  struct Options {
    std::string path;
    uint64_t size_bytes = 0;  // 0: as large as the file is
    bool create = false;      // a missing or empty file becomes a sparse one of size_bytes
    bool exclusive = true;    // refuse a file that another process has open like this
    Cache cache = Cache::kBuffered;
    int locked_fd = -1;       // of another one, of the same file: that one's lock is this one's, too
    const DiskCalls* calls = &DiskCalls::system();
  };
  // Zero ranges up to this long are written rather than allocated: a write of it costs less than
  // the file system's transaction.
  static constexpr uint64_t kZeroWriteBytesMax = 64 * kKiB;

  // One write call at the most. ext4 (seen in Linux 6.18) gives a long write a page-cache folio as
  // long as the write, and each later small write there walks all of the folio's blocks: 4 KiB into
  // a folio of 1 MiB cost 25 us, into one of 64 KiB 2 us.
  static constexpr uint64_t kWriteCallBytesMax = 64 * kKiB;
  // Who is direct waits for so long for a file that is in use; …
  static constexpr uint64_t kInUsePatience_ns = 10 * kSecond_ns;
  // … and everybody for a device, which udev locks for a moment each time that a process which could write to it closes it.
  static constexpr uint64_t kDevicePatience_ns = 2 * kSecond_ns;
  // One fallocate call at the most.
  static constexpr uint64_t kZeroCallBytesMax = 16 * kMiB;

  static Result<std::unique_ptr<DiskFile>> open(const Options& options);
  ~DiskFile();
  DiskFile(const DiskFile&) = delete;
  DiskFile& operator=(const DiskFile&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] uint64_t size_bytes() const { return size_bytes_; }
  // Disk::grow().
  Status grow(uint64_t size_bytes, bool extend);
  void require_size(uint64_t size_bytes);
  [[nodiscard]] bool fast_zero() const { return fast_zero_; }
  [[nodiscard]] bool direct() const { return block_bytes_ > 0; }
  // Whether the kernel takes such a transfer as it is, in aligned memory.
  [[nodiscard]] bool whole_blocks(uint64_t offset, uint64_t length) const {
    return ((offset | length) & (block_bytes_ - 1)) == 0;
  }
  [[nodiscard]] bool aligned(const std::byte* memory) const;
  [[nodiscard]] AlignedBuffers& buffers() const { return buffers_; }
  // Whether io_uring's buffered writes of this file are any better than a thread's.
  [[nodiscard]] bool async_writes() const { return async_writes_; }
  // kZeroWriteBytesMax zeroes.
  [[nodiscard]] static const std::byte* zeroes();
  // Whether this kZero is best done as a write of zeroes().
  [[nodiscard]] static bool zero_is_write(uint64_t offset, uint64_t length, bool may_unmap);

  int read(uint64_t offset, std::byte* into, uint64_t length) const;
  int write(uint64_t offset, const std::byte* from, uint64_t length) const;
  // The same, and it is on stable storage afterwards: this write alone. Direct, whole blocks.
  int write_durably(uint64_t offset, const std::byte* from, uint64_t length) const;
  int zero(uint64_t offset, uint64_t length, bool may_unmap);
  // The open file description that the writes go through.
  [[nodiscard]] Result<std::unique_ptr<FlushHandle>> flush_handle() const;
  // A new one, for a flush beside others. Null where these may not be, or none can be opened.
  [[nodiscard]] std::unique_ptr<FlushHandle> another_flush_handle() const;
  // Changes when the device under this file has done anything, for whomever; 0: the kernel does not
  // tell (a file system of several devices, or of none).
  [[nodiscard]] uint64_t device_work() const;
  // Of the file, as in io/posix/files.h.
  [[nodiscard]] uint64_t memory_number() const;
  // Makes the kernel forget what it holds of this file in memory, so that what is read from now on
  // comes from the disk. False: it can't be shown that nothing is left. Blocks, for as long as the
  // disk takes to write what it was given.
  [[nodiscard]] bool forget_cache() const;
  // Whether `offset` is in a hole, and how far that or the data extends, at most `length`.
  int extent(uint64_t offset, uint64_t length, bool& hole, uint64_t& extent_length) const;

 private:
  DiskFile(int fd, const DiskCalls& calls) : fd_(fd), calls_(calls) {}
  Status check_and_lock(const Options& options);
  Status set_direct(const Options& options);
  Status set_size(const Options& options);
  void probe_fast_zero();
  void probe_file_system();
  int read_calls(uint64_t offset, std::byte* into, uint64_t length) const;
  int write_calls(uint64_t offset, const std::byte* from, uint64_t length,
                  bool durably = false) const;
  int read_blocks(uint64_t offset, std::byte* into, uint64_t length) const;
  int write_blocks(uint64_t offset, const std::byte* from, uint64_t length) const;
  int fill_edges(uint64_t offset, uint64_t length, uint64_t begin, uint64_t end,
                 std::byte* buffer) const;
  int write_zeroes(uint64_t offset, uint64_t length) const;
  int zero_aligned(uint64_t offset, uint64_t length, bool may_unmap);
  int allocate(std::atomic<bool>& unsupported, int mode, uint64_t offset, uint64_t length);

  const int fd_;
  const DiskCalls& calls_;
  std::string path_;
  uint64_t size_bytes_ = 0;
  // As flushes on other threads know it.
  const std::shared_ptr<std::atomic<uint64_t>> least_bytes_ = std::make_shared<std::atomic<uint64_t>>(0);
  bool is_device_ = false;
  uint64_t block_bytes_ = 0;     // direct: offsets and lengths are multiples of it; else 0
  mutable AlignedBuffers buffers_;
  mutable std::mutex part_of_a_block_;  // held by who writes one
  std::string device_stat_;  // the kernel's counters of the device
  bool fast_zero_ = false;
  bool async_writes_ = true;
  bool knows_holes_ = false;  // else all of it is data
  bool parallel_flushes_ = false;  // flushes_side_by_side()
  // Learned from the first refusal of each fallocate mode.
  std::atomic<bool> no_punch_{false};
  std::atomic<bool> no_zero_range_{false};
  std::atomic<bool> no_allocate_{false};
};

}  // namespace twinblock
