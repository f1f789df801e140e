#include "io/posix/memory_look.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "io/posix/aligned_buffers.h"
#include "io/posix/descriptor.h"
#include "io/posix/direct_io.h"
#include "io/posix/monotonic.h"
#include "io/posix/page_cache.h"
#include "io/posix/thread.h"

namespace twinblock {
namespace {

constexpr uint64_t kPieceBytes = AlignedBuffers::kBytesMax;
// A disk that has answered so lately gets on.
constexpr uint64_t kLately_ns = 500'000'000;

// What the thread has of its own, so that it may be left alone with a disk that hangs.
class Look {
 public:
  Look(std::string path, std::vector<FileRange> ranges) : path_(std::move(path)), ranges_(std::move(ranges)) {}

  void run() {
    const MemoryLook result = compare();
    const std::lock_guard lock(mutex_);
    result_ = result;
    ended_.notify_all();
  }
  MemoryLook wait(const LookPatience& patience);

 private:
  MemoryLook compare();
  Status open();
  bool compare_run(uint64_t offset_bytes, uint64_t length_bytes);
  bool compare_piece(uint64_t offset_bytes, uint64_t length_bytes);
  bool differs(uint64_t offset_bytes, uint64_t length_bytes);
  bool end(MemoryFound found, uint64_t at_bytes, int error) {
    found_ = {found, at_bytes, error};
    return false;
  }

  const std::string path_;
  const std::vector<FileRange> ranges_;
  Descriptor buffered_, direct_;
  AlignedBuffers buffers_;
  const AlignedBuffer memory_{buffers_, kPieceBytes}, disk_{buffers_, kPieceBytes};
  MemoryLook found_;
  std::atomic<bool> stop_{false}, asks_disk_{false};
  std::atomic<uint64_t> steps_{0}, compared_bytes_{0};
  std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<MemoryLook> result_;
};

Status Look::open() {
  direct_ = Descriptor(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  struct stat status {};
  if (!direct_.open() || ::fstat(direct_.get(), &status) != 0) return system_error(errno, "open " + path_);
  const Result<uint64_t> made = make_direct(direct_.get(), path_, S_ISBLK(status.st_mode));
  return made ? ok_status() : Status(made.error());
}

MemoryLook Look::compare() {
  buffered_ = Descriptor(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!buffered_.open()) return {MemoryFound::kUntold, 0, errno};
  // A description of its own is told of each failure that nobody was told of, whatever it asks about: also of one of the
  // last close of a device, with which the kernel forgets all of it.
  if (::sync_file_range(buffered_.get(), 0, AlignedBuffers::kAlign, SYNC_FILE_RANGE_WAIT_BEFORE) != 0)
    return {MemoryFound::kDeceives, 0, errno};
  // What is not in memory was found to be so in no time at all: no readahead brings it there.
  (void)::posix_fadvise(buffered_.get(), 0, 0, POSIX_FADV_RANDOM);
  for (const FileRange& range : ranges_) {
    const bool told = for_cached_runs(buffered_.get(), range.offset_bytes, range.length_bytes,
                                      [this](uint64_t at, uint64_t length) { return compare_run(at, length); });
    if (found_.found != MemoryFound::kHonest) return found_;
    if (stop_) break;
    if (!told) return {MemoryFound::kUntold, 0, errno};
  }
  return found_;
}

// Also of none, as it takes time to find none.
bool Look::compare_run(uint64_t offset_bytes, uint64_t length_bytes) {
  const uint64_t end_bytes = offset_bytes + length_bytes;
  ++steps_;
  // A disk of which nothing is in memory is not asked for anything: it may be long in answering.
  if (length_bytes > 0 && !direct_.open()) {
    asks_disk_ = true;
    if (Status opened = open(); !opened) return end(MemoryFound::kUntold, offset_bytes, opened.error().code);
    ++steps_;
  }
  while (offset_bytes < end_bytes && !stop_) {
    const uint64_t length = std::min(kPieceBytes, end_bytes - offset_bytes);
    if (!compare_piece(offset_bytes, length)) return false;
    ++steps_;
    compared_bytes_ += length;
    offset_bytes += length;
  }
  return !stop_;
}

// The kernel forgets, once it has told, that it could not write something: so it is asked, and not only by the read.
bool Look::compare_piece(uint64_t offset_bytes, uint64_t length_bytes) {
  constexpr unsigned kAll = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  if (::sync_file_range(buffered_.get(), static_cast<off_t>(offset_bytes), static_cast<off_t>(length_bytes), kAll) != 0)
    return end(MemoryFound::kDeceives, offset_bytes, errno);
  // Whole blocks, also of a last one that the volume's end cuts.
  const uint64_t asked = (length_bytes + AlignedBuffers::kAlign - 1) & ~(AlignedBuffers::kAlign - 1);
  uint64_t got = 0;
  while (got < asked) {
    const ssize_t n = ::pread(direct_.get(), disk_.get() + got, asked - got, static_cast<off_t>(offset_bytes + got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return end(errno == EINVAL ? MemoryFound::kUntold : MemoryFound::kDeceives, offset_bytes, errno);
    got += static_cast<uint64_t>(n);
    // The file's end, perhaps within a block.
    if (n == 0 || got % AlignedBuffers::kAlign != 0) break;
  }
  return !differs(offset_bytes, std::min(got, length_bytes));
}

// What has left memory meanwhile deceives nobody.
bool Look::differs(uint64_t offset_bytes, uint64_t length_bytes) {
  const uint64_t page_bytes = AlignedBuffers::kAlign;
  for (uint64_t at = 0; at < length_bytes;) {
    const iovec into{memory_.get() + at, length_bytes - at};
    ssize_t n = ::preadv2(buffered_.get(), &into, 1, static_cast<off_t>(offset_bytes + at), RWF_NOWAIT);
    if (n < 0 && errno == EINTR) continue;
    // Not every file system knows of such reads: an ordinary one finds the page in memory, or gets it from the disk.
    if (n < 0 && errno == EOPNOTSUPP)
      n = ::preadv(buffered_.get(), &into, 1, static_cast<off_t>(offset_bytes + at));
    if (n <= 0) {
      if (n < 0 && errno != EAGAIN) return !end(MemoryFound::kDeceives, offset_bytes + at, errno);
      at += page_bytes;
      continue;
    }
    if (std::memcmp(memory_.get() + at, disk_.get() + at, static_cast<size_t>(n)) != 0)
      return !end(MemoryFound::kDeceives, offset_bytes + at, 0);
    at += static_cast<uint64_t>(n);
  }
  return false;
}

MemoryLook Look::wait(const LookPatience& patience) {
  constexpr std::chrono::milliseconds kLook(20);
  const uint64_t deadline_ns = monotonic_ns() + patience.longest_ns;
  uint64_t steps = 0;
  uint64_t step_ns = monotonic_ns();
  std::unique_lock lock(mutex_);
  while (!result_) {
    ended_.wait_for(lock, kLook);
    const uint64_t now_ns = monotonic_ns();
    if (std::exchange(steps, steps_.load()) != steps_.load()) step_ns = now_ns;
    const bool hangs = asks_disk_ && now_ns - step_ns >= patience.still_ns;
    // One that may hang is given its time to show it.
    if (result_ || (!hangs && (now_ns < deadline_ns || (asks_disk_ && now_ns - step_ns >= kLately_ns)))) continue;
    stop_ = true;
    return {hangs ? MemoryFound::kHangs : MemoryFound::kCutOff, compared_bytes_, 0};
  }
  return *result_;
}

}  // namespace

MemoryLook look_at_memory(const std::string& path, std::vector<FileRange> ranges, LookPatience patience) {
  if (ranges.empty()) return {};
  const auto look = std::make_shared<Look>(path, std::move(ranges));
  start_thread("twinblock-look", [look] { look->run(); }).detach();
  return look->wait(patience);
}

}  // namespace twinblock
