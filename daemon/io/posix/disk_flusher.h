// The flushes of one disk, and the FUA requests that wait for one.
//
// Requests that wait share the next fdatasync. On a disk that takes long, several are under way at
// a time (flush_concurrency.h), one begun after the other.
//
// What makes that safe, since a failed fdatasync must never be followed by one that succeeds
// although blocks are lost:
//   - each of those under way has an open file description of its own: the kernel tells each of
//     these once of a failed write-back (errseq_t, Documentation/core-api/errseq.rst in Linux)
//   - only where that is so, and where an fdatasync is whole by itself whatever others are under
//     way (DiskFile::another_flush_handle); elsewhere there is one at a time
//   - they are told in the order in which they began, and the first failure is final: it fails all
//     that are not told yet, and every later one
// A device may fail one cache flush, with blocks that another one was to cover, and then call that
// other one a success. The failure comes back first; if its thread sleeps for longer than the other
// flush takes, that one is told its success before this disk counts as failed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "io/posix/blocking_pool.h"
#include "io/posix/disk_file.h"
#include "io/posix/flush_concurrency.h"
#include "io/posix/request_list.h"

namespace twinblock {

// On the loop.
class DiskFlusher {
 public:
  static constexpr size_t kParallelMax = 32;

  // At most `parallel_max` at a time. `finished`, from any thread: collect() has something to do.
  static Result<std::unique_ptr<DiskFlusher>> create(const DiskFile& file, size_t parallel_max,
                                                     std::function<void()> finished);
  // Waits for those under way, whose requests are not told.
  ~DiskFlusher();
  DiskFlusher(const DiskFlusher&) = delete;
  DiskFlusher& operator=(const DiskFlusher&) = delete;

  // A write-back that failed after its process was killed, and of which nobody was told, the kernel tells to each
  // description that was opened since: one flush would fail at the start, and flushes of a good disk whenever the next
  // description has its turn. So all are told now: before the first write, where it is on record that a flush failed.
  //
  // No other error is missed by that. This process has written nothing yet: what has failed by now was written by one
  // before it, also what failed between the look that put this on record (memory_look.h) and here, and by that record
  // nothing that those had not flushed is believed. What fails from now on is told to each description once more.
  void hear_old_errors() const;

  // A kFlush, or a transfer that is done and has its FUA to come. Not after error().
  void add(DiskRequest& request) { waiting_.push(request); }
  // A write that no flush of its own covers has finished, and is about to be told.
  void wrote() { ++written_; }
  // Whether a flush has covered all that was told before now.
  [[nodiscard]] bool nothing_unflushed() const { return covered_ == written_ && error_ == 0; }
  // A write that was to make itself stable did not: what it failed at may have been a flush.
  // Appends those that wait.
  void fail(int error, RequestList& finished);
  // Begins what may begin.
  void start();
  // Whether start() has something to do.
  [[nodiscard]] bool pending() const {
    return error_ == 0 && !waiting_.empty() && running_ < concurrency_.allowed();
  }
  // Appends requests that are finished, with their errors.
  void collect(RequestList& finished);
  // When the oldest of those under way began; 0: none is.
  [[nodiscard]] uint64_t since_ns() const { return running_ > 0 ? flushes_[oldest_].began_ns : 0; }
  // The first failure, an errno value; 0 before.
  [[nodiscard]] int error() const { return error_; }

 private:
  // One fdatasync, and whom it is for.
  struct Flush {
    std::unique_ptr<FlushHandle> handle;
    DiskRequest job;
    RequestList waiting;
    size_t beside = 0;  // how many were under way when it began
    uint64_t covers = 0;
    uint64_t began_ns = 0;
    bool done = false;
  };

  DiskFlusher(std::vector<std::unique_ptr<FlushHandle>> handles, std::function<void()> finished);
  void execute(DiskRequest& job);  // in the pool
  void tell(Flush& flush, RequestList& finished);
  [[nodiscard]] Flush& from_oldest(size_t n) { return flushes_[(oldest_ + n) % flushes_.size()]; }

  std::vector<Flush> flushes_;  // a ring: `running_` of them, from `oldest_` on, have begun
  size_t oldest_ = 0;
  size_t running_ = 0;
  RequestList waiting_;  // for the next one
  int error_ = 0;
  // What an earlier process wrote, and told, counts as the first.
  uint64_t written_ = 1;
  uint64_t covered_ = 0;

  FlushConcurrency concurrency_;
  uint64_t told_until_ns_ = 0;  // when the latest that was told had ended

  CompletionStack completed_;
  const std::function<void()> finished_;
  std::unique_ptr<BlockingPool> pool_;  // last: its threads use what is above
};

}  // namespace twinblock
