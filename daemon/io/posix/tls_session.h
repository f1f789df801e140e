// One connection's TLS 1.3 with a pre-shared key and ephemeral Diffie-Hellman (RFC 8446, psk_dhe_ke), by GnuTLS: the
// handshake in which both ends prove the key, then records. It moves bytes between buffers only; whoever has the
// socket carries them. Internal to io/posix; loop only.
#pragma once

#include <gnutls/gnutls.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/posix/link_key.h"
#include "io/posix/seen_hellos.h"

namespace twinblock {

class TlsSession {
 public:
  enum class Side { kDialler, kAcceptor };
  enum class Step { kDone, kWaits, kFailed };
  // Of one record (RFC 8446, 5.1).
  static constexpr size_t kRecordBytesMax = 16 * 1024;

  // Whether this host lets us; before any is made.
  static Status available();

  // `seen`, which outlives it: of an acceptor, what recordings are known by. Null: each hello counts as a new one.
  TlsSession(Side side, std::shared_ptr<const LinkKeys> keys, SeenHellos* seen = nullptr);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // Takes the handshake as far as it goes with what has come; until it is done, nothing of the peer's is to be
  // believed.
  Step shake_hands();
  // The peer has closed the connection, or took too long, before it was done: in words.
  [[nodiscard]] std::string left_early() const;
  [[nodiscard]] bool done() const { return done_; }
  // Of an acceptor: the dialler's hello holds up to a key, though it may be a recording of one that has never come here. Others
  // are asked for another hello at most (HelloRetryRequest).
  [[nodiscard]] bool hello_holds() const { return hello_holds_; }
  // The fingerprint of the key that both have proven, once it is done.
  [[nodiscard]] const std::string& key() const { return named_; }

  // Where bytes that come are put, never empty; and that they were. All that can be opened is opened before.
  [[nodiscard]] std::span<std::byte> room();
  void received(size_t bytes);
  // What the peer sent, opened; 0: more has to come, or it failed.
  size_t open(std::span<std::byte> into);

  // One record of these at most kRecordBytesMax bytes, behind those in sealed(). False: it failed.
  bool seal(std::span<const std::byte> plain);
  // What is to be sent. Valid until the next call that seals, opens or shakes hands.
  [[nodiscard]] std::span<const std::byte> sealed() const {
    return std::span(out_).subspan(out_begin_);
  }
  void sent(size_t bytes);
  // Since the beginning.
  [[nodiscard]] uint64_t sealed_bytes_total() const { return out_total_; }

  // In whole sentences' parts, with the peer as the subject: "does not prove …". Empty: nothing failed.
  [[nodiscard]] const std::string& error() const { return error_; }
  // "TLS 1.3, AES-128-GCM, key 9f86-d081-884c-7d65", once it is done.
  [[nodiscard]] std::string describe() const;

 private:
  static ssize_t pull(gnutls_transport_ptr_t self, void* into, size_t bytes);
  static ssize_t push(gnutls_transport_ptr_t self, const giovec_t* parts, int count);
  static int answered(gnutls_session_t session, unsigned type, unsigned when, unsigned incoming,
                      const gnutls_datum_t* message);
  static int find_key(gnutls_session_t session, const char* name, gnutls_datum_t* key);
  [[nodiscard]] bool is_plain() const;
  [[nodiscard]] std::string why_failed(int code) const;
  void set_keys();

  const Side side_;
  const std::shared_ptr<const LinkKeys> keys_;
  SeenHellos* const seen_;
  gnutls_session_t session_ = nullptr;
  gnutls_psk_client_credentials_t client_ = nullptr;
  gnutls_psk_server_credentials_t server_ = nullptr;
  bool done_ = false;
  bool hello_holds_ = false;
  bool hello_is_repeated_ = false;
  std::string named_;  // the fingerprint that the dialler says it has
  std::string error_;
  uint64_t heard_bytes_ = 0;
  std::array<std::byte, 3> first_heard_{};
  std::vector<std::byte> in_;  // from begin to end: came and not opened yet
  size_t in_begin_ = 0;
  size_t in_end_ = 0;
  std::vector<std::byte> out_;  // from begin on: sealed and not sent yet
  size_t out_begin_ = 0;
  uint64_t out_total_ = 0;
};

}  // namespace twinblock
