// What a connection's key is mixed with: who records what was said, and gets hold of the key later, must not be able to
// read it (RFC 8446: psk_dhe_ke, and never psk_ke). And what is kept of what was said: nothing that is sent.

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "allocated_bytes.h"
#include "io_posix_tls_support.h"

namespace twinblock {
namespace {

TEST(TlsExchangeTest, an_acceptor_agrees_to_no_key_alone) {
  const LinkKey key = make_link_key();
  for (const auto& [exchange, good] :
       std::vector<std::pair<std::string, bool>>{{"PSK", false}, {"ECDHE-PSK", true}, {"DHE-PSK", true}}) {
    const std::string priorities = "NORMAL:-VERS-ALL:+VERS-TLS1.3:-KX-ALL:+" + exchange;
    OtherDialler dialler(key, priorities.c_str());
    TlsSession acceptor(TlsSession::Side::kAcceptor, keys_of({key}));
    EXPECT_EQ(dialler.shake_hands(acceptor), good) << exchange;
    EXPECT_EQ(acceptor.done(), good) << exchange;
  }
}

// As its hello says (RFC 8446, 4.2.9).
TEST(TlsExchangeTest, a_dialler_offers_no_key_alone) {
  TlsSession dialler(TlsSession::Side::kDialler, keys_of({make_link_key()}));
  ASSERT_EQ(dialler.shake_hands(), TlsSession::Step::kWaits);
  const auto offers = [hello = dialler.sealed()](std::initializer_list<uint8_t> modes) {
    const auto count = static_cast<uint8_t>(modes.size());
    std::vector<uint8_t> extension{0, 0x2d, 0, static_cast<uint8_t>(count + 1), count};
    extension.insert(extension.end(), modes);
    return ::memmem(hello.data(), hello.size(), extension.data(), extension.size()) != nullptr;
  };
  constexpr uint8_t kAlone = 0, kWithDiffieHellman = 1;
  EXPECT_TRUE(offers({kWithDiffieHellman}));
  EXPECT_FALSE(offers({kAlone}));
  EXPECT_FALSE(offers({kAlone, kWithDiffieHellman}));
  EXPECT_FALSE(offers({kWithDiffieHellman, kAlone}));
}

// Its secret is drawn anew each time: what anybody may guess would be a way in, and a place that a peer needs.
TEST(TlsExchangeTest, a_key_that_there_is_not_can_t_be_proven) {
  LinkKey zeroes;
  zeroes.fingerprint = make_link_key().fingerprint;
  ASSERT_EQ(zeroes.secret, decltype(zeroes.secret){});
  Pair pair(keys_of({zeroes}), keys_of({make_link_key()}));
  pair.shake_hands();
  EXPECT_EQ(pair.acceptor_step, TlsSession::Step::kFailed);
  EXPECT_FALSE(pair.acceptor.hello_holds());
  EXPECT_FALSE(pair.acceptor.done());
}

// Anybody on the way may send it as often as he likes. He is not taken for the peer, nor does he keep a place that it needs.
TEST(TlsExchangeTest, a_hello_holds_once) {
  const Keys keys = keys_of({make_link_key()});
  TlsSession dialler(TlsSession::Side::kDialler, keys);
  ASSERT_EQ(dialler.shake_hands(), TlsSession::Step::kWaits);
  const std::vector<std::byte> recording(dialler.sealed().begin(), dialler.sealed().end());
  SeenHellos seen;
  const auto hear = [&](TlsSession& acceptor) {
    const auto room = acceptor.room();
    std::copy(recording.begin(), recording.end(), room.begin());
    acceptor.received(recording.size());
    return acceptor.shake_hands();
  };
  TlsSession first(TlsSession::Side::kAcceptor, keys, &seen);
  EXPECT_EQ(hear(first), TlsSession::Step::kWaits) << first.error();
  EXPECT_TRUE(first.hello_holds());
  for (int i = 0; i < 3; ++i) {
    TlsSession again(TlsSession::Side::kAcceptor, keys, &seen);
    EXPECT_EQ(hear(again), TlsSession::Step::kFailed);
    EXPECT_FALSE(again.hello_holds());
    EXPECT_NE(again.error().find("a recording"), std::string::npos) << again.error();
  }
  EXPECT_EQ(seen.size(), 1u);
}

// A link that is never idle has always a record that has not left.
TEST(TlsExchangeTest, what_has_left_is_not_kept_while_more_waits_to_leave) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's memory is not counted by the C library";
#endif
  const Keys keys = keys_of({make_link_key()});
  Pair ends(keys, keys);
  ends.shake_hands();
  ASSERT_EQ(ends.dialler_step, TlsSession::Step::kDone);
  const std::vector<std::byte> record(TlsSession::kRecordBytesMax, std::byte{7});
  constexpr size_t kRecords = 4096;
  ASSERT_TRUE(ends.dialler.seal(record));
  const size_t before_bytes = allocated_bytes();
  for (size_t i = 0; i < kRecords; ++i) {
    ASSERT_TRUE(ends.dialler.seal(record));
    ends.dialler.sent(record.size());
  }
  EXPECT_LT(allocated_bytes(), before_bytes + kRecords * record.size() / 8);
}

TEST(SeenHellos, TheOldestAreForgottenAndTheLatestAreKnown) {
  SeenHellos seen;
  const auto first = [&seen](size_t number) {
    std::array<std::byte, 32> random{};
    std::memcpy(random.data(), &number, sizeof number);
    return seen.first(random);
  };
  constexpr size_t kMany = 3 * limits::kSeenHellosMax;
  for (size_t number = 0; number < kMany; ++number) {
    EXPECT_TRUE(first(number));
    EXPECT_FALSE(first(number));
  }
  EXPECT_EQ(seen.size(), limits::kSeenHellosMax);
  EXPECT_FALSE(first(kMany - limits::kSeenHellosMax));
  EXPECT_TRUE(first(kMany - limits::kSeenHellosMax - 1));
}

}  // namespace
}  // namespace twinblock
