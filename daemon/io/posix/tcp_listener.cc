#include "io/posix/tcp_listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
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
                         std::function<void(const std::string&, uint64_t)> refused)
    : network_(network),
      peer_(peer),
      accepted_(std::move(accepted)),
      refused_(std::move(refused)),
      look_(network.loop_.make_timer([this] { end_late_ones(); })),
      acceptor_(
          network.loop_, fd, kAcceptsPerTurn,
          [this](int socket, const TcpAddress& from) { take(socket, from); },
          [this](int error) { report(system_error(error, "can't accept connections").what); }) {}

void TcpListener::take(int fd, const TcpAddress& from) {
  if (!from.same_ip(peer_)) {
    ::close(fd);
    return report("a connection from " + from.text() + ", which is not the peer's address");
  }
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  auto connection = std::make_unique<TcpConnection>(network_, fd, false, from.text());
  if (network_.keys_ == nullptr) return accepted_(std::move(connection));
  if (unproven_.size() >= limits::kUnprovenConnectionsMax) {
    report(unproven_.front().address + " has not proven the key, and there are too many like it");
    unproven_.pop_front();
  }
  Unproven& who = unproven_.emplace_back(*this);
  connection->set_handler(&who);
  who.connection = std::move(connection);
  who.address = from.text().substr(0, from.text().rfind(':'));
  who.since_ns = monotonic_ns();
  if (!look_->armed()) look_->arm(limits::kHandshakeTimeout_ns);
}

std::list<TcpListener::Unproven>::iterator TcpListener::place_of(const Unproven& who) {
  return std::find_if(unproven_.begin(), unproven_.end(),
                      [&](const Unproven& each) { return &each == &who; });
}

void TcpListener::proven(Unproven& who) {
  std::unique_ptr<TcpConnection> connection = std::move(who.connection);
  unproven_.erase(place_of(who));
  accepted_(std::move(connection));
}

void TcpListener::lost(Unproven& who, const std::string& reason) {
  const std::string why = who.address + " " + reason;
  unproven_.erase(place_of(who));
  report(why);
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

void TcpListener::report(const std::string& why) {
  const uint64_t now_ns = monotonic_ns();
  if (now_ns < next_report_ns_) {
    ++unreported_;
    return;
  }
  next_report_ns_ = now_ns + kReportInterval_ns;
  refused_(why, std::exchange(unreported_, 0));
}

}  // namespace twinblock
