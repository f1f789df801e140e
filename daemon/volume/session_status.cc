// What a session says of its links, for status and for those who plan by it.
#include <algorithm>
#include <utility>

#include "volume/session.h"
#include "volume/session_channel.h"

namespace twinblock {

uint64_t Session::in_bytes(const SessionLink& link) const {
  return link.in_before_bytes + (link.up != nullptr ? link.up->reader.received_bytes_total() : 0);
}

uint64_t Session::out_bytes(const SessionLink& link) const {
  return link.out_before_bytes + (link.up != nullptr ? link.up->connection->sent_bytes_total() : 0);
}

uint64_t Session::rate_bytes_per_s() const {
  uint64_t rate = 0;
  for (const Channel* channel : up_) rate += channel->link.meter.rate_bytes_per_s();
  return rate;
}

bool Session::peer_answers() const {
  return std::any_of(links_.begin(), links_.end(),
                     [](const auto& link) { return link->enabled && link->answers; });
}

std::string Session::peer_address() const {
  return links_.empty() ? peer_ : links_.front()->addresses.peer;
}

std::vector<StatusView::Link> Session::links() const {
  const uint64_t now = env_.clock.now_ns();
  std::vector<StatusView::Link> views;
  for (const auto& held : links_) {
    const SessionLink& link = *held;
    const bool pending = std::any_of(channels_.begin(), channels_.end(),
                                     [&](const auto& each) { return &each->link == &link; });
    StatusView::Link view;
    view.name = link.config.name;
    view.state = !link.enabled                                          ? "disabled"
                 : link.up != nullptr                                   ? "up"
                 : link.refused || (!established_ && !refusal_.empty()) ? "refused"
                 : link.damped                                          ? "damped"
                 : pending                                              ? "connecting"
                                                                        : "down";
    view.local = link.addresses.local;
    view.peer = link.addresses.peer;
    view.last_error = link.last_error;
    if (link.up != nullptr) view.round_trip_ns = link.up->round_trip_ns;
    view.nominal_bits_per_s = link.config.rate_bits_per_s;
    view.measured_bytes_per_s = link.up != nullptr ? link.meter.measured_bytes_per_s() : 0;
    view.in_bytes_per_s = link.up != nullptr ? link.in_rate.bytes_per_s() : 0;
    view.out_bytes_per_s = link.up != nullptr ? link.out_rate.bytes_per_s() : 0;
    view.in_bytes = in_bytes(link);
    view.out_bytes = out_bytes(link);
    view.in_flight_bytes = link.meter.in_flight_bytes();
    view.failovers = link.failovers;
    if (link.join_timer->armed() && link.join_at_ns > now) view.retry_in_ns = link.join_at_ns - now;
    views.push_back(std::move(view));
  }
  return views;
}

}  // namespace twinblock
