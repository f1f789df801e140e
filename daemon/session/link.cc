#include "session/link.h"

#include <algorithm>

#include "base/checks.h"
#include "session/channel.h"

namespace twinblock {
namespace {

// Of a heartbeat's round trip: until the loops at both ends have read it. They have slept meanwhile, unlike those that
// a write finds at work: between two hosts side by side this is all of it.
constexpr uint64_t kLoopsWake_ns = 200 * kMicrosecond_ns;

}  // namespace

void Link::enable() {
  enabled_ = true;
  rejoin_.forget_refusal();
}

void Link::disable() {
  enabled_ = false;
  rejoin_.cancel();
}

void Link::came_up(Channel& channel, uint64_t now_ns) {
  TB_CHECK(up_ == nullptr, "a link has one connection of the session at the most");
  up_ = &channel;
  up_since_ns_ = now_ns;
  answers_ = false;
  rejoin_.joined();
  if (channel.dialled()) rejoin_.end_renewal_before(channel.opened_ns());
  errors_.came_up();
  meter_.restarted();
}

void Link::went_down() {
  TB_CHECK(up_ != nullptr, "what goes down was up");
  before_ = totals();
  up_ = nullptr;
  meter_.restarted();
}

void Link::session_lost() {
  rejoin_.cancel();
  meter_.restarted();
  in_rate_.stopped();
  out_rate_.stopped();
}

uint64_t Link::way_ns() const {
  const uint64_t way_ns = meter_.way_ns();
  const uint64_t stack_ns = times_.stack().expected_ns(0, way_ns, config_.rate_bits_per_s);
  return way_ns - std::min(way_ns, stack_ns + kLoopsWake_ns);
}

LinkTotals Link::totals() const {
  LinkTotals totals = before_;
  if (up_ == nullptr) return totals;
  totals.in_bytes += up_->reader().received_bytes_total();
  totals.out_bytes += up_->connection().sent_bytes_total();
  totals.cipher_ns += up_->connection().cipher_ns();
  return totals;
}

void Link::update_rates(uint64_t now_ns) {
  const LinkTotals now = totals();
  in_rate_.update(now.in_bytes, now_ns);
  out_rate_.update(now.out_bytes, now_ns);
}

}  // namespace twinblock
