#include "io/posix/stream_state.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/units.h"

namespace twinblock {
namespace {

uint64_t buffer_bytes(int fd, int which) {
  int bytes = 0;
  socklen_t length = sizeof bytes;
  // The kernel counts what it keeps beside the data, too.
  return ::getsockopt(fd, SOL_SOCKET, which, &bytes, &length) == 0 && bytes > 0
             ? static_cast<uint64_t>(bytes)
             : 0;
}

}  // namespace

std::optional<StreamState> stream_state_of(int fd) {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (fd < 0 || ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return std::nullopt;
  StreamState state;
  state.round_trip_ns = info.tcpi_rtt * kMicrosecond_ns;
  state.round_trip_min_ns = info.tcpi_min_rtt * kMicrosecond_ns;
  state.segment_bytes = info.tcpi_snd_mss;
  state.window_bytes = uint64_t{info.tcpi_snd_cwnd} * info.tcpi_snd_mss;
  state.peer_window_bytes = info.tcpi_snd_wnd;
  state.send_buffer_bytes = buffer_bytes(fd, SO_SNDBUF);
  state.receive_buffer_bytes = buffer_bytes(fd, SO_RCVBUF);
  state.acked_bytes = info.tcpi_bytes_acked;
  state.retransmitted = info.tcpi_total_retrans;
  state.busy_ns = info.tcpi_busy_time * kMicrosecond_ns;
  state.peer_window_ns = info.tcpi_rwnd_limited * kMicrosecond_ns;
  state.send_buffer_ns = info.tcpi_sndbuf_limited * kMicrosecond_ns;
  return state;
}

}  // namespace twinblock
