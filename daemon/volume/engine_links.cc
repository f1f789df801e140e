// The links at run time: what the operator orders, and what `status` says of them.
#include <cerrno>

#include "volume/engine.h"

namespace twinblock {

void Engine::change_link(LinkOrder, const LinkConfig&, Reply reply) {
  reply(Error{"this version has one link, and can't change it while it runs",
              "change it in " + core_.config.path + " on both hosts and restart twinblockd",
              ENOTSUP});
}

void Engine::fill_links(StatusView& view) const {
  StatusView::Link link;
  const LinkAddresses& addresses = session_.link();
  link.name = addresses.name;
  link.local = addresses.local;
  link.peer = addresses.peer;
  link.last_error = session_.last_error();
  link.round_trip_ns = session_.up() ? session_.round_trip_ns() : std::nullopt;
  link.nominal_bits_per_s = core_.config.links.front().rate_bits_per_s;
  link.out_bytes = session_.up() ? session_.sent_bytes_total() : 0;
  switch (session_.link_state()) {
    case Session::LinkState::kDown:
      link.state = "down";
      break;
    case Session::LinkState::kConnecting:
      link.state = "connecting";
      break;
    case Session::LinkState::kUp:
      link.state = "up";
      break;
    case Session::LinkState::kRefused:
      link.state = "refused";
      break;
  }
  view.links.push_back(std::move(link));
}

}  // namespace twinblock
