#include "io/posix/tcp_listener.h"

#include <netinet/in.h>
#include <linux/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "io/posix/monotonic.h"
#include "io/posix/tcp_connection.h"

namespace twinblock {

TcpListener::~TcpListener() = default;

TcpListener::TcpListener(TcpNetwork& network, int fd, TcpAddress peer,
                         std::function<void(std::unique_ptr<Connection>)> accepted,
                         std::function<void(const Refusal&)> refused)
    : network_(network),
      peer_(peer),
      accepted_(std::move(accepted)),
      refused_(std::move(refused)),
      look_(network.loop_.make_timer([this] { end_late_ones(); })),
      acceptor_(
          network.loop_, fd, kAcceptsPerTurn,
          [this](int socket, const TcpAddress& from) { take(socket, from); },
          [this](int error) {
            report(of_peer_, system_error(error, "can't accept connections").what);
          }) {}

void TcpListener::take(int fd, const TcpAddress& from) {
  if (!from.same_ip(peer_)) {
    ::close(fd);
    return report(of_strangers_, "a connection from " + from.ip_text() + ", which is not the peer's address");
  }
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  auto connection = std::make_unique<TcpConnection>(network_, fd, false, from.text());
  if (network_.keys_ == nullptr) return accepted_(std::move(connection));
  if (unproven_.size() >= limits::kUnprovenConnectionsMax) {
    const auto first = least_known();
    report(of_peer_, first->address + " has not proven the key, and there are too many like it");
    unproven_.erase(first);
  }
  Unproven& who = unproven_.emplace_back(*this);
  connection->set_handler(&who);
  who.connection = std::move(connection);
  who.address = from.ip_text();
  who.since_ns = monotonic_ns();
  if (!look_->armed()) look_->arm(limits::kHandshakeTimeout_ns);
}

std::list<TcpListener::Unproven>::iterator TcpListener::place_of(const Unproven& who) {
  return std::find_if(unproven_.begin(), unproven_.end(),
                      [&](const Unproven& each) { return &each == &who; });
}

// Who has shown nothing of a key yet, whatever he has said; else who has been here for longest.
std::list<TcpListener::Unproven>::iterator TcpListener::least_known() {
  const auto anybody = std::find_if(unproven_.begin(), unproven_.end(),
                                    [](const Unproven& each) { return !each.connection->hello_holds(); });
  return anybody != unproven_.end() ? anybody : unproven_.begin();
}

void TcpListener::proven(Unproven& who) {
  std::unique_ptr<TcpConnection> connection = std::move(who.connection);
  unproven_.erase(place_of(who));
  accepted_(std::move(connection));
}

void TcpListener::lost(Unproven& who, const std::string& reason) {
  const std::string why = who.address + " " + reason;
  unproven_.erase(place_of(who));
  report(of_peer_, why);
}

void TcpListener::end_late_ones() {
  const uint64_t now_ns = monotonic_ns();
  uint64_t left_ns = 0;
  for (Unproven& who : unproven_) {
    const uint64_t age_ns = now_ns - who.since_ns;
    if (age_ns < limits::kHandshakeTimeout_ns) {
      left_ns = limits::kHandshakeTimeout_ns - age_ns;
      break;
    }
    who.connection->give_up_waiting();  // lost() follows
  }
  if (!unproven_.empty()) look_->arm(left_ns > 0 ? left_ns : limits::kHandshakeTimeout_ns);
}

void TcpListener::report(Reports& reports, const std::string& why) {
  const uint64_t now_ns = monotonic_ns();
  if (now_ns < reports.next_ns) {
    ++reports.untold;
    return;
  }
  reports.next_ns = now_ns + kReportInterval_ns;
  refused_({why, reports.from_peers_address, std::exchange(reports.untold, 0)});
}

}  // namespace twinblock
