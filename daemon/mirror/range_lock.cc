#include "mirror/range_lock.h"

#include "base/checks.h"

namespace twinblock {

bool RangeLock::enter(RangeTicket& ticket) {
  TB_CHECK(ticket.begin_bytes < ticket.end_bytes, "a range has at least one byte");
  TB_CHECK(ticket.owner != nullptr, "who may have to wait for a range can be told of it");
  TB_CHECK(ticket.slot >= entries_.size() || entries_[ticket.slot].ticket != &ticket,
           "a ticket is in the lock once");
  ticket.blockers = 0;
  ticket.blocked.clear();
  for (const Entry& entry : entries_) {
    if (entry.begin_bytes >= ticket.end_bytes || ticket.begin_bytes >= entry.end_bytes) continue;
    entry.ticket->blocked.push_back(&ticket);
    ++ticket.blockers;
  }
  ticket.slot = entries_.size();
  entries_.push_back({ticket.begin_bytes, ticket.end_bytes, &ticket});
  return ticket.blockers == 0;
}

void RangeLock::release(RangeTicket& ticket) {
  TB_CHECK(ticket.blockers == 0, "only an admitted range can be released");
  TB_CHECK(ticket.slot < entries_.size() && entries_[ticket.slot].ticket == &ticket,
           "the ticket is not in this lock");
  entries_[ticket.slot] = entries_.back();
  entries_[ticket.slot].ticket->slot = ticket.slot;
  entries_.pop_back();
  // Every ticket waits for all earlier ones that it overlaps, so counting down is enough to keep
  // the order, and `blocked` is in the order of arrival.
  if (ticket.blocked.empty()) return;
  std::vector<RangeTicket*> admitted;
  for (RangeTicket* waiter : ticket.blocked) {
    TB_CHECK(waiter->blockers > 0, "a ticket that waits counts whom it waits for");
    if (--waiter->blockers == 0) admitted.push_back(waiter);
  }
  ticket.blocked.clear();
  for (RangeTicket* waiter : admitted) waiter->owner->range_admitted();
}

}  // namespace twinblock
