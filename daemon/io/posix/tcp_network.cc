#include "io/posix/tcp_network.h"

#include <netinet/in.h>
#include <linux/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/checks.h"
#include "io/posix/congestion.h"
#include "io/posix/link_host.h"
#include "io/posix/monotonic.h"
#include "io/posix/tcp_address.h"
#include "io/posix/tcp_connection.h"
#include "io/posix/tcp_listener.h"

namespace twinblock {
namespace {

// Who fills it keeps the peer out until the kernel has dropped a connection: longer than any burst.
constexpr int kListenBacklog = 1024;

// A non-blocking socket that is connecting to `peer` from the IP of `local`.
Result<int> start_connect(TcpAddress local, const TcpAddress& peer, const std::string& congestion) {
  const int fd = ::socket(peer.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return system_error(errno, "socket");
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  set_congestion(fd, congestion);
  // The port is chosen by connect(), which can share one among different peers.
  ::setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
  local.set_any_port();
  std::string what;
  if (::bind(fd, local.get(), local.length) != 0)
    what = "bind to " + local.text();
  else if (::connect(fd, peer.get(), peer.length) != 0 && errno != EINPROGRESS && errno != EINTR)
    what = "connect to " + peer.text();
  if (what.empty()) return fd;
  const int error = errno;
  ::close(fd);
  return system_error(error, what);
}

}  // namespace

TcpNetwork::TcpNetwork(Loop& loop, std::string congestion, std::shared_ptr<const LinkKeys> keys)
    : loop_(loop),
      congestion_(std::move(congestion)),
      keys_(std::move(keys)),
      interfaces_(
          loop, [this](unsigned index, const std::string& name) { interface_down(index, name); }) {
  loop_.attach(*this);
}

TcpNetwork::~TcpNetwork() {
  listeners_.clear();  // with those connections whose peer has not proven the key
  for (const TcpConnection* connection : connections_)
    TB_CHECK(connection == nullptr, "a connection outlives its network");
  loop_.detach(*this);
}

void TcpNetwork::set_keys(std::shared_ptr<const LinkKeys> keys, uint64_t pinned_ns) {
  TB_CHECK(keys_ != nullptr && keys != nullptr, "links are encrypted from the start or never");
  keys_ = std::move(keys);
  pinned_until_ns_ = pinned_ns == 0 ? 0 : monotonic_ns() + pinned_ns;
}

void TcpNetwork::prefer_key(const std::string& fingerprint) {
  if (keys_->front().fingerprint == fingerprint || monotonic_ns() < pinned_until_ns_) return;
  LinkKeys keys = *keys_;
  std::stable_partition(keys.begin(), keys.end(),
                        [&](const LinkKey& key) { return key.fingerprint == fingerprint; });
  keys_ = std::make_shared<const LinkKeys>(std::move(keys));
}

std::unique_ptr<Connection> TcpNetwork::dial(const LinkAddresses& link) {
  const auto local = parse_tcp_address(link.local);
  const auto peer = parse_tcp_address(link.peer);
  Result<int> fd = !local.ok()  ? local.error()
                   : !peer.ok() ? peer.error()
                                : start_connect(local.value(), peer.value(), congestion_);
  auto connection =
      std::make_unique<TcpConnection>(*this, fd.ok() ? fd.value() : -1, true, link.peer);
  if (!fd.ok()) {
    connection->fail(fd.error().what);
    loop_.nudge();
  }
  return connection;
}

Status TcpNetwork::listen(const LinkAddresses& link,
                          std::function<void(std::unique_ptr<Connection>)> accepted,
                          std::function<void(const Refusal&)> refused) {
  const auto local = parse_tcp_address(link.local);
  if (!local.ok()) return local.error();
  const auto peer = parse_tcp_address(link.peer);
  if (!peer.ok()) return peer.error();
  const TcpAddress& address = local.value();
  const int fd = ::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return system_error(errno, "socket");
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  set_congestion(fd, congestion_);  // of what is accepted, too
  if (address.family() == AF_INET6) ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (::bind(fd, address.get(), address.length) != 0 || ::listen(fd, kListenBacklog) != 0) {
    const int error = errno;
    ::close(fd);
    std::string action;
    if (error == EADDRINUSE)
      action = "stop what listens there, or give link \"" + link.name + "\" another port";
    if (error == EADDRNOTAVAIL) action = "link \"" + link.name + "\" needs an address of this host";
    return system_error(error, "listen on " + link.local, action);
  }
  listeners_.emplace_back(
      link.name, std::make_unique<TcpListener>(*this, fd, peer.value(), std::move(accepted),
                                               std::move(refused)));
  return ok_status();
}

LinkHost TcpNetwork::host_of(const LinkAddresses& link) const {
  const auto local = parse_tcp_address(link.local);
  return local ? link_host_of(local.value(), congestion_.empty() ? kCongestionDefault : congestion_)
               : LinkHost{};
}

void TcpNetwork::unlisten(const std::string& link) {
  std::erase_if(listeners_, [&](const auto& each) { return each.first == link; });
}

void TcpNetwork::interface_down(unsigned index, const std::string& name) {
  for (TcpConnection* connection : connections_)
    if (connection != nullptr && connection->interface_index() == index)
      connection->fail("the interface " + name + " is down");
}

void TcpNetwork::flush_sends() {
  for (TcpConnection* connection : connections_)
    if (connection != nullptr && connection->wants_flush()) connection->flush();
}

void TcpNetwork::deliver() {
  // By index: a handler may dial again, or destroy any connection.
  for (size_t i = 0; i < connections_.size(); ++i) {
    if (connections_[i] != nullptr && connections_[i]->has_unread()) connections_[i]->read_on();
    if (connections_[i] != nullptr && connections_[i]->failed()) connections_[i]->deliver_failure();
  }
  std::erase(connections_, nullptr);
}

bool TcpNetwork::pending() const {
  return std::any_of(connections_.begin(), connections_.end(), [](const TcpConnection* c) {
    return c != nullptr && (c->failed() || c->wants_flush() || c->has_unread());
  });
}

}  // namespace twinblock
