// A backing file or block device as the engine's Disk: buffered or direct I/O, up to 64 TiB.
//
// How a request is executed:
//   plain writes        at once, by pwrite on the loop, when all of a turn's are few bytes
//                       (kInlineBytesPerTurn): a copy to the page cache takes a microsecond, while
//                       any hand-over costs two wake-ups. Should one block after all, another
//                       thread takes the loop over (loop_role.h), and the rest go the other ways
//                       until it is back.
//   reads, more writes  io_uring, or the pool where io_uring is not allowed, and for writes where
//   it
//                       would hand them to a kernel thread anyway (DiskFile::async_writes)
//   zero, extent        the pool: fallocate and lseek have no asynchronous form
//   flush, FUA          fdatasync, in a pool of their own (disk_flusher.h); but a direct write with
//                       FUA makes itself stable (RWF_DSYNC) when nothing that was told before it is
//                       left to flush, since it is to cover that, too
//   direct              never on the loop, which would wait for the disk; io_uring takes whole blocks
//                       of up to AlignedBuffers::kBytesMax, the pool all else
//
// A failed fdatasync is final: the kernel has dropped the pages and would call the next one a
// success. Every later flush or FUA request fails with the same error.
//
// Created, used and destroyed on the loop (or before and after it runs); read_now() and
// extent_now() are for any thread. Destroying it waits for requests in flight, whose done() is not
// called.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "base/under_way.h"
#include "io/disk.h"
#include "io/posix/backing_number.h"
#include "io/posix/blocking_pool.h"
#include "io/posix/disk_file.h"
#include "io/posix/disk_flusher.h"
#include "io/posix/loop.h"
#include "io/posix/request_list.h"

struct io_uring;

namespace twinblock {

class Uring;
class IoWatcher;

class PosixDisk final : public Disk, private TurnPart {
 public:
  enum class Engine { kAuto, kIoUring, kThreads };
  // Writes of up to this many bytes a turn are done inline, if io_uring has none of this disk in
  // flight; beside those, fewer, since both need the inode's lock.
  //
  // tests/bench/disk_bench, ext4, two cores, from submit() to done():
  //
  //                    inline               io_uring             threads
  //                    p50       CPU        p50       CPU        p50       CPU
  //    4 KiB QD  1       3 us     3 us       63 us    55 us       28 us    33 us
  //    4 KiB QD 32      81 us     3 us      195 us    11 us      104 us     7 us
  //   64 KiB QD  1       5 us     5 us       70 us    53 us       38 us    45 us
  //   64 KiB QD  8      39 us     5 us       85 us    16 us       53 us    11 us
  //   64 KiB QD 16      77 us     5 us      181 us    15 us      115 us    13 us
  //    1 MiB QD  1      41 us    40 us       69 us    68 us       62 us    75 us
  //    1 MiB QD  8     573 us    81 us      432 us    68 us      280 us    74 us (p99 4.1 ms)
  //
  // So inline wins up to about 1 MiB a turn, which occupies the loop for 50 to 100 us; beyond, the
  // copies are better made beside the loop than in it.
  static constexpr uint64_t kInlineBytesPerTurn = 1 * kMiB;
  static constexpr uint64_t kInlineBytesBesideOthers = 128 * kKiB;
  static constexpr size_t kPoolThreads = 4;
  // Without io_uring each of these waits for the disk, which works at many at a time.
  static constexpr size_t kPoolThreadsDirect = 32;

  struct Options {
    DiskFile::Options file;
    Engine engine = Engine::kAuto;
    uint64_t inline_bytes = kInlineBytesPerTurn;  // 0: no inline writes
    size_t pool_threads = 0;        // 0: what this way of I/O needs
    size_t parallel_flushes_max = DiskFlusher::kParallelMax;
    int (*uring_submit)(io_uring* ring) = nullptr;  // for tests: in place of io_uring_submit()
  };

  static Result<std::unique_ptr<PosixDisk>> open(Loop& loop, const Options& options);
  ~PosixDisk() override;

  void submit(DiskRequest& request) override;
  [[nodiscard]] uint64_t size_bytes() const override { return file_->size_bytes(); }
  [[nodiscard]] Status grow(uint64_t size_bytes, bool extend) override {
    return file_->grow(size_bytes, extend);
  }
  void require_size(uint64_t size_bytes) override { file_->require_size(size_bytes); }
  [[nodiscard]] bool fast_zero() const override { return file_->fast_zero(); }
  [[nodiscard]] uint64_t device_work() const override { return file_->device_work(); }
  [[nodiscard]] uint64_t flushing_since_ns() const override;
  [[nodiscard]] DataFound look_for_data() const override;

  // Waits until neither the kernel nor a thread uses a request or its data any more; none is
  // delivered, and none may be submitted afterwards. After Loop::run() has returned.
  void shut_down();

  // "io_uring" or "threads"; any thread.
  [[nodiscard]] const char* engine_name() const;
  [[nodiscard]] bool direct() const { return file_->direct(); }
  [[nodiscard]] uint64_t memory_number() const { return file_->memory_number(); }
  [[nodiscard]] uint64_t backing_number() const { return twinblock::backing_number(file_->fd()); }
  // DiskFile::forget_cache(), after which no flush fails because of what failed before this process. Where it is on
  // record that a flush has failed, before the loop runs and anything is written.
  [[nodiscard]] bool forget_cache() const;

  // Blocking, from any thread, beside everything else; 0 or an errno value.
  [[nodiscard]] int read_now(uint64_t offset_bytes, std::span<std::byte> into) const;
  [[nodiscard]] int extent_now(uint64_t offset_bytes, uint64_t length_bytes, bool& hole,
                               uint64_t& extent_length_bytes) const;

 private:
  PosixDisk(Loop& loop, const Options& options, std::unique_ptr<DiskFile> file,
            std::unique_ptr<Uring> uring, std::unique_ptr<DiskFlusher> flusher);

  [[nodiscard]] bool submit_queued() override;
  void deliver() override;
  [[nodiscard]] RequestList lend() override;
  void execute_lent(RequestList& requests) override;
  [[nodiscard]] bool pending() const override;

  void execute(DiskRequest& request);  // in the pool
  void start_transfers();
  [[nodiscard]] bool write_inline(uint64_t now_ns);
  void collect();
  [[nodiscard]] bool ring_takes() const;
  [[nodiscard]] bool ring_takes(const DiskRequest& request) const;
  [[nodiscard]] bool plain_blocks(const DiskRequest& request) const;
  void durable_finished(DiskRequest& request);
  void align(DiskRequest& request);
  void unalign(DiskRequest& request, bool read);
  void data_finished(DiskRequest& request);

  Loop& loop_;
  const uint64_t inline_bytes_max_;
  const std::unique_ptr<DiskFile> file_;

  // Queued since the last submit().
  RequestList writes_;
  uint64_t writes_bytes_ = 0;
  RequestList transfers_;  // for io_uring or the pool; those that find no slot stay
  RequestList blocking_;   // for the pool

  RequestList ready_;  // for deliver()

  // Writes that make themselves stable: one that hangs is a flush that hangs, of which the flusher knows nothing.
  mutable UnderWay durable_;

  CompletionStack completed_;                // from the pool and from late inline writes
  std::atomic<int> pool_writes_{0};          // handed to the pool and not executed yet
  std::atomic<int> lent_{0};                 // borrowers that are not back yet
  std::atomic<bool> inline_running_{false};  // for the destructor; cleared last by a late writer
  std::unique_ptr<Uring> uring_;
  std::unique_ptr<IoWatcher> ring_watcher_;
  std::unique_ptr<Timer> retry_timer_;  // the kernel had no memory for a submission
  std::unique_ptr<DiskFlusher> flusher_;
  std::unique_ptr<BlockingPool> pool_;  // last: its threads use what is above
};

}  // namespace twinblock
