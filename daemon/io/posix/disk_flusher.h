// The flushes of one disk, and the FUA requests that wait for one.
//
// Requests that wait share the next fdatasync. While it takes no time, one at a time is best: each
// costs two wake-ups. On a disk that takes milliseconds, whoever comes while one is under way would
// wait one and a half times as long as the disk needs, so several are under way, one begun after
// the other: as many as kSpacing_ns goes into what one takes.
//
// What makes that safe, since a failed fdatasync must never be followed by one that succeeds
// although blocks are lost:
//   - each of those under way has an open file description of its own: the kernel tells each of
//     these once of a failed write-back (errseq_t, Documentation/core-api/errseq.rst in Linux), and
//     where it does not promise that, there is one at a time (DiskFile::parallel_flushes)
//   - they are told in the order in which they began, so that a success counts only if all before
//   it
//     were successes: a device that has failed a flush may call the next one a success
//   - the first failure is final: it fails all that are not told yet, and every later one
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/units.h"
#include "io/posix/blocking_pool.h"
#include "io/posix/disk_file.h"
#include "io/posix/request_list.h"

namespace twinblock {

// On the loop.
class DiskFlusher {
 public:
  static constexpr size_t kParallelMax = 32;
  // Of flushes that are begun one after the other: what handing one over and waking up for its end
  // costs the host's processors.
  static constexpr uint64_t kSpacing_ns = 50 * kMicrosecond_ns;

  // At most `parallel_max` at a time. `finished`, from any thread: collect() has something to do.
  static Result<std::unique_ptr<DiskFlusher>> create(const DiskFile& file, size_t parallel_max,
                                                     std::function<void()> finished);
  // Waits for those under way, whose requests are not told.
  ~DiskFlusher();
  DiskFlusher(const DiskFlusher&) = delete;
  DiskFlusher& operator=(const DiskFlusher&) = delete;

  // A kFlush, or a transfer that is done and has its FUA to come. It may already be in collect().
  void add(DiskRequest& request);
  // Begins what may begin.
  void start();
  // Whether start() or collect() has something to do, whatever the pool does.
  [[nodiscard]] bool pending() const { return could_start() || !failed_.empty(); }
  // Appends requests that are finished, with their errors.
  void collect(RequestList& finished);
  // The first failure, an errno value; 0 before.
  [[nodiscard]] int error() const { return error_; }

 private:
  // One fdatasync, and whom it is for.
  struct Flush {
    std::unique_ptr<FlushHandle> handle;
    DiskRequest job;
    RequestList waiting;
    bool done = false;
  };

  DiskFlusher(std::vector<std::unique_ptr<FlushHandle>> handles, std::function<void()> finished);
  void execute(DiskRequest& job);  // in the pool
  void tell(Flush& flush, RequestList& finished);
  void took(uint64_t duration_ns);
  [[nodiscard]] size_t parallel() const;
  [[nodiscard]] bool could_start() const { return !waiting_.empty() && running_ < parallel(); }
  [[nodiscard]] Flush& from_oldest(size_t n) { return flushes_[(oldest_ + n) % flushes_.size()]; }

  std::vector<Flush> flushes_;  // a ring: `running_` of them, from `oldest_` on, have begun
  size_t oldest_ = 0;
  size_t running_ = 0;
  RequestList waiting_;  // for the next one
  RequestList failed_;   // added after the failure
  int error_ = 0;

  // The shortest flush of the last two windows of kWindow: what the disk takes, without the time
  // that a busy host or other flushes add.
  static constexpr uint64_t kWindow = 32;
  uint64_t counted_ = 0;
  uint64_t shortest_ns_ = 0;         // of this window so far
  uint64_t shortest_before_ns_ = 0;  // of the one before

  CompletionStack completed_;
  const std::function<void()> finished_;
  std::unique_ptr<BlockingPool> pool_;  // last: its threads use what is above
};

}  // namespace twinblock
