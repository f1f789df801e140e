// The numbers of orders that the operators of both nodes may give: about links, and about compression. They are
// logical: an order has one more than the highest that its node knows. A process that is new knows none: an order that is
// given before the peer has told what it knows holds against all that, and then has one more than what was told. Pure.
#pragma once

#include <cstdint>
#include <string>

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

}  // namespace twinblock
