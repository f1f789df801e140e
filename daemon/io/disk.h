// One backing file or block device, asynchronous. Requests are the caller's objects and must live
// until `done` has been called, which happens on the loop thread, never from within submit().
// Requests that are outstanding together may finish, and take effect, in any order. Implemented by
// io/posix and by the simulator. Loop thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/data_search.h"
#include "base/result.h"
#include "base/under_way.h"

namespace twinblock {

enum class DiskOp : uint8_t {
  kRead,    // length_bytes into data
  kWrite,   // length_bytes from data
  kZero,    // the range reads as zeroes afterwards; may_unmap lets it become a hole
  kFlush,   // all writes whose done() ran before this submit() are on stable storage (fdatasync)
  kExtent,  // is the range that starts at offset data or a hole? sets is_hole and shortens
            // length_bytes to that extent; a disk that can't tell answers "data"
};

struct DiskRequest {
  DiskOp op = DiskOp::kRead;
  bool fua = false;        // kWrite, kZero: before done(), it and all writes whose done() ran before
                           // this submit() are on stable storage
  bool may_unmap = false;  // kZero
  bool is_hole = false;    // kExtent, result
  bool flush_failed = false;  // result, with an error: a flush failed, of its own or an earlier one,
                              // so that what is in the page cache may never get onto the disk
  int error = 0;           // result: 0 or an errno value; a transfer is whole or it is an error
  uint64_t offset_bytes = 0;
  uint64_t length_bytes = 0;
  std::byte* data = nullptr;               // kRead, kWrite; kWrite does not change it
  std::function<void(DiskRequest&)> done;  // keep captures within 16 bytes: no allocation
  uint64_t submitted_ns = 0;    // for the disk's own use and for latency figures: when it began …
  uint64_t finished_ns = 0;     // … and ended, on the Clock
  DiskRequest* next = nullptr;  // for the disk's own queues
  bool durable = false;          // for the disk's own use: the transfer itself makes it stable
  bool again = false;            // for the disk's own use: it did not, for want of room
  std::byte* aligned = nullptr;  // for the disk's own use: what stands in for data
  uint8_t slot = 0;              // for the disk's own use: of UnderWay …
  uint8_t durable_slot = 0;      // … and of those that make themselves stable
};

class Disk {
 public:
  virtual ~Disk() = default;
  virtual void submit(DiskRequest& request) = 0;
  [[nodiscard]] virtual uint64_t size_bytes() const = 0;
  // From now on it has `size_bytes`, as what is below it has by now; with `extend` a regular file is made
  // so large, by a hole. An error says what is missing, and what to do; nothing has changed then. Never
  // less than before.
  [[nodiscard]] virtual Status grow(uint64_t size_bytes, bool extend) = 0;
  // The volume has grown by that, for good: a flush fails from now on where what is below is smaller.
  virtual void require_size(uint64_t /*size_bytes*/) {}
  // Whether kZero works without writing the zeroes (fallocate), so that "fast zero" can be offered.
  [[nodiscard]] virtual bool fast_zero() const = 0;
  // Changes when the device under this disk does anything, so that a long flush can be told from
  // one that hangs; 0: nobody can tell. Any thread; may block.
  [[nodiscard]] virtual uint64_t device_work() const { return 0; }
  // When the oldest flush that is under way (that of a FUA request, too) began, on the Clock; 0: none is. It may be
  // up to two looks later than that, so the engine asks regularly. Loop thread.
  [[nodiscard]] virtual uint64_t flushing_since_ns() const { return 0; }
  // Whether anybody's data is there by now. Any thread; blocks for limits::kSearch_ns at the most.
  [[nodiscard]] virtual DataFound look_for_data() const { return DataFound::kUnknown; }
  // What it was asked and has not answered, by whomever: each implementation counts what it takes. Any thread, but for
  // look(), which is the engine's.
  [[nodiscard]] UnderWay& under_way() const { return under_way_; }

 private:
  mutable UnderWay under_way_;
};

}  // namespace twinblock
