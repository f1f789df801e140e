// A connection before, and behind, the proof of the key: whatever comes, nobody gets in without it, and
// nothing is opened that was not sealed so. Either somebody without the key speaks to one of our ends,
// or a relay changes what two nodes with the key say to each other.
//
// Input: a byte (bit 0: which end is looked at; bit 1: a relay), then, of a stranger, what he says in
// pieces: a byte of length and so much; of a relay, what it does with each message: a byte that says
// what, and two that say where.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "input.h"
#include "io/posix/tls_session.h"

namespace twinblock::fuzz {
namespace {

using Bytes = std::vector<std::byte>;

// What one who has proven nothing may have us say, and keep.
constexpr size_t kAnswerBytesMax = 16 * 1024;
constexpr size_t kMessagesMax = 64;

LinkKey key_of(char digit) {
  return parse_link_keys(std::string(2 * LinkKey::kBytes, digit), "fuzz").value().front();
}

std::shared_ptr<const LinkKeys> keys(char digit) {
  return std::make_shared<const LinkKeys>(1, key_of(digit));
}

const std::shared_ptr<const LinkKeys> kKeys = keys('a');

void hear(TlsSession& end, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::span<std::byte> room = end.room();
    const size_t n = std::min(room.size(), bytes.size());
    std::memcpy(room.data(), bytes.data(), n);
    end.received(n);
    bytes = bytes.subspan(n);
    if (end.shake_hands() != TlsSession::Step::kWaits) return;
  }
}

void stranger(TlsSession::Side side, std::span<const uint8_t> input) {
  TlsSession end(side, kKeys);
  require(end.shake_hands() == TlsSession::Step::kWaits, "done before anybody spoke");
  size_t said = end.sealed().size();
  while (!input.empty()) {
    const size_t length = std::min<size_t>(input[0], input.size() - 1);
    const auto piece = std::as_bytes(input.subspan(1, length));
    input = input.subspan(1 + length);
    hear(end, piece);
    const TlsSession::Step step = end.shake_hands();
    require(step != TlsSession::Step::kDone, "a stranger got in");
    said += end.sealed().size();
    end.sent(end.sealed().size());
    require(said <= kAnswerBytesMax, "a stranger is answered without end");
    if (step == TlsSession::Step::kFailed) {
      require(!end.error().empty() && printable_line(end.error()), "no reason", end.error());
      return;
    }
  }
}

// A relay, and what it does next.
class Relay {
 public:
  explicit Relay(std::span<const uint8_t> input) : input_(input) {}
  Bytes carry(TlsSession& from) {
    Bytes message(from.sealed().begin(), from.sealed().end());
    from.sent(message.size());
    if (input_.size() < 3 || message.empty()) return message;
    const uint8_t what = input_[0];
    const size_t at = (input_[1] | input_[2] << 8) % message.size();
    input_ = input_.subspan(3);
    const auto place = message.begin() + static_cast<std::ptrdiff_t>(at);
    switch (what % 6) {
      case 1:
        *place ^= static_cast<std::byte>(what | 1);
        break;
      case 2:
        message.resize(at);
        break;
      case 3:
        before_.assign(message.begin(), place);
        message.insert(message.end(), before_.begin(), before_.end());
        break;
      case 4:
        std::swap(message, before_);
        break;
      case 5:
        message.erase(place);
        break;
      default:
        break;
    }
    before_ = message;
    return message;
  }

 private:
  std::span<const uint8_t> input_;
  Bytes before_;
};

void relayed(bool look_at_dialler, std::span<const uint8_t> input) {
  TlsSession dialler(TlsSession::Side::kDialler, kKeys);
  TlsSession acceptor(TlsSession::Side::kAcceptor, kKeys);
  Relay relay(input);
  TlsSession& watched = look_at_dialler ? dialler : acceptor;
  TlsSession& other = look_at_dialler ? acceptor : dialler;
  (void)dialler.shake_hands();
  auto of_watched = TlsSession::Step::kWaits;
  auto of_other = TlsSession::Step::kWaits;
  for (size_t i = 0; i < 4; ++i) {
    hear(acceptor, relay.carry(dialler));
    hear(dialler, relay.carry(acceptor));
    of_watched = watched.shake_hands();
    of_other = other.shake_hands();
  }
  if (of_watched != TlsSession::Step::kDone || of_other != TlsSession::Step::kDone) return;
  Bytes sealed, opened;
  for (size_t i = 0; i < kMessagesMax; ++i) {
    const Bytes plain(1 + i * 37 % 900, static_cast<std::byte>(i));
    if (!other.seal(plain)) return;
    sealed.insert(sealed.end(), plain.begin(), plain.end());
    const Bytes message = relay.carry(other);
    std::span<const std::byte> left(message);
    while (!left.empty()) {
      const auto room = watched.room();
      const size_t n = std::min(room.size(), left.size());
      std::memcpy(room.data(), left.data(), n);
      watched.received(n);
      left = left.subspan(n);
      Bytes into(1000);
      for (size_t got = watched.open(into); got > 0; got = watched.open(into))
        opened.insert(opened.end(), into.begin(), into.begin() + static_cast<std::ptrdiff_t>(got));
      if (!watched.error().empty()) break;
    }
    require(opened.size() <= sealed.size() && std::equal(opened.begin(), opened.end(), sealed.begin()),
            "something was opened that was not sealed so");
    if (!watched.error().empty()) return;
  }
}

}  // namespace
}  // namespace twinblock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace twinblock::fuzz;
  if (size == 0) return 0;
  const std::span<const uint8_t> rest(data + 1, size - 1);
  if ((data[0] & 2) != 0)
    relayed((data[0] & 1) != 0, rest);
  else
    stranger((data[0] & 1) != 0 ? twinblock::TlsSession::Side::kDialler
                                : twinblock::TlsSession::Side::kAcceptor,
             rest);
  return 0;
}
