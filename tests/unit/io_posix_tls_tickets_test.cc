// A peer that has the key, and sends record after record of which none holds data: session tickets (RFC 8446, 4.6.1),
// which our nodes neither send nor use. Everything else of the loop goes on beside it.
#include <netinet/in.h>

#include <atomic>
#include <thread>

#include "io_posix_tcp_support.h"
#include "io_posix_tls_support.h"

namespace twinblock {
namespace {

constexpr size_t kTicketBytes = 8 * kMiB;
// What one look at a connection may take in is some hundred KiB.
constexpr int kTurnsMin = 8;

int key_of(gnutls_session_t session, const char* /*name*/, gnutls_datum_t* into) {
  const auto& key = *static_cast<const LinkKey*>(gnutls_session_get_ptr(session));
  into->data = static_cast<unsigned char*>(gnutls_malloc(key.secret.size()));
  into->size = static_cast<unsigned>(key.secret.size());
  std::memcpy(into->data, key.secret.data(), key.secret.size());
  return 0;
}

// An acceptor of GnuTLS' own, over a blocking socket.
class OtherAcceptor {
 public:
  OtherAcceptor(int fd, const LinkKey& key) : fd_(fd) {
    gnutls_init(&session_, GNUTLS_SERVER);
    gnutls_psk_allocate_server_credentials(&credentials_);
    gnutls_psk_set_server_credentials_function(credentials_, &key_of);
    gnutls_priority_set_direct(session_, "NORMAL:-VERS-ALL:+VERS-TLS1.3:+ECDHE-PSK", nullptr);
    gnutls_credentials_set(session_, GNUTLS_CRD_PSK, credentials_);
    gnutls_session_ticket_key_generate(&ticket_key_);
    gnutls_session_ticket_enable_server(session_, &ticket_key_);
    gnutls_session_set_ptr(session_, const_cast<LinkKey*>(&key));
    gnutls_transport_set_int(session_, fd);
  }
  ~OtherAcceptor() {
    gnutls_deinit(session_);
    gnutls_psk_free_server_credentials(credentials_);
    gnutls_free(ticket_key_.data);
  }
  bool shake_hands() {
    int code = 0;
    do code = gnutls_handshake(session_);
    while (code < 0 && gnutls_error_is_fatal(code) == 0);
    return code == 0;
  }
  // Made before any is sent, so that they come as fast as a socket takes them.
  void send_tickets() {
    gnutls_transport_set_ptr(session_, this);
    gnutls_transport_set_push_function(session_, [](gnutls_transport_ptr_t self, const void* from, size_t n) {
      const auto* bytes = static_cast<const std::byte*>(from);
      Bytes& made = static_cast<OtherAcceptor*>(self)->made_;
      made.insert(made.end(), bytes, bytes + n);
      return static_cast<ssize_t>(n);
    });
    while (made_.size() < kTicketBytes) ASSERT_EQ(gnutls_session_ticket_send(session_, 1, 0), 0);
    for (size_t sent = 0; sent < made_.size();) {
      const ssize_t n = ::send(fd_, made_.data() + sent, made_.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return;
      sent += static_cast<size_t>(n);
    }
  }

 private:
  const int fd_;
  gnutls_session_t session_ = nullptr;
  gnutls_psk_server_credentials_t credentials_ = nullptr;
  gnutls_datum_t ticket_key_{};
  Bytes made_;
};

// Counts how often there was something to look at.
struct CountingEnd : End {
  void readable() override {
    ++turns;
    End::readable();
  }
  std::atomic<int> turns{0};
};

class TlsTicketsTest : public TcpTest {
 protected:
  Keys keys() override { return keys_of({key_}); }
  const LinkKey key_ = make_link_key();
};

TEST_F(TlsTicketsTest, the_loop_goes_on_beside_them) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const TcpAddress at = parse_tcp_address(address_).value();
  const int on = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  ASSERT_EQ(::bind(listener, at.get(), at.length), 0);
  ASSERT_EQ(::listen(listener, 1), 0);
  CountingEnd end;
  loop_.call([&] { end.take(network_->dial(dialler())); });
  const int fd = ::accept(listener, nullptr, nullptr);
  ASSERT_GE(fd, 0);
  {
    OtherAcceptor acceptor(fd, key_);
    ASSERT_TRUE(acceptor.shake_hands());
    ASSERT_TRUE(loop_.eventually([&] { return end.up; }));
    end.turns = 0;
    acceptor.send_tickets();
    ::shutdown(fd, SHUT_WR);
    ASSERT_TRUE(loop_.eventually([&] { return end.closings > 0; }));
  }
  EXPECT_GE(end.turns, kTurnsMin) << "one of them kept the loop for much of " << kTicketBytes << " bytes";
  EXPECT_TRUE(end.received.empty());
  ::close(fd);
  ::close(listener);
}

}  // namespace
}  // namespace twinblock
