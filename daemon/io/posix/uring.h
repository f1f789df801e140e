// One io_uring for the reads and writes of one disk. Loop only; any leader of the loop may use it
// (so it is not set up for a single issuer). The kernel may complete a transfer on the thread that
// submitted it: while that thread is stuck in an inline write, its transfers come late as well.
// They are of the same disk, as long as each disk has its own ring; a disk that must not wait for
// another one (metadata) is opened with the pool instead.
//
// The kernel may refuse to take what is prepared. For lack of memory or of room for completions it
// is asked again, some milliseconds later; after any other error, or when that lasts, the ring
// takes nothing more: what it has not handed over is refused, for another path to do, and what the
// kernel has still finishes.
#pragma once

#include <liburing.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/result.h"
#include "io/posix/request_list.h"

namespace twinblock {

class Uring {
 public:
  static constexpr unsigned kDepth = 256;
  // So many submissions in a row that the kernel had no memory or no room for are the last.
  static constexpr unsigned kRefusalsMax = 1000;
  // io_uring_submit(), or what a test puts in its place: transfers taken, or a negative errno.
  using Submit = int (*)(io_uring* ring);

  // Fails with what the kernel said: containers often forbid io_uring.
  static Result<std::unique_ptr<Uring>> create(Submit submit = nullptr);
  ~Uring();
  Uring(const Uring&) = delete;
  Uring& operator=(const Uring&) = delete;

  // Becomes readable when a transfer has finished.
  [[nodiscard]] int fd() const { return ring_.ring_fd; }
  [[nodiscard]] bool full() const { return free_slots_.empty(); }
  [[nodiscard]] size_t in_flight() const { return kDepth - free_slots_.size(); }

  // The kernel refuses for good, with this errno value; 0: it does not. Nothing is to be prepared.
  [[nodiscard]] int broken() const { return broken_; }

  // Prepares a kRead (into request.aligned, or else data) or the write of `source`. Not when full() or broken().
  void prepare(DiskRequest& request, int file, const std::byte* source);
  // One system call for all that is prepared. False: the kernel has no memory now, call again
  // later. When it is broken() afterwards, reap() has something to refuse.
  [[nodiscard]] bool submit();
  [[nodiscard]] bool unsubmitted() const { return !prepared_.empty(); }
  // Appends what has finished to `finished` with its error set, and what the kernel asks to do in
  // another way to `refused`. Short transfers are prepared again for the rest.
  void reap(RequestList& finished, RequestList& refused);

 private:
  struct Slot {
    DiskRequest* request = nullptr;
    const std::byte* source = nullptr;
    uint64_t transferred = 0;
    int file = -1;
  };
  Uring() = default;
  void prepare_rest(uint32_t slot);
  void refuse(uint32_t slot, RequestList& refused);

  io_uring ring_{};
  bool set_up_ = false;
  Submit submit_ = nullptr;
  int broken_ = 0;
  unsigned refusals_ = 0;         // in a row
  std::deque<uint32_t> prepared_;  // slots that the kernel has not taken, in order
  std::array<Slot, kDepth> slots_{};
  std::vector<uint32_t> free_slots_;
};

}  // namespace twinblock
