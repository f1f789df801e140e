#include "session/retirements.h"

#include <algorithm>

namespace twinblock {

namespace {

constexpr size_t kRetirementsMax = 256;

}  // namespace

void Retirements::retire(uint64_t incarnation) {
  Retirement& retirement = retirements_.emplace_back(Retirement{incarnation});
  if (owner_.working_for(incarnation))
    traffic_.put_in_order(wire::to_header(wire::RetireFrame{.incarnation = incarnation}), {});
  else
    confirm(retirement);
}

void Retirements::confirm(Retirement& retirement) {
  if (retirement.by_us || owner_.working_for(retirement.incarnation)) return;
  retirement.by_us = true;
  traffic_.put_in_order(wire::to_header(wire::RetiredFrame{.incarnation = retirement.incarnation}),
                        {});
}

void Retirements::work_ended(uint64_t incarnation) {
  for (Retirement& retirement : retirements_)
    if (retirement.incarnation == incarnation) confirm(retirement);
  drop_done();
}

void Retirements::confirmed_by_peer(uint64_t incarnation) {
  for (Retirement& retirement : retirements_)
    if (retirement.incarnation == incarnation) retirement.by_peer = true;
  drop_done();
  traffic_.send_again(incarnation);
}

void Retirements::drop_done() {
  std::erase_if(retirements_, [](const Retirement& each) { return each.by_us && each.by_peer; });
}

bool Retirements::knows(uint64_t incarnation) const {
  return std::any_of(retirements_.begin(), retirements_.end(),
                     [&](const Retirement& each) { return each.incarnation == incarnation; });
}

bool Retirements::full() const { return retirements_.size() >= kRetirementsMax; }

}  // namespace twinblock
