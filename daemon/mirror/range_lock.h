// Admission of writes: ranges that overlap are let through one after the other, in the order in
// which they asked, so that both replicas apply them in the same order (invariant 4). Decides only;
// the owner starts what it admits. Loop thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace twinblock {

// Who wants a range: told when a range that it had to wait for is its own.
class RangeOwner {
 public:
  virtual void range_admitted() = 0;

 protected:
  ~RangeOwner() = default;
};

// A holder of, or a waiter for, one range. Embedded in the operation that it belongs to.
struct RangeTicket {
  uint64_t begin_bytes = 0;
  uint64_t end_bytes = 0;  // exclusive
  RangeOwner* owner = nullptr;
  uint32_t blockers = 0;              // earlier tickets that overlap and are still here
  size_t slot = 0;                    // the lock's own: index in its table
  std::vector<RangeTicket*> blocked;  // later tickets that wait for this one
};

class RangeLock {
 public:
  // Whether the ticket is admitted at once; otherwise release() of the last blocker admits it.
  [[nodiscard]] bool enter(RangeTicket& ticket);
  // Ends an admitted ticket and tells the owners of those that are admitted by that, oldest first.
  // They may enter and release tickets from within.
  void release(RangeTicket& ticket);
  // Tickets that hold or wait.
  [[nodiscard]] size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    uint64_t begin_bytes;
    uint64_t end_bytes;
    RangeTicket* ticket;
  };
  // A flat table: a few dozen entries are scanned faster than a tree is walked, and
  // limits::kWritesInFlightMax bounds it.
  std::vector<Entry> entries_;
};

}  // namespace twinblock
