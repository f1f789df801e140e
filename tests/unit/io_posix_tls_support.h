// What the tests of TLS share: two ends without sockets, and a dialler that is not one of ours.
#pragma once

#include <gnutls/gnutls.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "gtest/gtest.h"
#include "io/posix/tls_session.h"
#include "pattern.h"

namespace twinblock {

using Keys = std::shared_ptr<const LinkKeys>;

inline Keys keys_of(std::initializer_list<LinkKey> keys) {
  return std::make_shared<const LinkKeys>(keys);
}

// Two sessions of this thread, whose bytes go through the test's hands.
struct Pair {
  Pair(const Keys& of_dialler, const Keys& of_acceptor)
      : dialler(TlsSession::Side::kDialler, of_dialler),
        acceptor(TlsSession::Side::kAcceptor, of_acceptor) {}

  static size_t carry(TlsSession& from, TlsSession& to) {
    size_t carried = 0;
    while (!from.sealed().empty()) {
      const auto room = to.room();
      const size_t n = std::min(room.size(), from.sealed().size());
      std::memcpy(room.data(), from.sealed().data(), n);
      from.sent(n);
      to.received(n);
      carried += n;
    }
    return carried;
  }
  void shake_hands() {
    dialler_step = dialler.shake_hands();
    carry(dialler, acceptor);
    acceptor_step = acceptor.shake_hands();
    carry(acceptor, dialler);
    if (dialler_step == TlsSession::Step::kWaits) dialler_step = dialler.shake_hands();
    carry(dialler, acceptor);
    if (acceptor_step == TlsSession::Step::kWaits) acceptor_step = acceptor.shake_hands();
  }

  TlsSession dialler;
  TlsSession acceptor;
  TlsSession::Step dialler_step{};
  TlsSession::Step acceptor_step{};
};

// A hello (RFC 8446, 4.1.2) that has no key, and no share of a Diffie-Hellman exchange either: what follows is a
// HelloRetryRequest.
inline Bytes hello_of_a_stranger() {
  constexpr std::array<uint8_t, 11> kHead{0x16, 3, 1, 0, 82, 1, 0, 0, 78, 3, 3};
  constexpr size_t kRandomBytes = 32;
  constexpr std::array<uint8_t, 44> kRest{
      0,    0,    2, 0x13, 1, 1, 0, 0, 35,    // no session; AES-128-GCM; no compression; extensions:
      0,    0x2b, 0, 3,    2, 3, 4,           // supported_versions
      0,    0x0a, 0, 4,    0, 2, 0, 0x1d,     // supported_groups: X25519
      0,    0x0d, 0, 4,    0, 2, 8, 4,        // signature_algorithms
      0,    0x33, 0, 2,    0, 0,              // key_share: none
      0,    0x2d, 0, 2,    1, 1};             // psk_key_exchange_modes: with Diffie-Hellman
  Bytes hello(kHead.size() + kRandomBytes + kRest.size(), std::byte{7});
  std::memcpy(hello.data(), kHead.data(), kHead.size());
  std::memcpy(hello.data() + kHead.size() + kRandomBytes, kRest.data(), kRest.size());
  return hello;
}

// A dialler of GnuTLS' own, which can do what a TlsSession never does.
struct OtherDialler {
  explicit OtherDialler(const LinkKey& key, const char* priorities = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+ECDHE-PSK") {
    const gnutls_datum_t secret{
        reinterpret_cast<unsigned char*>(const_cast<std::byte*>(key.secret.data())),
        static_cast<unsigned>(key.secret.size())};
    gnutls_init(&session, GNUTLS_CLIENT | GNUTLS_NONBLOCK);
    gnutls_psk_allocate_client_credentials(&credentials);
    gnutls_psk_set_client_credentials(credentials, key.fingerprint.c_str(), &secret, GNUTLS_PSK_KEY_RAW);
    gnutls_priority_set_direct(session, priorities, nullptr);
    gnutls_credentials_set(session, GNUTLS_CRD_PSK, credentials);
    gnutls_transport_set_ptr(session, this);
    gnutls_transport_set_push_function(session, [](gnutls_transport_ptr_t self, const void* from, size_t n) {
      const auto* bytes = static_cast<const std::byte*>(from);
      auto& dialler = *static_cast<OtherDialler*>(self);
      dialler.said.insert(dialler.said.end(), bytes, bytes + n);
      return static_cast<ssize_t>(n);
    });
    gnutls_transport_set_pull_function(session, [](gnutls_transport_ptr_t self, void* into, size_t n) {
      auto& dialler = *static_cast<OtherDialler*>(self);
      n = std::min(n, dialler.heard.size());
      gnutls_transport_set_errno(dialler.session, EAGAIN);
      std::copy_n(dialler.heard.begin(), n, static_cast<std::byte*>(into));
      dialler.heard.erase(dialler.heard.begin(), dialler.heard.begin() + static_cast<ptrdiff_t>(n));
      return n > 0 ? static_cast<ssize_t>(n) : -1;
    });
  }
  ~OtherDialler() {
    gnutls_deinit(session);
    gnutls_psk_free_client_credentials(credentials);
  }
  void say_to(TlsSession& tls) {
    const auto room = tls.room();
    ASSERT_LE(said.size(), room.size());
    std::copy(said.begin(), said.end(), room.begin());
    tls.received(said.size());
    said.clear();
  }
  bool shake_hands(TlsSession& tls) {
    for (int i = 0; i < 5 && gnutls_handshake(session) != 0; ++i) {
      say_to(tls);
      (void)tls.shake_hands();
      heard.insert(heard.end(), tls.sealed().begin(), tls.sealed().end());
      tls.sent(tls.sealed().size());
    }
    say_to(tls);
    return tls.shake_hands() == TlsSession::Step::kDone;
  }
  // The same over a socket, which is blocking.
  void say_over(int fd) {
    (void)::send(fd, said.data(), said.size(), MSG_NOSIGNAL);
    said.clear();
  }
  bool hear_over(int fd) {
    Bytes part(4096);
    const ssize_t n = ::recv(fd, part.data(), part.size(), 0);
    if (n > 0) heard.insert(heard.end(), part.begin(), part.begin() + n);
    return n > 0;
  }
  void shake_hands_over(int fd) {
    int code = 0;
    do {
      code = gnutls_handshake(session);
      say_over(fd);
    } while (code == GNUTLS_E_AGAIN && hear_over(fd));
  }
  gnutls_session_t session = nullptr;
  gnutls_psk_client_credentials_t credentials = nullptr;
  Bytes said;
  Bytes heard;
};

}  // namespace twinblock
