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

// So often in a row a read goes on with what held no data.
constexpr int kEmptyRoomsMax = 4;

std::string phrase(int code) { return system_error(code, "").what.substr(2); }

}  // namespace

TcpConnection::TcpConnection(TcpNetwork& network, int fd, bool dialling, std::string peer)
    : network_(network),
      peer_(std::move(peer)),
      dialled_(dialling),
      fd_(fd),
      state_(State::kConnecting) {
  network_.connections_.push_back(this);
  if (fd_ < 0) return;
  reader_ = std::make_unique<IoWatcher>(network_.loop_, fd_, EV_READ, [this] { woken(); });
  writer_ = std::make_unique<IoWatcher>(network_.loop_, fd_, EV_WRITE, [this] { writable(); });
  if (dialling)
    writer_->start();
  else
    begin();
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
  if (times_.collect(fd_) && !tell_sample()) return;
  drained_ = false;
  if (state_ == State::kSecuring) return secure();
  received_ = false;
  if (state_ == State::kUp && !paused_ && !call([](ConnectionHandler& handler) { handler.readable(); })) return;
  if (!received_ && times_.collect_leftovers(fd_)) tell_sample();
}

// False when that has destroyed this.
bool TcpConnection::tell_sample() {
  return call([this](ConnectionHandler& handler) { handler.sampled(times_.moments()); });
}

void TcpConnection::read_on() {
  drained_ = false;
  call([](ConnectionHandler& handler) { handler.readable(); });
}

// How much came; 0: nothing now, or the stream is over.
ssize_t TcpConnection::receive(std::span<std::byte> into) {
  // A short read has emptied the socket: asking again in the same event would only cost a call.
  // What arrives meanwhile makes an event of its own.
  if (drained_) return 0;
  ssize_t n = 0;
  do n = times_.receive(fd_, into);
  while (n < 0 && errno == EINTR);
  drained_ = n < static_cast<ssize_t>(into.size());
  received_ = received_ || n > 0;
  if (n > 0) return n;
  if (n == 0)
    fail("closed by the peer");
  else if (errno != EAGAIN && errno != EWOULDBLOCK)
    fail(phrase(errno));
  return 0;
}

size_t TcpConnection::read(std::span<std::byte> into) {
  if (state_ != State::kUp || into.empty()) return 0;
  if (tls_ == nullptr) return static_cast<size_t>(receive(into));
  // As much as there is room for: who gets less knows that there is no more.
  size_t got = 0;
  const uint64_t began_ns = monotonic_ns();
  uint64_t receiving_ns = 0;
  int empty_rooms = 0;
  while (got < into.size() && state_ == State::kUp) {
    if (const size_t n = tls_->open(into.subspan(got)); n > 0) {
      got += n;
      empty_rooms = 0;
      continue;
    }
    if (!tls_->error().empty()) {
      fail(tls_->error());
      break;
    }
    // Records that hold no data may come without end, and all else would wait.
    if (empty_rooms++ == kEmptyRoomsMax) break;
    const uint64_t asked_ns = monotonic_ns();
    const auto n = static_cast<size_t>(receive(tls_->room()));
    receiving_ns += monotonic_ns() - asked_ns;
    if (n == 0) break;
    tls_->received(n);
  }
  unread_ = got == into.size() || empty_rooms > kEmptyRoomsMax;
  opening_ns_ += monotonic_ns() - began_ns - receiving_ns;
  return got;
}

// The handshake, as far as it goes with what has come.
void TcpConnection::secure() {
  for (;;) {
    switch (tls_->shake_hands()) {
      case TlsSession::Step::kDone:
        // The keys may have been changed while it was under way.
        if (key_dropped())
          return fail(subject() + "has the key " + tls_->key() + ", which was dropped meanwhile");
        if (!dialled_) network_.prefer_key(tls_->key());
        state_ = State::kUp;
        if (interface_ == 0) interface_ = interface_of(fd_);
        unread_ = true;  // something may have come behind it
        update_reader();
        call([](ConnectionHandler& handler) { handler.connected(); });
        return;
      case TlsSession::Step::kFailed:
        // So that the peer can say why, too.
        (void)::send(fd_, tls_->sealed().data(), tls_->sealed().size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        return fail(subject() + tls_->error());
      case TlsSession::Step::kWaits:
        const auto n = static_cast<size_t>(receive(tls_->room()));
        if (n == 0 && failed())
          reason_ = subject() + "ended the connection (" + reason_ + "); " + tls_->left_early();
        if (n == 0) return;
        tls_->received(n);
        break;
    }
  }
}

void TcpConnection::give_up_waiting() {
  if (state_ == State::kSecuring)
    fail(subject() + "took too long to prove the key; " + tls_->left_early());
}

// Of a sentence on the peer; who has accepted a connection says it itself, without a port that is
// another one each time.
std::string TcpConnection::subject() const { return dialled_ ? peer_ + " " : std::string(); }

std::string TcpConnection::protection() const {
  return tls_ != nullptr && tls_->done() ? tls_->describe() : std::string();
}

bool TcpConnection::key_dropped() const {
  return tls_ != nullptr && tls_->done() && find_link_key(*network_.keys_, tls_->key()) == nullptr;
}

void TcpConnection::pause_reading(bool paused) {
  paused_ = paused;
  update_reader();
}

void TcpConnection::update_reader() {
  if (reader_ == nullptr) return;
  if (state_ == State::kSecuring || (state_ == State::kUp && !paused_))
    reader_->start();
  else
    reader_->stop();
}

void TcpConnection::fail(std::string reason) {
  if (state_ == State::kFailed || state_ == State::kClosed) return;
  state_ = State::kFailed;
  reason_ = std::move(reason);
  out_.end();
  if (reader_ != nullptr) reader_->stop();
  if (writer_ != nullptr) writer_->stop();
}

void TcpConnection::deliver_failure() {
  state_ = State::kClosed;
  call([reason = reason_](ConnectionHandler& handler) { handler.closed(reason); });
}

bool TcpConnection::wants_flush() const {
  if (writer_ == nullptr || writer_->active()) return false;
  return (state_ == State::kUp || state_ == State::kSecuring) && out_.due();
}

void TcpConnection::flush() {
  size_t left = kSendBytesPerTurn;
  while (wants_flush() && left > 0) {
    msghdr message{};
    message.msg_iovlen = out_.gather(network_.vectors_, network_.record_, left);
    message.msg_iov = network_.vectors_.data();
    if (tls_ != nullptr && !tls_->error().empty()) fail(tls_->error());
    if (message.msg_iovlen == 0) return;  // it failed
    size_t offered = 0;
    for (size_t i = 0; i < message.msg_iovlen; ++i) offered += network_.vectors_[i].iov_len;
    const bool asks = out_.sample_due();
    SocketTimes::Room room;
    if (asks) {
      SocketTimes::ask(message, room);
      times_.look_ahead(fd_);
    }
    // What follows a sampled head goes with it.
    const int more = asks && out_.goes_on_behind(offered) ? MSG_MORE : 0;
    // Before: on a fast link the answer may be there when the call returns.
    const uint64_t now_ns = monotonic_ns();
    const ssize_t n = ::sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT | more);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS)
      return fail(phrase(errno));
    const size_t bytes = n < 0 ? 0 : static_cast<size_t>(n);
    out_.taken(bytes, offered, now_ns, asks);
    left -= std::min(left, bytes);
    if (bytes < offered) writer_->start();  // the socket is full
  }
}

void TcpConnection::writable() {
  if (state_ == State::kConnecting) return finish_connect();
  writer_->stop();  // the turn's end flushes, and starts it again if need be
  // Who does not read is told here what the kernel has to tell: until it is taken, the socket counts as writable.
  if (paused_ && times_.collect_leftovers(fd_)) tell_sample();
}

void TcpConnection::finish_connect() {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) return fail("connect to " + peer_ + ": " + phrase(error));
  writer_->stop();
  begin();
  update_reader();
  if (state_ == State::kSecuring) return secure();
  call([](ConnectionHandler& handler) { handler.connected(); });
}

// It is connected; with keys, the handshake is next.
void TcpConnection::begin() {
  reached_ = true;
  // Strangers are not worth the calls that it takes.
  if (dialled_ || network_.keys_ == nullptr) interface_ = interface_of(fd_);
  times_.enable(fd_);
  state_ = State::kUp;
  if (network_.keys_ == nullptr) return;
  const auto side = dialled_ ? TlsSession::Side::kDialler : TlsSession::Side::kAcceptor;
  tls_ = std::make_unique<TlsSession>(side, network_.keys_, &network_.seen_hellos_);
  out_.seal_with(*tls_);
  state_ = State::kSecuring;
}

}  // namespace twinblock
