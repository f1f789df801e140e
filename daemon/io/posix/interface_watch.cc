#include "io/posix/interface_watch.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "io/posix/interface_addresses.h"

namespace twinblock {
namespace {

constexpr size_t kBufferBytes = 32768;  // as rtnetlink(7) advises
constexpr int kReadsPerEvent = 16;

std::string name_in(const nlmsghdr* message) {
  const auto* link = static_cast<const ifinfomsg*>(NLMSG_DATA(message));
  int left = static_cast<int>(IFLA_PAYLOAD(message));
  for (const rtattr* attribute = IFLA_RTA(link); RTA_OK(attribute, left);
       attribute = RTA_NEXT(attribute, left))
    if (attribute->rta_type == IFLA_IFNAME) return static_cast<const char*>(RTA_DATA(attribute));
  return std::to_string(link->ifi_index);
}

}  // namespace

InterfaceWatch::InterfaceWatch(Loop& loop, std::function<void(unsigned, const std::string&)> down)
    : down_(std::move(down)) {
  fd_ = ::socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (fd_ < 0) return;
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK;
  if (::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return;
  watcher_ = std::make_unique<IoWatcher>(loop, fd_, EV_READ, [this] { read_some(); });
  watcher_->start();
}

InterfaceWatch::~InterfaceWatch() {
  watcher_.reset();
  if (fd_ >= 0) ::close(fd_);
}

void InterfaceWatch::read_some() {
  alignas(nlmsghdr) std::array<char, kBufferBytes> buffer;
  for (int i = 0; i < kReadsPerEvent; ++i) {
    // What overruns the socket's buffer is lost; silence tells then.
    const ssize_t got = ::recv(fd_, buffer.data(), buffer.size(), 0);
    if (got <= 0) return;
    auto left = static_cast<unsigned>(got);
    for (const auto* message = reinterpret_cast<const nlmsghdr*>(buffer.data());
         NLMSG_OK(message, left); message = NLMSG_NEXT(message, left)) {
      if (message->nlmsg_type != RTM_NEWLINK && message->nlmsg_type != RTM_DELLINK) continue;
      const auto* link = static_cast<const ifinfomsg*>(NLMSG_DATA(message));
      const bool carries = message->nlmsg_type == RTM_NEWLINK && (link->ifi_flags & IFF_UP) != 0 &&
                           (link->ifi_flags & IFF_RUNNING) != 0;
      if (!carries) down_(static_cast<unsigned>(link->ifi_index), name_in(message));
    }
  }
}

unsigned interface_of(int fd) {
  TcpAddress local;
  local.length = sizeof local.storage;
  if (::getsockname(fd, local.get(), &local.length) != 0) return 0;
  const std::string name = interface_with(interface_addresses(), local);
  return name.empty() ? 0 : ::if_nametoindex(name.c_str());
}

}  // namespace twinblock
