#include "io/posix/tls_session.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/checks.h"
#include "io/posix/files.h"

namespace twinblock {
namespace {

// TLS 1.3 only, the key together with Diffie-Hellman only (a stolen key opens no recording), and of the ciphers the
// one that processors have, then the one that is quick without. GnuTLS binds keys to SHA-256.
constexpr const char* kPriorities =
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:-KX-ALL:+ECDHE-PSK:+DHE-PSK:-CIPHER-ALL:+AES-128-GCM:"
    "+CHACHA20-POLY1305";
// No message of a handshake with a key is longer.
constexpr size_t kHandshakeBytesMax = 4096;
// Nor takes a whole one more, with what may have come behind it at once. GnuTLS looks at a message's length only when it
// is there, and keeps up to 16 MiB of it until then.
constexpr size_t kUnprovenBytesMax = 4 * kHandshakeBytesMax;
// What may come at once: little from somebody unknown, then some records.
constexpr size_t kFirstRoomBytes = 4096;
constexpr size_t kRoomBytes = 128 * 1024;

// Null: this host's settings leave nothing of them.
gnutls_priority_t priorities() {
  static const gnutls_priority_t cache = [] {
    gnutls_priority_t made = nullptr;
    return gnutls_priority_init(&made, kPriorities, nullptr) == 0 ? made : nullptr;
  }();
  return cache;
}

gnutls_datum_t datum(const LinkKey& key) {
  return {reinterpret_cast<unsigned char*>(const_cast<std::byte*>(key.secret.data())),
          static_cast<unsigned>(key.secret.size())};
}

}  // namespace

Status TlsSession::available() {
  if (priorities() != nullptr) return ok_status();
  return Error{"GnuTLS has no TLS 1.3 with pre-shared keys on this host",
               "see what /etc/gnutls/config forbids, or write encryption = \"off\""};
}

TlsSession::TlsSession(Side side, std::shared_ptr<const LinkKeys> keys, SeenHellos* seen)
    : side_(side), keys_(std::move(keys)), seen_(seen) {
  TB_CHECK(keys_ != nullptr && !keys_->empty(), "TLS without a key");
  const unsigned end = side == Side::kDialler ? GNUTLS_CLIENT : GNUTLS_SERVER;
  TB_CHECK(gnutls_init(&session_, end | GNUTLS_NONBLOCK | GNUTLS_NO_TICKETS) == 0,
           "GnuTLS has no memory");
  TB_CHECK(gnutls_priority_set(session_, priorities()) == 0, "TlsSession::available()");
  gnutls_session_set_ptr(session_, this);
  gnutls_transport_set_ptr(session_, this);
  gnutls_transport_set_pull_function(session_, &TlsSession::pull);
  gnutls_transport_set_vec_push_function(session_, &TlsSession::push);
  gnutls_handshake_set_max_packet_length(session_, kHandshakeBytesMax);
  set_keys();
}

TlsSession::~TlsSession() {
  gnutls_deinit(session_);
  if (client_ != nullptr) gnutls_psk_free_client_credentials(client_);
  if (server_ != nullptr) gnutls_psk_free_server_credentials(server_);
}

void TlsSession::set_keys() {
  if (side_ == Side::kDialler) {
    const gnutls_datum_t key = datum(keys_->front());
    named_ = keys_->front().fingerprint;
    TB_CHECK(gnutls_psk_allocate_client_credentials(&client_) == 0 &&
                 gnutls_psk_set_client_credentials(client_, named_.c_str(), &key,
                                                   GNUTLS_PSK_KEY_RAW) == 0,
             "GnuTLS has no memory");
    gnutls_credentials_set(session_, GNUTLS_CRD_PSK, client_);
    return;
  }
  TB_CHECK(gnutls_psk_allocate_server_credentials(&server_) == 0, "GnuTLS has no memory");
  gnutls_psk_set_server_credentials_function(server_, &TlsSession::find_key);
  gnutls_credentials_set(session_, GNUTLS_CRD_PSK, server_);
  gnutls_handshake_set_hook_function(session_, GNUTLS_HANDSHAKE_SERVER_HELLO, GNUTLS_HOOK_POST, &TlsSession::answered);
}

// --- what GnuTLS calls

ssize_t TlsSession::pull(gnutls_transport_ptr_t self, void* into, size_t bytes) {
  auto& tls = *static_cast<TlsSession*>(self);
  const size_t n = std::min(bytes, tls.in_end_ - tls.in_begin_);
  if (n == 0) {
    gnutls_transport_set_errno(tls.session_, EAGAIN);
    return -1;
  }
  std::memcpy(into, tls.in_.data() + tls.in_begin_, n);
  tls.in_begin_ += n;
  return static_cast<ssize_t>(n);
}

ssize_t TlsSession::push(gnutls_transport_ptr_t self, const giovec_t* parts, int count) {
  auto& tls = *static_cast<TlsSession*>(self);
  size_t bytes = 0;
  for (const giovec_t& part : std::span(parts, static_cast<size_t>(count))) {
    const auto* from = static_cast<const std::byte*>(part.iov_base);
    tls.out_.insert(tls.out_.end(), from, from + part.iov_len);
    bytes += part.iov_len;
  }
  tls.out_total_ += bytes;
  return static_cast<ssize_t>(bytes);
}

// A hello of ours is made when the binder of theirs was right (RFC 8446, 4.2.11.2).
int TlsSession::answered(gnutls_session_t session, unsigned /*type*/, unsigned /*when*/, unsigned /*incoming*/,
                         const gnutls_datum_t* /*message*/) {
  auto& tls = *static_cast<TlsSession*>(gnutls_session_get_ptr(session));
  gnutls_datum_t theirs{}, ours{};
  gnutls_session_get_random(session, &theirs, &ours);
  tls.hello_is_repeated_ =
      tls.seen_ != nullptr && !tls.seen_->first(std::as_bytes(std::span(theirs.data, theirs.size)));
  tls.hello_holds_ = !tls.hello_is_repeated_;
  return tls.hello_holds_ ? 0 : GNUTLS_E_ILLEGAL_PARAMETER;
}

// A key that there is not is answered like a wrong one.
int TlsSession::find_key(gnutls_session_t session, const char* name, gnutls_datum_t* key) {
  auto& tls = *static_cast<TlsSession*>(gnutls_session_get_ptr(session));
  tls.named_ = name;
  LinkKey nobodys;
  const LinkKey* found = find_link_key(*tls.keys_, tls.named_);
  if (found == nullptr) {
    random_bytes(nobodys.secret);
    found = &nobodys;
  }
  key->data = static_cast<unsigned char*>(gnutls_malloc(found->secret.size()));
  if (key->data == nullptr) return GNUTLS_E_MEMORY_ERROR;
  key->size = static_cast<unsigned>(found->secret.size());
  std::memcpy(key->data, found->secret.data(), found->secret.size());
  return 0;
}

// --- the handshake

TlsSession::Step TlsSession::shake_hands() {
  if (!error_.empty()) return Step::kFailed;
  if (is_plain()) {
    error_ = why_failed(0);
    return Step::kFailed;
  }
  const int code = gnutls_handshake(session_);
  if (code == 0) {
    // What the priorities say; asked once more, since everything rests on it.
    done_ = gnutls_auth_get_type(session_) == GNUTLS_CRD_PSK &&
            gnutls_protocol_get_version(session_) == GNUTLS_TLS1_3;
    if (!done_) error_ = "has agreed to something else than TLS 1.3 with a key";
    return done_ ? Step::kDone : Step::kFailed;
  }
  if (gnutls_error_is_fatal(code) == 0) {
    if (heard_bytes_ <= kUnprovenBytesMax) return Step::kWaits;
    error_ = "says more than a proof of the key takes; it is no node";
    return Step::kFailed;
  }
  error_ = why_failed(code);
  if (code != GNUTLS_E_FATAL_ALERT_RECEIVED) gnutls_alert_send_appropriate(session_, code);
  return Step::kFailed;
}

// Every record of TLS begins with its type, a byte from 20 to 23, and a version (RFC 8446, 5.1). A frame of ours begins
// with a checksum, which is anything: one of two million passes.
bool TlsSession::is_plain() const {
  constexpr std::byte kFirstType{20};
  constexpr std::byte kLastType{23};
  constexpr std::byte kMajor{3};
  constexpr std::byte kMinorMax{3};
  const auto& [type, major, minor] = first_heard_;
  return (heard_bytes_ > 0 && (type < kFirstType || type > kLastType)) || (heard_bytes_ > 1 && major != kMajor) ||
         (heard_bytes_ > 2 && minor > kMinorMax);
}

std::string TlsSession::why_failed(int code) const {
  const std::string ours = "this node's key (" + keys_->front().fingerprint + ")";
  // That shows the files: a node goes on with what it has read.
  const char* compare =
      ": compare `twinblock key show` on both nodes, and run `twinblock key reload` where the file was changed";
  if (is_plain())
    return "speaks without encryption: it has no key in its file, or encryption = \"off\"; or it is "
           "no node";
  if (side_ == Side::kDialler)
    return code == GNUTLS_E_FATAL_ALERT_RECEIVED
               ? "does not take " + ours + compare
               : "does not prove that it has " + ours + " (" + gnutls_strerror(code) + ")" +
                     compare;
  if (hello_is_repeated_) return "repeats what a node has sent before: a recording";
  if (named_.empty())
    return std::string("does not prove that it has the key (") + gnutls_strerror(code) + ")";
  if (find_link_key(*keys_, named_) != nullptr)
    return "names the key " + named_ + ", and does not prove that it has it";
  // What a stranger sends is not repeated, unless it is as a node would have sent it.
  const bool shown = named_.size() == keys_->front().fingerprint.size() &&
                     named_.find_first_not_of("0123456789abcdef-") == named_.npos;
  return "has another key " + (shown ? "(" + named_ + ") " : std::string()) + "than " + ours +
         compare;
}

std::string TlsSession::left_early() const {
  if (heard_bytes_ > 0) return "it has not proven the key";
  return "it has said nothing: perhaps it has no key in its file, or encryption = \"off\"";
}

std::string TlsSession::describe() const {
  return std::string("TLS 1.3, ") + gnutls_cipher_get_name(gnutls_cipher_get(session_)) + ", key " +
         named_;
}

// --- bytes

std::span<std::byte> TlsSession::room() {
  if (in_begin_ == in_end_) in_begin_ = in_end_ = 0;
  if (in_.size() < (done_ ? kRoomBytes : kFirstRoomBytes))
    in_.resize(done_ ? kRoomBytes : kFirstRoomBytes);
  if (in_end_ == in_.size()) {
    TB_CHECK(in_begin_ > 0, "GnuTLS takes all that has come");
    std::memmove(in_.data(), in_.data() + in_begin_, in_end_ - in_begin_);
    in_end_ -= std::exchange(in_begin_, 0);
  }
  return std::span(in_).subspan(in_end_);
}

void TlsSession::received(size_t bytes) {
  for (size_t i = 0; i < bytes && heard_bytes_ + i < first_heard_.size(); ++i)
    first_heard_[heard_bytes_ + i] = in_[in_end_ + i];
  in_end_ += bytes;
  heard_bytes_ += bytes;
}

size_t TlsSession::open(std::span<std::byte> into) {
  TB_CHECK(done_, "nothing is read before the key is proven");
  if (!error_.empty()) return 0;
  ssize_t got = 0;
  size_t left = 0;
  // A record that holds no data, as a change of keys, is "again" as well.
  do {
    left = in_end_ - in_begin_;
    got = gnutls_record_recv(session_, into.data(), into.size());
  } while (got == GNUTLS_E_INTERRUPTED ||
           (got == GNUTLS_E_AGAIN && in_begin_ < in_end_ && in_end_ - in_begin_ < left));
  if (got > 0) return static_cast<size_t>(got);
  if (got == GNUTLS_E_AGAIN) return 0;
  error_ = got == 0 ? "closed by the peer"
                    : std::string("what came was damaged or changed on its way (") +
                          gnutls_strerror(static_cast<int>(got)) + ")";
  return 0;
}

bool TlsSession::seal(std::span<const std::byte> plain) {
  TB_CHECK(done_ && !plain.empty() && plain.size() <= kRecordBytesMax, "one record");
  ssize_t taken = 0;
  do taken = gnutls_record_send(session_, plain.data(), plain.size());
  while (taken == GNUTLS_E_INTERRUPTED || taken == GNUTLS_E_AGAIN);
  if (taken == static_cast<ssize_t>(plain.size())) return true;
  error_ = std::string("TLS: ") + gnutls_strerror(static_cast<int>(taken));
  return false;
}

void TlsSession::sent(size_t bytes) {
  out_begin_ += bytes;
  TB_CHECK(out_begin_ <= out_.size(), "more was sent than sealed");
  // A peer that never takes all must not make it grow by what is long sent.
  if (out_begin_ * 2 < out_.size()) return;
  out_.erase(out_.begin(), out_.begin() + static_cast<ptrdiff_t>(out_begin_));
  out_begin_ = 0;
}

}  // namespace twinblock
