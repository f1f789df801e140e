#include "session/retirements.h"

#include <algorithm>

namespace twinblock {

namespace {

constexpr size_t kRetirementsMax = 256;

}  // namespace

void Retirements::retire(uint64_t incarnation) {
  unconfirmed_.push_back(incarnation);
  owner_.connection_gone(incarnation);
  traffic_.put_in_order(wire::to_header(wire::RetiredFrame{.incarnation = incarnation}), {});
}

void Retirements::confirmed_by_peer(uint64_t incarnation) {
  std::erase(unconfirmed_, incarnation);
  traffic_.send_again(incarnation);
}

bool Retirements::knows(uint64_t incarnation) const {
  return std::ranges::find(unconfirmed_, incarnation) != unconfirmed_.end();
}

bool Retirements::full() const { return unconfirmed_.size() >= kRetirementsMax; }

}  // namespace twinblock
