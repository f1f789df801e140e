#include "io/posix/socket_times.h"

#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/units.h"
#include "io/posix/monotonic.h"

namespace twinblock {
namespace {

// The two clocks were read one after the other: by less they may differ from what they did before.
constexpr uint64_t kWasSet_ns = 1 * kMillisecond_ns;

// The software time in a control message; false: it is none.
bool stamp_in(const cmsghdr& head, timespec& stamp) {
  if (head.cmsg_level != SOL_SOCKET || head.cmsg_type != SCM_TIMESTAMPING) return false;
  scm_timestamping times{};
  std::memcpy(&times, CMSG_DATA(&head), sizeof times);
  stamp = times.ts[0];
  return stamp.tv_sec != 0 || stamp.tv_nsec != 0;
}

// How far the wall clock is ahead of ours. The two can't be read at one moment, and a thread that
// loses its processor in between would be wrong by milliseconds: of a few readings the quickest.
uint64_t wall_ahead_ns() {
  constexpr int kReadings = 5;
  constexpr uint64_t kQuick_ns = 1 * kMicrosecond_ns;
  uint64_t quickest_ns = UINT64_MAX;
  uint64_t ahead_ns = 0;
  for (int i = 0; i < kReadings && quickest_ns > kQuick_ns; ++i) {
    const uint64_t before = monotonic_ns();
    const uint64_t wall = clock_ns(CLOCK_REALTIME);
    const uint64_t took_ns = monotonic_ns() - before;
    if (took_ns >= quickest_ns) continue;
    quickest_ns = took_ns;
    ahead_ns = wall - (before + took_ns / 2);
  }
  return ahead_ns;
}

}  // namespace

// The kernel's times are of the host's wall clock. How far that is from ours is looked up now and then, and at once
// when it was set, which a quick look tells.
uint64_t SocketTimes::on_our_clock(const timespec& stamp) {
  const uint64_t ahead_ns = clock_ns(CLOCK_REALTIME) - monotonic_ns();
  const auto [least, most] = std::minmax(ahead_ns, wall_ahead_ns_);
  if (lookups_++ % kLookupsPerClock == 0 || most - least > kWasSet_ns) wall_ahead_ns_ = wall_ahead_ns();
  const uint64_t at_ns =
      static_cast<uint64_t>(stamp.tv_sec) * kSecond_ns + static_cast<uint64_t>(stamp.tv_nsec);
  return at_ns - std::min(at_ns, wall_ahead_ns_);
}

void SocketTimes::enable(int fd) {
  const int flags = SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_RX_SOFTWARE |
                    SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_OPT_TSONLY;
  enabled_ = ::setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof flags) == 0;
}

ssize_t SocketTimes::receive(int fd, std::span<std::byte> into) {
  if (!enabled_) return ::recv(fd, into.data(), into.size(), 0);
  iovec vector{into.data(), into.size()};
  alignas(cmsghdr) std::array<char, 256> control;
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t n = ::recvmsg(fd, &message, 0);
  if (n <= 0) return n;
  timespec stamp{};
  arrived_ns_ = 0;
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head))
    if (stamp_in(*head, stamp)) arrived_ns_ = on_our_clock(stamp);
  return n;
}

bool SocketTimes::sample(uint64_t offset) {
  // A device that does not tell when it sends must not end the sampling.
  if (!enabled_ || wanted_ || (expected_ && unacknowledged_)) return false;
  wanted_ = true;
  sample_begins(offset, kSampleBytes);
  moments_ = {};
  return true;
}

void SocketTimes::sample_begins(uint64_t offset, size_t bytes) {
  begin_ = offset;
  sample_bytes_ = bytes;
}

size_t SocketTimes::bytes_allowed(uint64_t sent, size_t wanted) const {
  if (!wanted_) return wanted;
  const uint64_t until = sent < begin_ ? begin_ - sent : sample_bytes_;
  return std::min<uint64_t>(wanted, until);
}

void SocketTimes::ask(msghdr& message, Room& room) {
  message.msg_control = room.bytes.data();
  message.msg_controllen = room.bytes.size();
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SO_TIMESTAMPING;
  head->cmsg_len = CMSG_LEN(sizeof(uint32_t));
  const uint32_t what =
      SOF_TIMESTAMPING_TX_SCHED | SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_TX_ACK;
  std::memcpy(CMSG_DATA(head), &what, sizeof what);
}

void SocketTimes::look_ahead(int fd) {
  int unsent = 0;
  if (::ioctl(fd, SIOCOUTQNSD, &unsent) == 0)
    moments_.ahead_bytes = static_cast<uint64_t>(std::max(unsent, 0));
  tcp_info info{};
  socklen_t length = sizeof info;
  const bool told = ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
                    length >= offsetof(tcp_info, tcpi_snd_wnd) + sizeof info.tcpi_snd_wnd;
  if (!told) return;  // an older kernel
  // A window that is small need not have been in the way, and on a line that holds much one that is
  // large may be: only both together say that the peer does not read.
  const bool in_the_way = info.tcpi_rwnd_limited > std::exchange(window_waits_us_,
                                                                info.tcpi_rwnd_limited);
  window_max_bytes_ = std::max(window_max_bytes_, info.tcpi_snd_wnd);
  moments_.peer_full = in_the_way && info.tcpi_snd_wnd < window_max_bytes_ - window_max_bytes_ / 4;
}

void SocketTimes::sent(uint64_t sent, const Mark& mark, uint64_t now_ns, bool asked) {
  marks_[marks_total_++ % kMarks] = mark;
  if (!asked) return;
  wanted_ = false;
  expected_ = unacknowledged_ = asked_ = true;
  key_ = static_cast<uint32_t>(sent - 1);  // bytes are numbered from the connection's first one
  moments_.taken_ns = now_ns;
}

SocketTimes::Mark SocketTimes::mark_of(uint64_t offset) const {
  uint64_t low = marks_total_ > kMarks ? marks_total_ - kMarks : 0;
  uint64_t high = marks_total_;
  const auto end_of = [this](uint64_t number) { return marks_[number % kMarks].end; };
  // What went before the oldest mark may have gone much earlier.
  if (low == high || (low > 0 && end_of(low) > offset)) return {};
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (end_of(middle) > offset)
      high = middle;
    else
      low = middle + 1;
  }
  return low < marks_total_ ? marks_[low % kMarks] : Mark{};
}

void SocketTimes::note(uint32_t kind, uint64_t at_ns) {
  if (kind == SCM_TSTAMP_SCHED)
    moments_.queued_ns = at_ns;
  else if (kind == SCM_TSTAMP_SND)
    moments_.sent_ns = at_ns;
  else if (kind == SCM_TSTAMP_ACK)
    moments_.acknowledged_ns = at_ns;
}

bool SocketTimes::collect(int fd) { return (expected_ || unacknowledged_) && take_in(fd); }

bool SocketTimes::collect_leftovers(int fd) { return asked_ && take_in(fd); }

bool SocketTimes::take_in(int fd) {
  bool told = false;
  for (;;) {
    alignas(cmsghdr) std::array<char, 512> control;
    msghdr message{};
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    if (::recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) {
      if (errno == EINTR) continue;
      break;
    }
    timespec stamp{};
    sock_extended_err error{};
    bool stamped = false;
    for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
         head = CMSG_NXTHDR(&message, head)) {
      stamped = stamp_in(*head, stamp) || stamped;
      if ((head->cmsg_level == IPPROTO_IP && head->cmsg_type == IP_RECVERR) ||
          (head->cmsg_level == IPPROTO_IPV6 && head->cmsg_type == IPV6_RECVERR))
        std::memcpy(&error, CMSG_DATA(head), sizeof error);
    }
    const bool expected = error.ee_data == key_ && !wanted_;
    if (stamped && error.ee_origin == SO_EE_ORIGIN_TIMESTAMPING && expected)
      note(error.ee_info, on_our_clock(stamp));
    told = true;
  }
  if (wanted_) return false;  // moments() are the next sample's, which has not gone yet
  if (moments_.queued_ns == 0 || moments_.sent_ns == 0) {
    unacknowledged_ = moments_.acknowledged_ns == 0;
    return false;
  }
  const bool left_now = std::exchange(expected_, false);
  const bool acknowledged_now = unacknowledged_ && moments_.acknowledged_ns != 0;
  unacknowledged_ = unacknowledged_ && !acknowledged_now;
  return told && (left_now || acknowledged_now);
}

}  // namespace twinblock
