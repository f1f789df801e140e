// A primary whose process has ended goes on, and is not served yet: its peer takes a copy of what it holds before
// it is marked as half-copied, or its metadata disk is slow. Operators order a demotion or a promotion just then,
// once or several times, while the session comes and goes and the disk takes its time for flushes. Or nobody orders
// anything, and no copy can be taken.
//
// What must hold: each order is answered. A node that was demoted does not become primary again without an order,
// whether its peer is there or not; one that was promoted is primary and serves, unless it was told otherwise. Where
// nobody orders anything it serves soon, without the peer, and the two come together when a copy can be taken.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "node_pair.h"

namespace twinblock::sim {

class Confirmed final : public NodePair {
 public:
  explicit Confirmed(uint64_t seed);
  ~Confirmed();
  void run();

 private:
  enum class Order { kNone, kDemote, kPromote };

  void run_for(uint64_t ns) { scheduler_.run_until(scheduler_.now_ns() + ns); }
  [[nodiscard]] StatusView status(int host) { return node(host).engine().status(); }
  // Primary by the peer's confirmation, and not served.
  [[nodiscard]] bool waits_to_serve();
  [[nodiscard]] bool serves();

  void write_some();
  void end_and_begin();
  void order(Order what);
  void disturb(bool mends);
  void check_goes_on();
  void check_demoted();
  void check_promoted();

  std::vector<std::unique_ptr<NumberedWrite>> writes_;
  uint64_t outstanding_ = 0;       // orders
  Order last_ = Order::kNone;  // of those that succeeded
  size_t answered_ = 0;        // writes, without an error
  bool nobody_orders_ = false;
  bool crossed_ = false;       // two different ones were under way at once
  bool dies_when_demoted_ = false;  // its process ends as soon as it has said so, and begins anew
};

}  // namespace twinblock::sim
