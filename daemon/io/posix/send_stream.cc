#include "io/posix/send_stream.h"

#include <algorithm>

#include "io/posix/monotonic.h"

namespace twinblock {

bool SendStream::sample_next() {
  // Where it begins in the stream is known when it is sealed.
  if (!times_.sample(tls_ != nullptr ? SocketTimes::kLater : queued_bytes_)) return false;
  if (tls_ != nullptr) sealed_.sample(queued_bytes_);
  return true;
}

// Frames into records, up to what a socket takes at a time. A sampled frame's head has one of its
// own.
void SendStream::seal(std::span<std::byte> room) {
  const uint64_t began_ns = monotonic_ns();
  while (tls_->done() && !queue_.empty() && tls_->sealed().size() < kSealedBytesMax) {
    const size_t most =
        sealed_.record_bytes(SocketTimes::kSampleBytes, TlsSession::kRecordBytesMax);
    const std::span<const std::byte> plain = queue_.front(most, room);
    const uint64_t begin = tls_->sealed_bytes_total();
    if (!tls_->seal(plain)) return;
    const uint64_t end = tls_->sealed_bytes_total();
    if (sealed_.sample_is_next()) times_.sample_begins(begin, end - begin);
    sealed_.sealed(plain.size(), end);
    queue_.consume(plain.size());
  }
  const uint64_t took_ns = monotonic_ns() - began_ns;
  cipher_ns_ += took_ns;
  sealing_ns_ += took_ns;
}

size_t SendStream::gather(std::span<iovec> out, std::span<std::byte> room, size_t bytes_max) {
  if (tls_ == nullptr) return queue_.gather(out, times_.bytes_allowed(stream_bytes_, bytes_max));
  seal(room);
  const std::span<const std::byte> sealed = tls_->sealed();
  const size_t bytes = std::min(sealed.size(), times_.bytes_allowed(stream_bytes_, bytes_max));
  out[0] = iovec{const_cast<std::byte*>(sealed.data()), bytes};
  return bytes > 0 ? 1 : 0;
}

bool SendStream::goes_on_behind(size_t offered_bytes) const {
  if (tls_ != nullptr) return tls_->sealed().size() > offered_bytes || !queue_.empty();
  return sent_bytes_ + offered_bytes < queued_bytes_;
}

void SendStream::taken(size_t bytes, size_t offered_bytes, uint64_t now_ns, bool sample) {
  stream_bytes_ += bytes;
  if (tls_ == nullptr) {
    queue_.consume(bytes);
    sent_bytes_ += bytes;
  } else {
    tls_->sent(bytes);
    sent_bytes_ = sealed_.sent(stream_bytes_).value_or(sent_bytes_);
  }
  if (bytes > 0)
    times_.sent(stream_bytes_, {sent_bytes_, full_since_ns_ != 0 ? full_since_ns_ : now_ns, sealing_ns_},
                now_ns, sample);
  if (tls_ != nullptr && tls_->sealed().empty()) sealing_ns_ = 0;
  if (bytes < offered_bytes && full_since_ns_ == 0) full_since_ns_ = now_ns;
  if (all_taken()) full_since_ns_ = 0;
}

}  // namespace twinblock
