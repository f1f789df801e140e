#include "io/posix/tcp_connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/checks.h"
#include "io/posix/interface_watch.h"
#include "io/posix/monotonic.h"

namespace twinblock {
namespace {

std::string phrase(int code) { return system_error(code, "").what.substr(2); }

}  // namespace

TcpConnection::TcpConnection(TcpNetwork& network, int fd, bool dialling, std::string peer)
    : network_(network),
      peer_(std::move(peer)),
      fd_(fd),
      state_(dialling ? State::kConnecting : State::kUp) {
  network_.connections_.push_back(this);
  if (fd_ < 0) return;
  reader_ = std::make_unique<IoWatcher>(network_.loop_, fd_, EV_READ, [this] { woken(); });
  writer_ = std::make_unique<IoWatcher>(network_.loop_, fd_, EV_WRITE, [this] { writable(); });
  if (dialling) {
    writer_->start();
  } else {
    interface_ = interface_of(fd_);
    times_.enable(fd_);
  }
  update_reader();
}

TcpConnection::~TcpConnection() {
  std::replace(network_.connections_.begin(), network_.connections_.end(), this,
               static_cast<TcpConnection*>(nullptr));
  reader_.reset();
  writer_.reset();
  if (fd_ >= 0) ::close(fd_);
}

// Runs `call` with the handler; false when that has destroyed this.
template <typename Call>
bool TcpConnection::call(Call&& call) {
  TB_CHECK(handler_ != nullptr, "a connection without a handler");
  const Lifetime::Watch watch(lifetime_);
  call(*handler_);
  return !watch.ended();
}

// There are bytes to read, or the kernel has something to tell.
void TcpConnection::woken() {
  if (times_.collect(fd_) &&
      !call([this](ConnectionHandler& handler) { handler.sampled(times_.moments()); }))
    return;
  if (state_ != State::kUp || paused_) return;
  drained_ = false;
  call([](ConnectionHandler& handler) { handler.readable(); });
}

size_t TcpConnection::read(std::span<std::byte> into) {
  // A short read has emptied the socket: asking again in the same event would only cost a call.
  // What arrives meanwhile makes an event of its own.
  if (state_ != State::kUp || drained_ || into.empty()) return 0;
  ssize_t n = 0;
  do n = times_.receive(fd_, into);
  while (n < 0 && errno == EINTR);
  if (n > 0) {
    drained_ = static_cast<size_t>(n) < into.size();
    return static_cast<size_t>(n);
  }
  drained_ = true;
  if (n == 0)
    fail("closed by the peer");
  else if (errno != EAGAIN && errno != EWOULDBLOCK)
    fail(phrase(errno));
  return 0;
}

void TcpConnection::send(std::span<const std::byte> head, std::span<const std::byte> body) {
  queued_bytes_ += head.size() + body.size();
  if (state_ == State::kConnecting || state_ == State::kUp) queue_.add(head, body);
}

void TcpConnection::pause_reading(bool paused) {
  paused_ = paused;
  update_reader();
}

void TcpConnection::update_reader() {
  if (reader_ == nullptr) return;
  if (state_ == State::kUp && !paused_)
    reader_->start();
  else
    reader_->stop();
}

void TcpConnection::fail(std::string reason) {
  if (state_ == State::kFailed || state_ == State::kClosed) return;
  state_ = State::kFailed;
  reason_ = std::move(reason);
  queue_.clear();
  if (reader_ != nullptr) reader_->stop();
  if (writer_ != nullptr) writer_->stop();
}

void TcpConnection::deliver_failure() {
  state_ = State::kClosed;
  call([reason = reason_](ConnectionHandler& handler) { handler.closed(reason); });
}

bool TcpConnection::wants_flush() const {
  return state_ == State::kUp && !queue_.empty() && !writer_->active();
}

void TcpConnection::flush() {
  size_t left = kSendBytesPerTurn;
  while (wants_flush() && left > 0) {
    msghdr message{};
    message.msg_iov = network_.vectors_.data();
    message.msg_iovlen = queue_.gather(network_.vectors_, times_.bytes_allowed(sent_bytes_, left));
    size_t offered = 0;
    for (size_t i = 0; i < message.msg_iovlen; ++i) offered += network_.vectors_[i].iov_len;
    const bool asks = times_.sample_due(sent_bytes_);
    SocketTimes::Room room;
    if (asks) {
      SocketTimes::ask(message, room);
      times_.look_ahead(fd_);
    }
    // What follows a sampled head goes with it.
    const int more = asks && sent_bytes_ + offered < queued_bytes_ ? MSG_MORE : 0;
    // Before: on a fast link the answer may be there when the call returns.
    const uint64_t now_ns = monotonic_ns();
    const ssize_t n = ::sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT | more);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS)
      return fail(phrase(errno));
    const size_t taken = n < 0 ? 0 : static_cast<size_t>(n);
    queue_.consume(taken);
    sent_bytes_ += taken;
    left -= taken;
    if (taken > 0) times_.sent(sent_bytes_, now_ns, full_since_ns_, asks);
    if (taken < offered) {  // the socket is full
      writer_->start();
      if (full_since_ns_ == 0) full_since_ns_ = now_ns;
    }
  }
  if (queue_.empty()) full_since_ns_ = 0;
}

void TcpConnection::writable() {
  if (state_ == State::kConnecting) return finish_connect();
  writer_->stop();  // the turn's end flushes, and starts it again if need be
}

void TcpConnection::finish_connect() {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) return fail("connect to " + peer_ + ": " + phrase(error));
  state_ = State::kUp;
  interface_ = interface_of(fd_);
  times_.enable(fd_);
  writer_->stop();
  update_reader();
  call([](ConnectionHandler& handler) { handler.connected(); });
}

}  // namespace twinblock
