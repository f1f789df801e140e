// The numbers of orders that the operators of both nodes may give: about links, and about compression. They are
// logical: an order has one more than the highest that its node knows. A process that is new knows none: an order that is
// given before the peer has told what it knows holds against all that, and then has one more than what was told. Pure, but
// for what a process knows of the peer's, which each kind of orders keeps.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/limits.h"

namespace twinblock {

// Whether the order that the peer tells counts, and not the latest one that is known here: the one with the higher
// number does. Two that were given at the same time have the same: the one of the node with the lower name does.
inline bool told_order_counts(uint64_t told, uint64_t known, const std::string& node, const std::string& peer) {
  return told != known ? told > known : peer < node;
}

// No honest peer has come so far: taken over, it would be held against every order that is given here.
inline bool order_number_leaps(uint64_t told, uint64_t highest) {
  return told > highest && told - highest > limits::kOrderNumberJumpMax;
}

// What a process knows of the numbers of the peer's orders: at first nothing. Loop thread only.
class PeerNumbers {
 public:
  // The peer has told all that it knew of when a session began. True: for the first time.
  bool all_told() { return !std::exchange(known_, true); }
  [[nodiscard]] bool known() const { return known_; }
  // Whether what the peer tells was ordered before the latest order that is known here, although that one's number may be
  // lower: it was given here without these numbers, and what is told contradicts it.
  [[nodiscard]] bool told_is_older(bool given_without_them, bool contradicts) const {
    return !known_ && given_without_them && contradicts;
  }

 private:
  bool known_ = false;
};

}  // namespace twinblock
