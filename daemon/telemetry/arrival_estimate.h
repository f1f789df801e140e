// When a frame came into this node's kernel, where that is not known exactly: the kernel joins what
// lies in a socket, and says of all of it when the last byte came. A frame says when it was sent,
// by the other node's clock. How far that is from its arrival by this node's clock says where the
// clocks stand, and how long it was under way; of what was read together, and before that, the
// least is taken. So no clock has to be right, nor the two to go at the same speed for long. Loop
// thread only.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"

namespace twinblock {

class ArrivalEstimate {
 public:
  // One that was sent at `peer_ns` of the other clock and was here, as the kernel says, at
  // `known_ns` at the latest. `alone`: nothing else was read with it, so that this is exact.
  uint64_t arrived_ns(uint64_t peer_ns, uint64_t known_ns, bool alone) {
    const auto apart = static_cast<int64_t>(known_ns - peer_ns);
    if (known_ns != read_known_ns_) {
      before_ = known_ns - read_known_ns_ < kSecond_ns ? this_read_ : apart;
      this_read_ = apart;
      read_known_ns_ = known_ns;
    }
    this_read_ = std::min(this_read_, apart);
    if (alone) return known_ns;
    return std::min(known_ns, peer_ns + static_cast<uint64_t>(std::min(this_read_, before_)));
  }

 private:
  uint64_t read_known_ns_ = 0;  // tells one read from the next
  int64_t this_read_ = 0, before_ = 0;
};

}  // namespace twinblock
