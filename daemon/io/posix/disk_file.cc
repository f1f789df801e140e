#include "io/posix/disk_file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <mutex>
#include <thread>

#include "io/posix/direct_io.h"
#include "io/posix/file_holes.h"
#include "io/posix/files.h"
#include "io/posix/page_cache.h"

namespace twinblock {
namespace {

// Every file system block is a multiple of a device's logical block that we have to respect.
constexpr uint64_t kAlign = 4 * kKiB;
// More than the kernel moves in one call.
constexpr uint64_t kTransferBytesMax = 1 * kGiB;

constexpr uint64_t align_down(uint64_t bytes, uint64_t unit = kAlign) {
  return bytes & ~(unit - 1);
}
constexpr uint64_t align_up(uint64_t bytes, uint64_t unit = kAlign) {
  return align_down(bytes + unit - 1, unit);
}

// As many of a range's blocks as one buffer holds, and how much of the range is in them.
struct FirstBlocks {
  uint64_t begin, end;
  uint64_t length;
};
FirstBlocks first_blocks(uint64_t offset, uint64_t length, uint64_t block_bytes) {
  const uint64_t begin = align_down(offset, block_bytes);
  const uint64_t n = std::min(length, begin + AlignedBuffers::kBytesMax - offset);
  return {begin, align_up(offset + n, block_bytes), n};
}

// fallocate's ways of saying that this file can't do that.
bool unsupported_error(int code) {
  return code == EOPNOTSUPP || code == ENOSYS || code == EINVAL || code == ENODEV || code == EPERM;
}

// Whether a block device can write zeroes without sending them; a partition asks its disk.
bool device_writes_zeroes(dev_t device) {
  for (const char* queue : {"/queue/", "/../queue/"}) {
    std::ifstream file(sysfs_of(device) + queue + "write_zeroes_max_bytes");
    uint64_t bytes = 0;
    if (file >> bytes) return bytes > 0;
  }
  return false;
}

// The kernel may still carry out what a process that has ended had handed over for direct I/O; that
// must not land after what the next one writes, and the file is in use until then. So `attempt` is
// made again while it says `error_in_use`.
template <typename Attempt>
int attempt_for(uint64_t patience_ns, int error_in_use, Attempt attempt) {
  constexpr uint64_t kLook_ns = 20 * kMillisecond_ns;
  int result = attempt();
  for (uint64_t waited_ns = 0; result < 0 && errno == error_in_use && waited_ns < patience_ns;
       waited_ns += kLook_ns) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(kLook_ns));
    result = attempt();
  }
  return result;
}

bool wants_direct(const DiskFile::Options& options) {
  return options.cache != DiskFile::Cache::kBuffered;
}

uint64_t in_use_patience_ns(const DiskFile::Options& options, bool is_device) {
  if (wants_direct(options)) return DiskFile::kInUsePatience_ns;
  return is_device ? DiskFile::kDevicePatience_ns : 0;
}

int open_file(const DiskFile::Options& options, bool& fresh) {
  if (options.locked_fd >= 0) return ::fcntl(options.locked_fd, F_DUPFD_CLOEXEC, 0);
  struct stat before {};
  // O_EXCL without O_CREAT claims a block device: refused while it is mounted or part of another.
  const bool is_device = ::stat(options.path.c_str(), &before) == 0 && S_ISBLK(before.st_mode);
  const int exclusive = is_device && options.exclusive ? O_EXCL : 0;
  const int flags = O_RDWR | O_CLOEXEC | O_NOCTTY | exclusive;
  const int fd = attempt_for(in_use_patience_ns(options, is_device), EBUSY,
                             [&] { return ::open(options.path.c_str(), flags); });
  if (fd >= 0 || errno != ENOENT || !options.create) return fd;
  const int made = ::open(options.path.c_str(), O_RDWR | O_CLOEXEC | O_CREAT | O_EXCL, 0600);
  fresh = made >= 0;
  return made;
}

Status lock_file(int fd, const DiskFile::Options& options) {
  const auto attempt = [fd] { return ::flock(fd, LOCK_EX | LOCK_NB); };
  struct stat status {};
  const bool is_device = ::fstat(fd, &status) == 0 && S_ISBLK(status.st_mode);
  const uint64_t patience_ns = in_use_patience_ns(options, is_device);
  if (!options.exclusive || attempt_for(patience_ns, EWOULDBLOCK, attempt) == 0) return ok_status();
  if (errno != EWOULDBLOCK) return system_error(errno, "lock " + options.path);
  return Error{options.path + " is in use by another process",
               "stop the process that has it open (see fuser " + options.path + ")", EBUSY};
}

Result<uint64_t> size_of(int fd, const std::string& path, bool is_device) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return system_error(errno, "stat " + path);
  auto actual = static_cast<uint64_t>(status.st_size);
  if (is_device && ::ioctl(fd, BLKGETSIZE64, &actual) != 0)
    return system_error(errno, "size of " + path);
  return actual;
}

Error too_small(const std::string& path, bool is_device, uint64_t actual, uint64_t wanted) {
  return Error{path + " has " + format_size(actual) + " (" + std::to_string(actual) +
                   " bytes), but " + format_size(wanted) + " (" + std::to_string(wanted) +
                   " bytes) are needed",
               is_device ? "enlarge the device (for example lvextend), or name a larger one"
                         : "grow it: truncate -s " + std::to_string(wanted) + " " + path,
               ENOSPC};
}

}  // namespace

const DiskCalls& DiskCalls::system() {
  static constexpr DiskCalls calls{[](int fd, const void* data, size_t length, off_t offset) {
                                     return ::pwrite(fd, data, length, offset);
                                   },
                                   [](int fd) { return ::fdatasync(fd); },
                                   [](int fd, int mode, off_t offset, off_t length) {
                                     return ::fallocate(fd, mode, offset, length);
                                   },
                                   [](int fd, const void* data, size_t length, off_t offset) {
                                     const iovec part{const_cast<void*>(data), length};
                                     return ::pwritev2(fd, &part, 1, offset, RWF_DSYNC);
                                   }};
  return calls;
}

Result<std::unique_ptr<DiskFile>> DiskFile::open(const Options& options) {
  bool fresh = false;
  const int fd = open_file(options, fresh);
  if (fd < 0 && errno == EBUSY)
    return Error{options.path +
                     " is in use: mounted, part of another device, or open in another "
                     "process",
                 "release it, or name another device", EBUSY};
  if (fd < 0) return system_error(errno, "open " + options.path);

  std::unique_ptr<DiskFile> file(new DiskFile(fd, *options.calls));
  Status status = file->check_and_lock(options);
  if (status.ok()) status = file->set_size(options);
  if (status.ok()) status = file->set_direct(options);
  if (!status.ok()) {
    if (fresh) ::unlink(options.path.c_str());
    return status.error();
  }
  file->probe_fast_zero();
  file->probe_file_system();
  return file;
}

DiskFile::~DiskFile() { ::close(fd_); }

Status DiskFile::check_and_lock(const Options& options) {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) return system_error(errno, "stat " + options.path);
  is_device_ = S_ISBLK(status.st_mode);
  const dev_t device = is_device_ ? status.st_rdev : status.st_dev;
  device_stat_ = sysfs_of(device) + "/stat";
  if (!is_device_ && !S_ISREG(status.st_mode))
    return Error{options.path + " is neither a regular file nor a block device",
                 "name one of these in the configuration", EINVAL};
  if (Status locked = lock_file(fd_, options); !locked) return locked;
  // The name must survive a power cut as well as what will be written under it.
  return options.create && !is_device_ ? sync_name(options.path) : ok_status();
}

Status DiskFile::set_direct(const Options& options) {
  if (!wants_direct(options)) return ok_status();
  const Result<uint64_t> block_bytes = make_direct(fd_, options.path, is_device_);
  if (block_bytes) block_bytes_ = block_bytes.value();
  return block_bytes || options.cache == Cache::kDirectWherePossible ? ok_status()
                                                                     : Status(block_bytes.error());
}

bool DiskFile::aligned(const std::byte* memory) const {
  return (reinterpret_cast<uintptr_t>(memory) & (kAlign - 1)) == 0;
}

Status DiskFile::set_size(const Options& options) {
  path_ = options.path;
  Result<uint64_t> actual = size_of(fd_, path_, is_device_);
  if (!actual) return actual.error();
  if (options.create && !is_device_ && actual.value() == 0 && options.size_bytes > 0) {
    if (::ftruncate(fd_, static_cast<off_t>(options.size_bytes)) != 0)
      return system_error(errno,
                          "create " + options.path + " with " + format_size(options.size_bytes));
    if (::fsync(fd_) != 0) return system_error(errno, "fsync " + options.path);
    actual = options.size_bytes;
  }
  const uint64_t wanted = options.size_bytes > 0 ? options.size_bytes : actual.value();
  if (actual.value() < wanted) return too_small(path_, is_device_, actual.value(), wanted);
  least_bytes_->store(size_bytes_ = wanted);
  return ok_status();
}

Status DiskFile::grow(uint64_t size_bytes, bool extend) {
  Result<uint64_t> actual = size_of(fd_, path_, is_device_);
  if (!actual) return actual.error();
  if (actual.value() < size_bytes && extend && !is_device_) {
    if (::ftruncate(fd_, static_cast<off_t>(size_bytes)) != 0)
      return system_error(errno, "extend " + path_ + " to " + format_size(size_bytes));
    actual = size_bytes;
  }
  if (actual.value() < size_bytes) return too_small(path_, is_device_, actual.value(), size_bytes);
  size_bytes_ = std::max(size_bytes_, size_bytes);
  return ok_status();
}

void DiskFile::require_size(uint64_t size_bytes) {
  least_bytes_->store(std::max(least_bytes_->load(), size_bytes));
}

void DiskFile::probe_file_system() {
  struct statfs filesystem {};
  const bool known = !is_device_ && ::fstatfs(fd_, &filesystem) == 0;
  const auto type = static_cast<uint32_t>(filesystem.f_type);  // signed where words are short
  // It has no buffered write that does not wait, so that io_uring hands each one to a kernel
  // thread.
  async_writes_ = direct() || !known || type != EXT4_SUPER_MAGIC;
  knows_holes_ = known && holes_are_told(type);
  parallel_flushes_ = is_device_ || (known && flushes_side_by_side(type));
}

bool flushes_side_by_side(uint64_t file_system) {
  return file_system == EXT4_SUPER_MAGIC || file_system == XFS_SUPER_MAGIC || file_system == BTRFS_SUPER_MAGIC ||
         file_system == TMPFS_MAGIC;
}

void DiskFile::probe_fast_zero() {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) return;
  if (is_device_) {
    fast_zero_ = device_writes_zeroes(status.st_rdev);
    return;
  }
  // A hole beyond the end of the file changes nothing, but is refused where holes can't be made.
  const auto beyond = static_cast<off_t>(align_up(static_cast<uint64_t>(status.st_size)) + kAlign);
  fast_zero_ = calls_.fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, beyond,
                                static_cast<off_t>(kAlign)) == 0;
}

const std::byte* DiskFile::zeroes() {
  // Not const, so that it takes no space in the program's file; nothing writes it.
  alignas(kAlign) static std::array<std::byte, kZeroWriteBytesMax> zero{};
  return zero.data();
}

bool DiskFile::zero_is_write(uint64_t offset, uint64_t length, bool may_unmap) {
  // Whole blocks that may become a hole are worth the transaction: they give space back.
  const bool whole_blocks = align_down(offset + length) > align_up(offset);
  return length <= kZeroWriteBytesMax && !(may_unmap && whole_blocks);
}

int DiskFile::read(uint64_t offset, std::byte* into, uint64_t length) const {
  return direct() ? read_blocks(offset, into, length) : read_calls(offset, into, length);
}

int DiskFile::write(uint64_t offset, const std::byte* from, uint64_t length) const {
  if (!direct()) return write_calls(offset, from, length);
  if (whole_blocks(offset, length)) return write_blocks(offset, from, length);
  const std::lock_guard lock(part_of_a_block_);
  return write_blocks(offset, from, length);
}

int DiskFile::write_durably(uint64_t offset, const std::byte* from, uint64_t length) const {
  if (aligned(from)) return write_calls(offset, from, length, true);
  const AlignedBuffer buffer(buffers_, length);
  std::memcpy(buffer.get(), from, length);
  return write_calls(offset, buffer.get(), length, true);
}

int DiskFile::read_blocks(uint64_t offset, std::byte* into, uint64_t length) const {
  if (whole_blocks(offset, length) && aligned(into)) return read_calls(offset, into, length);
  while (length > 0) {
    const auto [begin, end, n] = first_blocks(offset, length, block_bytes_);
    const AlignedBuffer buffer(buffers_, end - begin);
    if (const int error = read_calls(begin, buffer.get(), end - begin); error != 0) return error;
    std::memcpy(into, buffer.get() + (offset - begin), n);
    into += n;
    offset += n;
    length -= n;
  }
  return 0;
}

int DiskFile::write_blocks(uint64_t offset, const std::byte* from, uint64_t length) const {
  if (whole_blocks(offset, length) && aligned(from)) return write_calls(offset, from, length);
  while (length > 0) {
    const auto [begin, end, n] = first_blocks(offset, length, block_bytes_);
    const AlignedBuffer buffer(buffers_, end - begin);
    int error = fill_edges(offset, n, begin, end, buffer.get());
    std::memcpy(buffer.get() + (offset - begin), from, n);
    if (error == 0) error = write_calls(begin, buffer.get(), end - begin);
    if (error != 0) return error;
    from += n;
    offset += n;
    length -= n;
  }
  return 0;
}

// Reads the blocks, of those from `begin` to `end`, that a write would leave a part of.
int DiskFile::fill_edges(uint64_t offset, uint64_t length, uint64_t begin, uint64_t end,
                         std::byte* buffer) const {
  const uint64_t last = end - block_bytes_;
  int error = 0;
  if (offset > begin) error = read_calls(begin, buffer, block_bytes_);
  const bool read = offset > begin && last == begin;
  if (error == 0 && offset + length < end && !read)
    error = read_calls(last, buffer + (last - begin), block_bytes_);
  return error;
}

int DiskFile::read_calls(uint64_t offset, std::byte* into, uint64_t length) const {
  while (length > 0) {
    const ssize_t n =
        ::pread(fd_, into, std::min(length, kTransferBytesMax), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return EIO;  // somebody has truncated the file
    into += n;
    offset += static_cast<uint64_t>(n);
    length -= static_cast<uint64_t>(n);
  }
  return 0;
}

int DiskFile::write_calls(uint64_t offset, const std::byte* from, uint64_t length,
                          bool durably) const {
  const uint64_t at_once = direct() ? AlignedBuffers::kBytesMax : kWriteCallBytesMax;
  const auto call = durably ? calls_.pwrite_durably : calls_.pwrite;
  while (length > 0) {
    const ssize_t n = call(fd_, from, std::min(length, at_once), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return EIO;
    from += n;
    offset += static_cast<uint64_t>(n);
    length -= static_cast<uint64_t>(n);
  }
  return 0;
}

int DiskFile::write_zeroes(uint64_t offset, uint64_t length) const {
  while (length > 0) {
    const uint64_t n = std::min(length, kZeroWriteBytesMax);
    if (const int error = write(offset, zeroes(), n); error != 0) return error;
    offset += n;
    length -= n;
  }
  return 0;
}

int DiskFile::zero(uint64_t offset, uint64_t length, bool may_unmap) {
  if (zero_is_write(offset, length, may_unmap)) return write_zeroes(offset, length);
  // What is a hole can stay one: no transaction, and no edges that would be written as data.
  bool hole = false;
  uint64_t hole_bytes = 0;
  if (may_unmap && extent(offset, length, hole, hole_bytes) == 0 && hole && hole_bytes >= length)
    return 0;
  // A file system zeroes the odd edges itself, in the page cache; a device refuses them.
  const bool whole = is_device_ || direct();
  const uint64_t begin = whole ? align_up(offset) : offset;
  const uint64_t end = whole ? align_down(offset + length) : offset + length;
  if (begin >= end) return write_zeroes(offset, length);
  int error = write_zeroes(offset, begin - offset);
  if (error == 0) error = write_zeroes(end, offset + length - end);
  return error != 0 ? error : zero_aligned(begin, end - begin, may_unmap);
}

// The cheapest way that this file has. On devices both modes promise zeroes: the kernel refuses a
// punch where a discarded range might read as anything else.
int DiskFile::zero_aligned(uint64_t offset, uint64_t length, bool may_unmap) {
  // In pieces, so that writes get in between: a hole of a gigabyte, discarded by the file system,
  // was seen to hold the inode for 25 s.
  while (length > kZeroCallBytesMax) {
    if (const int error = zero_aligned(offset, kZeroCallBytesMax, may_unmap); error != 0)
      return error;
    offset += kZeroCallBytesMax;
    length -= kZeroCallBytesMax;
  }
  constexpr int kPunch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  constexpr int kZeroRange = FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE;
  if (may_unmap) {
    const int error = allocate(no_punch_, kPunch, offset, length);
    if (!unsupported_error(error)) return error;
  }
  int error = allocate(no_zero_range_, kZeroRange, offset, length);
  if (!unsupported_error(error)) return error;
  if (!may_unmap && !is_device_) {
    // A hole that is filled at once: allocated as was asked, and without writing.
    error = allocate(no_punch_, kPunch, offset, length);
    if (error == 0) error = allocate(no_allocate_, 0, offset, length);
    if (!unsupported_error(error)) return error;
  }
  return write_zeroes(offset, length);
}

int DiskFile::allocate(std::atomic<bool>& unsupported, int mode, uint64_t offset, uint64_t length) {
  if (unsupported.load(std::memory_order_relaxed)) return EOPNOTSUPP;
  int result = 0;
  do result = calls_.fallocate(fd_, mode, static_cast<off_t>(offset), static_cast<off_t>(length));
  while (result != 0 && errno == EINTR);
  if (result == 0) return 0;
  const int error = errno;
  if (unsupported_error(error)) unsupported.store(true, std::memory_order_relaxed);
  return error;
}

Result<std::unique_ptr<FlushHandle>> DiskFile::flush_handle() const {
  const int fd = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return system_error(errno, "duplicate a file descriptor");
  return std::make_unique<FlushHandle>(fd, calls_, least_bytes_);
}

std::unique_ptr<FlushHandle> DiskFile::another_flush_handle() const {
  if (!parallel_flushes_) return nullptr;
  const int fd = ::open(("/proc/self/fd/" + std::to_string(fd_)).c_str(), O_RDWR | O_CLOEXEC);
  return fd < 0 ? nullptr : std::make_unique<FlushHandle>(fd, calls_, least_bytes_);
}

FlushHandle::~FlushHandle() { ::close(fd_); }

int FlushHandle::flush() const {
  int result = 0;
  // EINTR means that it has not been done; every other failure is final (the caller remembers it).
  do result = calls_.fdatasync(fd_);
  while (result != 0 && errno == EINTR);
  if (result != 0) return errno;
  return is_cut(fd_, least_bytes_->load()) ? EIO : 0;
}

// It waits for what is being written of the first block, and tells of all that failed anywhere.
void FlushHandle::hear_old_error() const {
  (void)::sync_file_range(fd_, 0, static_cast<off_t>(kAlign), SYNC_FILE_RANGE_WAIT_BEFORE);
}

uint64_t DiskFile::device_work() const {
  std::ifstream file(device_stat_);
  return completed_work(file);
}

uint64_t completed_work(std::istream& stat) {
  // Reads, writes, discards and flushes, and the sectors of those.
  constexpr std::array kCompleted{0, 2, 4, 6, 11, 13, 15};
  uint64_t work = 0;
  uint64_t value = 0;
  for (int field = 0; stat >> value; ++field)
    if (std::find(kCompleted.begin(), kCompleted.end(), field) != kCompleted.end()) work += value;
  return work;
}

uint64_t DiskFile::memory_number() const { return twinblock::memory_number(fd_); }

bool DiskFile::forget_cache() const {
  const auto handle = flush_handle();
  if (!handle.ok() || handle.value()->flush() != 0) return false;
  if (!direct()) return drop_cached_pages(fd_, size_bytes_, is_device_);
  // What is read comes from the disk, whatever stays in memory; but each later process would find that there once more.
  (void)::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
  return true;
}

int DiskFile::extent(uint64_t offset, uint64_t length, bool& hole, uint64_t& extent_length) const {
  hole = false;
  extent_length = length;
  return knows_holes_ && length > 0 ? find_extent(fd_, offset, length, hole, extent_length) : 0;
}

}  // namespace twinblock
