// What one connection has yet to send, and how far its socket has taken that: the frames as they were
// queued or, with keys, the records that they are sealed into. Its owner has the socket. Internal to
// io/posix; loop only.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/units.h"
#include "io/posix/sealed_frames.h"
#include "io/posix/send_queue.h"
#include "io/posix/socket_times.h"
#include "io/posix/tls_session.h"

namespace twinblock {

class SendStream {
 public:
  // With keys, a socket takes so many bytes of frames at a time.
  static constexpr size_t kSealedBytesMax = 256 * kKiB;

  // `times` learns of what goes out, and says where a call has to end.
  explicit SendStream(SocketTimes& times) : times_(times) {}

  // Frames are sealed, as soon as the handshake is done; before any is.
  void seal_with(TlsSession& tls) { tls_ = &tls; }
  // As Connection::send().
  void queue(std::span<const std::byte> head, std::span<const std::byte> body) {
    queued_bytes_ += head.size() + body.size();
    if (!over_) queue_.add(head, body);
  }
  // What was queued is forgotten; what still is, is only counted.
  void end() {
    over_ = true;
    queue_.clear();
  }
  bool sample_next();

  [[nodiscard]] uint64_t queued_bytes_total() const { return queued_bytes_; }
  [[nodiscard]] uint64_t sent_bytes_total() const { return sent_bytes_; }
  // What sealing took.
  [[nodiscard]] uint64_t cipher_ns() const { return cipher_ns_; }

  // Whether the socket may have something.
  [[nodiscard]] bool due() const {
    if (tls_ == nullptr) return !queue_.empty();
    return !tls_->sealed().empty() || (tls_->done() && !queue_.empty());
  }
  // What goes next, about bytes_max bytes: how many of these iovecs. A record is put together in `room`. Where
  // one can't be sealed, TlsSession::error() says why, and what was sealed before it is the last that goes.
  size_t gather(std::span<iovec> out, std::span<std::byte> room, size_t bytes_max);
  // Of that, with so many bytes: whether it begins with a sample, …
  [[nodiscard]] bool sample_due() const { return times_.sample_due(stream_bytes_); }
  // … and whether more is to follow.
  [[nodiscard]] bool goes_on_behind(size_t offered_bytes) const;
  // The socket, asked at `now_ns`, has taken so many bytes of it; fewer than all: it is full.
  void taken(size_t bytes, size_t offered_bytes, uint64_t now_ns, bool sample);

 private:
  void seal(std::span<std::byte> room);
  [[nodiscard]] bool all_taken() const {
    return queue_.empty() && (tls_ == nullptr || tls_->sealed().empty());
  }

  SocketTimes& times_;
  TlsSession* tls_ = nullptr;
  SendQueue queue_;
  bool over_ = false;
  uint64_t queued_bytes_ = 0;
  uint64_t sent_bytes_ = 0;     // of those
  uint64_t stream_bytes_ = 0;   // that the socket took: the same, if nothing is encrypted
  uint64_t full_since_ns_ = 0;  // the socket has not taken all that was queued since; 0: it has
  // With keys only.
  SealedFrames sealed_;
  uint64_t cipher_ns_ = 0;
  uint64_t sealing_ns_ = 0;  // of what the socket has not taken in full
};

}  // namespace twinblock
