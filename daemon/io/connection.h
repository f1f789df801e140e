// A byte stream to the peer (TCP in production) and the network that makes such streams.
// Implemented by io/posix and by the simulator. Loop thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"

namespace twinblock {

// When the first bytes of a frame got on, as the kernel says; on the Clock.
struct SendMoments {
  uint64_t taken_ns = 0;         // the kernel took them from us
  uint64_t queued_ns = 0;        // … and gave them to the queue of the network device
  uint64_t sent_ns = 0;          // … and, behind that, to the device
  uint64_t acknowledged_ns = 0;  // the peer's kernel has acknowledged them; 0: not yet
  // What lay in the socket then, and had not gone to the device yet: they had to wait for that.
  uint64_t ahead_bytes = 0;
  // … and the peer's kernel had not the room that it once had, which held things up: the peer reads
  // more slowly than the link carries.
  bool peer_full = false;
};

// What the kernel knows of a stream that has something to send. Source: struct tcp_info of linux/tcp.h.
struct StreamState {
  uint64_t round_trip_ns = 0;  // smoothed
  uint64_t round_trip_min_ns = 0;
  uint32_t segment_bytes = 0;      // payload of one packet
  uint64_t window_bytes = 0;       // that may be under way, by the congestion control …
  uint64_t peer_window_bytes = 0;  // … and by the receiver
  uint64_t send_buffer_bytes = 0;
  uint64_t receive_buffer_bytes = 0;
  uint64_t acked_bytes = 0;     // by the peer's host, so far
  uint64_t retransmitted = 0;   // packets, so far
  uint64_t busy_ns = 0;         // it had something to send, so far; of that …
  uint64_t peer_window_ns = 0;  // … the receiver's window held it up
  uint64_t send_buffer_ns = 0;  // … and the size of its own buffer did
};

// Callbacks of one connection. Any of them may destroy the connection.
class ConnectionHandler {
 public:
  virtual ~ConnectionHandler() = default;
  // A dialled connection is up, and the peer has proven the key, where there is one (an accepted one
  // is so from the start).
  virtual void connected() = 0;
  // Bytes may be there: read() until it returns 0. Level-triggered: called again while any are
  // left.
  virtual void readable() = 0;
  // The stream has ended or failed; `reason` is a phrase such as "Connection reset by peer".
  // Bytes still unread are lost. Called at most once, never from within send() or close().
  virtual void closed(const std::string& reason) = 0;
  // The frame for which sample_next() was asked has gone; again, when it is acknowledged.
  virtual void sampled(const SendMoments&) {}
};

class Connection {
 public:
  // Closes; queued bytes that the kernel has not taken are dropped.
  virtual ~Connection() = default;
  // Must be set before control returns to the loop after dial() or accept; not owned.
  virtual void set_handler(ConnectionHandler* handler) = 0;
  // Up to into.size() bytes; 0 when there are none now (or the stream has ended: closed() follows).
  virtual size_t read(std::span<std::byte> into) = 0;
  // Queues `head` (copied) and `body` (referenced: must stay valid until sent_bytes() has passed it
  // or the connection is destroyed). Everything queued in one turn of the loop goes out in as few
  // system calls as possible when the turn ends.
  virtual void send(std::span<const std::byte> head, std::span<const std::byte> body = {}) = 0;
  // While paused, readable() is not called: backpressure to the peer through the stream's window.
  virtual void pause_reading(bool paused) = 0;
  // Bytes that were given to send() since the start, and those of them that the kernel has taken.
  [[nodiscard]] virtual uint64_t queued_bytes_total() const = 0;
  [[nodiscard]] virtual uint64_t sent_bytes_total() const = 0;
  // Asks the kernel for the moments of the frame that send() is given next; false: it can't tell
  // them, or those of an earlier frame are still to come.
  virtual bool sample_next() { return false; }
  // When the kernel took the byte at `offset` of what was sent, or would have taken it but for a
  // socket that was full; 0: not known, or too long ago.
  [[nodiscard]] virtual uint64_t taken_ns(uint64_t /*offset*/) const { return 0; }
  // How long encryption held up the byte at `offset` before that, with what went along with it; 0: not
  // at all, not known, or too long ago.
  [[nodiscard]] virtual uint64_t sealing_ns(uint64_t /*offset*/) const { return 0; }
  // When the last byte that read() gave came into this host's kernel; 0: not known. Of bytes that
  // others joined in the socket, the kernel only knows when the last of them came.
  [[nodiscard]] virtual uint64_t arrived_ns() const { return 0; }
  // "10.10.0.2:7700", for logs.
  [[nodiscard]] virtual std::string peer_address() const = 0;
  // Somebody has taken the connection, though he may not have proven the key: then connected() has
  // not been called yet.
  [[nodiscard]] virtual bool reached() const { return false; }
  // What keeps others out: "TLS 1.3, AES-128-GCM, key 9f86-d081-884c-7d65"; empty: nothing.
  [[nodiscard]] virtual std::string protection() const { return {}; }
  // The key that the peer has proven is none of this node's any more: it was dropped since.
  [[nodiscard]] virtual bool key_dropped() const { return false; }
  // Nothing: nobody knows.
  [[nodiscard]] virtual std::optional<StreamState> stream() const { return std::nullopt; }
  // What this thread has spent on encryption for it, so far; 0 without.
  [[nodiscard]] virtual uint64_t cipher_ns() const { return 0; }
};

// The two ends of one link as this node sees it. Addresses are numeric "IP:port" ("[v6]:port").
struct LinkAddresses {
  std::string name;
  std::string local;
  std::string peer;
};

// What a host's settings say of its end of a link, and what its interface has counted. 0 and empty: not
// known.
struct LinkHost {
  std::string interface;
  std::string congestion;
  uint64_t rate_bits_per_s = 0;
  uint64_t receive_buffer_max_bytes = 0;  // that a socket's may grow to
  uint64_t send_buffer_max_bytes = 0;
  uint64_t receive_errors = 0;  // frames
  uint64_t send_errors = 0;
  uint64_t dropped = 0;
  uint64_t collisions = 0;
  uint32_t mtu_bytes = 0;
  bool half_duplex = false;
};

// Somebody was not let in.
struct Refusal {
  std::string why;                  // "10.10.0.2 does not prove …"
  bool from_peers_address = false;  // or from nobody knows where: it may be the peer
  uint64_t more = 0;                // that were not reported since the last one
};

class Network {
 public:
  virtual ~Network() = default;
  // Connects from the link's local IP (any port) to its peer address. Never null; failure arrives
  // as closed().
  [[nodiscard]] virtual std::unique_ptr<Connection> dial(const LinkAddresses& link) = 0;
  // Listens on the link's local address and hands over connections that come from the peer's IP and
  // have proven the key, where there is one; others are closed, and reported, though not each.
  virtual Status listen(const LinkAddresses& link,
                        std::function<void(std::unique_ptr<Connection>)> accepted,
                        std::function<void(const Refusal&)> refused) = 0;
  [[nodiscard]] virtual LinkHost host_of(const LinkAddresses& /*link*/) const { return {}; }
  // Listens on this link no more; what was accepted goes on.
  virtual void unlisten(const std::string& link) = 0;
};

}  // namespace twinblock
