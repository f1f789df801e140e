// Connections with a key: who proves it gets in, nobody else does, and each is told why.
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>

#include <cstring>
#include <memory>

#include "base/limits.h"
#include "io/posix/tcp_connection.h"
#include "io_posix_tcp_support.h"
#include "io_posix_tls_support.h"

namespace twinblock {
namespace {

TEST(TlsSessionTest, both_prove_the_key_and_then_understand_each_other) {
  const LinkKey key = make_link_key();
  Pair pair(keys_of({key}), keys_of({key}));
  pair.shake_hands();
  ASSERT_EQ(pair.dialler_step, TlsSession::Step::kDone) << pair.dialler.error();
  ASSERT_EQ(pair.acceptor_step, TlsSession::Step::kDone) << pair.acceptor.error();
  EXPECT_EQ(pair.dialler.describe(), "TLS 1.3, AES-128-GCM, key " + key.fingerprint);
  EXPECT_EQ(pair.acceptor.describe(), pair.dialler.describe());
  const Bytes text = pattern(TlsSession::kRecordBytesMax, 3);
  for (const size_t bytes : {size_t{1}, size_t{64}, text.size()}) {
    ASSERT_TRUE(pair.dialler.seal(std::span(text).first(bytes)));
    const auto sealed = pair.dialler.sealed();
    if (bytes > 16) {
      EXPECT_EQ(::memmem(sealed.data(), sealed.size(), text.data(), 16), nullptr);
    }
    Pair::carry(pair.dialler, pair.acceptor);
    Bytes got(text.size());
    ASSERT_EQ(pair.acceptor.open(got), bytes);
    EXPECT_EQ(std::memcmp(got.data(), text.data(), bytes), 0);
    EXPECT_EQ(pair.acceptor.open(got), 0u);
  }
}

TEST(TlsSessionTest, the_acceptor_takes_each_of_its_keys_and_the_dialler_proves_its_first) {
  const LinkKey old = make_link_key();
  const LinkKey next = make_link_key();
  for (const auto& [dialler, acceptor, good] :
       std::vector<std::tuple<Keys, Keys, bool>>{{keys_of({old}), keys_of({old, next}), true},
                                                 {keys_of({next}), keys_of({old, next}), true},
                                                 {keys_of({next, old}), keys_of({old}), false},
                                                 {keys_of({old, next}), keys_of({old}), true}}) {
    Pair pair(dialler, acceptor);
    pair.shake_hands();
    EXPECT_EQ(pair.dialler_step == TlsSession::Step::kDone, good);
    EXPECT_EQ(pair.acceptor_step == TlsSession::Step::kDone, good);
  }
}

TEST(TlsSessionTest, another_key_is_refused_with_both_fingerprints) {
  const LinkKey ours = make_link_key();
  const LinkKey theirs = make_link_key();
  // The verb shows the files, which may be the same by now.
  const std::string to_do =
      "): compare `twinblock key show` on both nodes, and run `twinblock key reload` where the file was changed";
  Pair pair(keys_of({theirs}), keys_of({ours}));
  pair.shake_hands();
  ASSERT_EQ(pair.acceptor_step, TlsSession::Step::kFailed);
  ASSERT_EQ(pair.dialler_step, TlsSession::Step::kFailed);
  EXPECT_EQ(pair.acceptor.error(),
            "has another key (" + theirs.fingerprint + ") than this node's key (" + ours.fingerprint + to_do);
  EXPECT_EQ(pair.dialler.error(), "does not take this node's key (" + theirs.fingerprint + to_do);
}

// It knows the fingerprint, which is no secret.
TEST(TlsSessionTest, who_names_the_key_and_does_not_have_it_is_refused) {
  const LinkKey ours = make_link_key();
  LinkKey pretended = make_link_key();
  pretended.fingerprint = ours.fingerprint;
  Pair pair(keys_of({pretended}), keys_of({ours}));
  pair.shake_hands();
  EXPECT_EQ(pair.acceptor_step, TlsSession::Step::kFailed);
  EXPECT_EQ(pair.acceptor.error(),
            "names the key " + ours.fingerprint + ", and does not prove that it has it");
  Pair other(keys_of({ours}), keys_of({pretended}));
  other.shake_hands();
  EXPECT_EQ(other.dialler_step, TlsSession::Step::kFailed) << "an acceptor that only pretends";
}

TEST(TlsSessionTest, what_a_stranger_says_is_not_repeated) {
  const LinkKey ours = make_link_key();
  LinkKey theirs = make_link_key();
  theirs.fingerprint = "\x1b[31mroot@alpha: mkfs";
  Pair pair(keys_of({theirs}), keys_of({ours}));
  pair.shake_hands();
  EXPECT_EQ(pair.acceptor_step, TlsSession::Step::kFailed);
  EXPECT_EQ(pair.acceptor.error().find("root"), std::string::npos) << pair.acceptor.error();
}

// A frame begins with its checksum, which may look like the type of a record.
TEST(TlsSessionTest, a_plain_frame_is_recognised_whatever_its_first_byte_is) {
  for (unsigned first = 0; first < 256; ++first) {
    TlsSession dialler(TlsSession::Side::kDialler, keys_of({make_link_key()}));
    ASSERT_EQ(dialler.shake_hands(), TlsSession::Step::kWaits);
    Bytes frame = pattern(64, 1);
    frame[0] = std::byte(first);
    frame[1] = std::byte(first ^ 0x5a);
    std::memcpy(dialler.room().data(), frame.data(), frame.size());
    dialler.received(frame.size());
    ASSERT_EQ(dialler.shake_hands(), TlsSession::Step::kFailed);
    EXPECT_TRUE(dialler.error().starts_with("speaks without encryption")) << first << ": " << dialler.error();
  }
}

// A message of the handshake that says it is 16 MiB long, and of which more and more comes.
TEST(TlsSessionTest, a_stranger_is_not_listened_to_without_end) {
  TlsSession acceptor(TlsSession::Side::kAcceptor, keys_of({make_link_key()}));
  Bytes record(4096, std::byte{7});
  constexpr std::array<uint8_t, 5> kRecord{22, 3, 1, 0x0f, 0xfb};  // of 4091 bytes
  constexpr std::array<uint8_t, 4> kHello{1, 0xff, 0xff, 0xff};
  std::memcpy(record.data(), kRecord.data(), kRecord.size());
  size_t said = 0;
  TlsSession::Step step = acceptor.shake_hands();
  while (step == TlsSession::Step::kWaits && said < kMiB) {
    Bytes next = record;
    if (said == 0) std::memcpy(next.data() + kRecord.size(), kHello.data(), kHello.size());
    const auto room = acceptor.room();
    ASSERT_GE(room.size(), next.size());
    std::memcpy(room.data(), next.data(), next.size());
    acceptor.received(next.size());
    said += next.size();
    step = acceptor.shake_hands();
  }
  EXPECT_EQ(step, TlsSession::Step::kFailed);
  EXPECT_LE(said, 20 * kKiB) << acceptor.error();
}

// Each bit of each message of the handshake, and of a record behind it: nothing that was changed on
// its way is believed.
TEST(TlsSessionTest, what_was_changed_on_its_way_is_not_believed) {
  const LinkKey key = make_link_key();
  size_t flipped = 0;
  size_t ignored = 0;
  for (size_t at = 0; at < 2000; at += 3) {
    Pair pair(keys_of({key}), keys_of({key}));
    size_t passed = 0;
    bool changed = false;
    const auto carry = [&](TlsSession& from, TlsSession& to) {
      while (!from.sealed().empty()) {
        const auto room = to.room();
        const size_t n = std::min(room.size(), from.sealed().size());
        std::memcpy(room.data(), from.sealed().data(), n);
        if (at >= passed && at < passed + n) {
          room[at - passed] ^= std::byte{1};
          changed = true;
        }
        passed += n;
        from.sent(n);
        to.received(n);
      }
    };
    Bytes got(100);
    size_t opened = 0;
    TlsSession::Step of_dialler = pair.dialler.shake_hands();
    carry(pair.dialler, pair.acceptor);
    TlsSession::Step of_acceptor = pair.acceptor.shake_hands();
    carry(pair.acceptor, pair.dialler);
    of_dialler = pair.dialler.shake_hands();
    carry(pair.dialler, pair.acceptor);
    if (of_acceptor == TlsSession::Step::kWaits) of_acceptor = pair.acceptor.shake_hands();
    if (of_dialler == TlsSession::Step::kDone && of_acceptor == TlsSession::Step::kDone) {
      ASSERT_TRUE(pair.dialler.seal(pattern(100, 1)));
      carry(pair.dialler, pair.acceptor);
      opened = pair.acceptor.open(got);
    }
    if (!changed) break;
    ++flipped;
    // (Of one message of TLS 1.3 there is nothing to believe: that which looks like TLS 1.2.)
    if (opened > 0) {
      EXPECT_EQ(got, pattern(100, 1)) << "byte " << at;
      ++ignored;
    }
  }
  EXPECT_GT(flipped, 150u);
  EXPECT_LT(ignored, 10u);
}

// GnuTLS changes a connection's keys by itself after some hundred GiB.
TEST(TlsSessionTest, what_follows_a_change_of_keys_is_read_at_once) {
  const LinkKey key = make_link_key();
  for (const unsigned whose : {0u, unsigned{GNUTLS_KU_PEER}}) {
    OtherDialler dialler(key);
    TlsSession acceptor(TlsSession::Side::kAcceptor, keys_of({key}));
    ASSERT_TRUE(dialler.shake_hands(acceptor)) << acceptor.error();
    const Bytes text = pattern(100, 1);
    ASSERT_EQ(gnutls_session_key_update(dialler.session, whose), 0);
    ASSERT_EQ(gnutls_record_send(dialler.session, text.data(), text.size()), 100);
    dialler.say_to(acceptor);
    Bytes got(200);
    ASSERT_EQ(acceptor.open(got), 100u) << acceptor.error();
    EXPECT_EQ(std::memcmp(got.data(), text.data(), text.size()), 0);
    ASSERT_TRUE(acceptor.seal(text));
    dialler.heard.assign(acceptor.sealed().begin(), acceptor.sealed().end());
    ssize_t heard = 0;
    do heard = gnutls_record_recv(dialler.session, got.data(), got.size());
    while (heard == GNUTLS_E_AGAIN && !dialler.heard.empty());
    EXPECT_EQ(heard, 100);
  }
}

// --- over sockets

class TlsTest : public TcpTest {
 protected:
  Keys keys() override { return keys_of({key_}); }
  // Another node of this host, with other keys.
  void dial_with(const Keys& keys) {
    loop_.call([&] {
      other_ = std::make_unique<TcpNetwork>(*loop_, "", keys);
      other_end_.take(other_->dial(dialler()));
    });
  }
  void TearDown() override {
    loop_.call([this] {
      other_end_.connection.reset();
      other_.reset();
    });
    TcpTest::TearDown();
  }
  [[nodiscard]] bool refused_with(const std::string& words) const {
    for (const Refusal& each : refusals_)
      if (each.why.find(words) != std::string::npos) return each.from_peers_address;
    return false;
  }
  [[nodiscard]] std::string refusals() const {
    std::string all;
    for (const Refusal& each : refusals_) all += each.why + "\n";
    return all;
  }

  const LinkKey key_ = make_link_key();
  std::unique_ptr<TcpNetwork> other_;
  End other_end_;
};

TEST_F(TlsTest, both_ends_say_how_they_are_protected) {
  connect();
  loop_.call([&] {
    EXPECT_EQ(dialled_.connection->protection(), "TLS 1.3, AES-128-GCM, key " + key_.fingerprint);
    EXPECT_EQ(accepted_.connection->protection(), dialled_.connection->protection());
    // Whose cable may be pulled: both have to know it.
    for (const End* end : {&dialled_, &accepted_}) {
      const auto* tcp = dynamic_cast<const TcpConnection*>(end->connection.get());
      ASSERT_NE(tcp, nullptr);
      EXPECT_EQ(tcp->interface_index(), ::if_nametoindex("lo"));
    }
    dialled_.connection->send(pattern(100, 1));
  });
  ASSERT_TRUE(loop_.eventually([&] { return accepted_.received.size() == 100; }));
  loop_.call([&] {
    EXPECT_GT(dialled_.connection->cipher_ns(), 0u);
    EXPECT_GT(accepted_.connection->cipher_ns(), 0u);
  });
}

TEST_F(TlsTest, who_has_another_key_is_told_and_so_are_we) {
  listen();
  dial_with(keys_of({make_link_key()}));
  ASSERT_TRUE(loop_.eventually([&] { return other_end_.closings == 1 && !refusals_.empty(); }));
  loop_.call([&] {
    EXPECT_FALSE(other_end_.up);
    EXPECT_EQ(accepted_.connection, nullptr);
    EXPECT_NE(other_end_.why.find(address_ + " does not take this node's key ("), std::string::npos)
        << other_end_.why;
    EXPECT_TRUE(refused_with("127.0.0.1 has another key (")) << refusals();
  });
}

TEST_F(TlsTest, who_speaks_plainly_is_told_nothing_and_we_are) {
  listen();
  const int fd = raw_client();
  const Bytes frame = pattern(64, 1);
  ASSERT_EQ(::send(fd, frame.data(), frame.size(), MSG_NOSIGNAL), 64);
  ASSERT_TRUE(loop_.eventually([&] { return !refusals_.empty(); }));
  EXPECT_TRUE(refused_with("speaks without encryption")) << refusals();
  ::close(fd);
}

TEST_F(TlsTest, an_acceptor_without_a_key_is_recognised) {
  std::unique_ptr<TcpNetwork> plain;
  loop_.call([&] {
    plain = std::make_unique<TcpNetwork>(*loop_, "");
    const Status status = plain->listen(
        LinkAddresses{"main", address_, "127.0.0.1:1"},
        [this](std::unique_ptr<Connection> connection) {
          accepted_.take(std::move(connection));
          accepted_.connection->send(pattern(64, 1));  // it speaks first
        },
        {});
    ASSERT_TRUE(status.ok());
  });
  dial();
  ASSERT_TRUE(loop_.eventually([&] { return dialled_.closings == 1; }));
  EXPECT_NE(dialled_.why.find(address_ + " speaks without encryption"), std::string::npos)
      << dialled_.why;
  EXPECT_FALSE(dialled_.up);
  loop_.call([&] {
    accepted_.connection.reset();
    plain.reset();
  });
}

// What somebody has recorded of a connection of a node with the key: all that it said.
TEST_F(TlsTest, a_recording_of_a_node_gets_nowhere) {
  Pair pair(keys(), keys());
  Bytes recording(pair.dialler.sealed().begin(), pair.dialler.sealed().end());
  const auto record = [&] {
    const auto said = pair.dialler.sealed();
    recording.insert(recording.end(), said.begin(), said.end());
    Pair::carry(pair.dialler, pair.acceptor);
  };
  (void)pair.dialler.shake_hands();
  record();
  (void)pair.acceptor.shake_hands();
  Pair::carry(pair.acceptor, pair.dialler);
  ASSERT_EQ(pair.dialler.shake_hands(), TlsSession::Step::kDone);
  ASSERT_TRUE(pair.dialler.seal(pattern(1000, 1)));
  record();
  listen();
  const int fd = raw_client();
  ASSERT_EQ(::send(fd, recording.data(), recording.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(recording.size()));
  ASSERT_TRUE(loop_.eventually([&] { return !refusals_.empty(); }));
  loop_.call([&] { EXPECT_EQ(accepted_.connection, nullptr); });
  EXPECT_TRUE(refused_with("127.0.0.1 does not prove") || refused_with("does not prove that it has it"))
      << refusals();
  ::close(fd);
}

// Many that connect and say nothing, and then many that talk nonsense: the peer gets in at once, and
// what is said of them is bounded.
TEST_F(TlsTest, the_peer_gets_in_beside_a_flood) {
  listen();
  std::vector<int> flood;
  for (int i = 0; i < 300; ++i) flood.push_back(raw_client());
  dial();
  EXPECT_TRUE(loop_.eventually([&] { return dialled_.up && accepted_.connection != nullptr; }));
  loop_.call([&] {
    EXPECT_EQ(dialled_.closings, 0);
    dialled_.connection.reset();
    accepted_.connection.reset();
  });
  for (const int fd : flood) {
    (void)::send(fd, "\x16\x03\x01\x00\x04nonsense", 13, MSG_NOSIGNAL);
    ::close(fd);
  }
  for (int i = 0; i < 300; ++i) {
    const int fd = raw_client();
    (void)::send(fd, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL);
    ::close(fd);
  }
  dial();
  EXPECT_TRUE(loop_.eventually([&] { return dialled_.up && accepted_.connection != nullptr; }));
  loop_.call([&] { EXPECT_LT(refusals_.size(), 20u) << refusals(); });
}

// A peer that is far away has answered, and its proof is on its way: it is not the one that goes.
TEST_F(TlsTest, who_is_in_the_middle_of_the_proof_stays_beside_silent_ones) {
  listen();
  const int far = raw_client();
  OtherDialler dialler(key_);
  EXPECT_EQ(gnutls_handshake(dialler.session), GNUTLS_E_AGAIN);
  dialler.say_over(far);
  ASSERT_TRUE(dialler.hear_over(far));
  std::vector<int> flood;
  for (int i = 0; i < 300; ++i) flood.push_back(raw_client());
  ASSERT_TRUE(loop_.eventually([&] { return refused_with("too many like it"); }));
  dialler.shake_hands_over(far);
  EXPECT_TRUE(loop_.eventually([&] { return accepted_.connection != nullptr; })) << refusals();
  for (const int fd : flood) ::close(fd);
  ::close(far);
}

// Another hello is asked of anybody: strangers who have been asked are no better than a peer that has said nothing yet.
TEST_F(TlsTest, who_was_asked_for_another_hello_does_not_stay_for_it) {
  listen();
  const Bytes hello = hello_of_a_stranger();
  std::vector<int> strangers;
  for (size_t i = 0; i < limits::kUnprovenConnectionsMax - 1; ++i) {
    const int fd = strangers.emplace_back(raw_client());
    ASSERT_EQ(::send(fd, hello.data(), hello.size(), MSG_NOSIGNAL), static_cast<ssize_t>(hello.size()));
    std::array<std::byte, 256> answer{};
    ASSERT_GT(::recv(fd, answer.data(), answer.size(), 0), 0);
    ASSERT_EQ(answer[0], std::byte{22}) << "a handshake goes on";
  }
  const int peer = raw_client();  // its hello is on its way
  strangers.push_back(raw_client());
  ASSERT_TRUE(loop_.eventually([&] { return refused_with("too many like it"); }));
  OtherDialler dialler(key_);
  dialler.shake_hands_over(peer);
  EXPECT_TRUE(loop_.eventually([&] { return accepted_.connection != nullptr; })) << refusals();
  for (const int fd : strangers) ::close(fd);
  ::close(peer);
}

TEST_F(TlsTest, a_node_that_stops_ends_what_has_not_proven_the_key) {
  listen();
  const int silent = raw_client();
  dial();  // behind it
  ASSERT_TRUE(loop_.eventually([&] { return dialled_.up && accepted_.connection != nullptr; }));
  loop_.call([&] {
    dialled_.connection.reset();
    accepted_.connection.reset();
    network_.reset();
  });
  char byte = 0;
  EXPECT_EQ(::recv(silent, &byte, 1, 0), 0);
  ::close(silent);
}

class TlsKeyOrderTest : public TlsTest {
 protected:
  // Somebody proves the one key; with which one does this node dial then?
  void expect_after(const LinkKey& proven, const LinkKey& dialled) {
    listen();
    dial_with(keys_of({proven}));
    ASSERT_TRUE(loop_.eventually([&] { return other_end_.up && accepted_.connection != nullptr; }));
    loop_.call([&] { accepted_.connection.reset(); });
    dial();
    ASSERT_TRUE(loop_.eventually([&] { return dialled_.up && accepted_.connection != nullptr; }));
    loop_.call([&] {
      EXPECT_EQ(dialled_.connection->protection(), "TLS 1.3, AES-128-GCM, key " + dialled.fingerprint);
    });
  }
  const LinkKey next_ = make_link_key();
};

// The peer may have dropped the old key already: this node dials with what the peer has shown.
TEST_F(TlsKeyOrderTest, a_node_goes_on_with_the_key_that_the_peer_proves) {
  loop_.call([&] { network_->set_keys(keys_of({key_, next_})); });
  expect_after(next_, next_);
}

// Somebody who has the old key, which the other host has, too, must not bring it back by proving it once more.
TEST_F(TlsKeyOrderTest, a_key_that_is_being_renewed_stays_the_one_to_go_on_with) {
  loop_.call([&] { network_->set_keys(keys_of({next_, key_}), 3600 * kSecond_ns); });
  expect_after(key_, next_);
}

TEST_F(TlsTest, a_key_that_is_dropped_while_it_is_proven_is_worth_nothing) {
  listen();
  const int early = raw_client();
  OtherDialler dialler(key_);
  dial();  // behind it, so that it has been accepted
  ASSERT_TRUE(loop_.eventually([&] { return dialled_.up && accepted_.connection != nullptr; }));
  loop_.call([&] {
    accepted_.connection.reset();
    network_->set_keys(keys_of({make_link_key()}));
  });
  dialler.shake_hands_over(early);
  EXPECT_TRUE(loop_.eventually([&] { return !refusals_.empty(); }));
  EXPECT_TRUE(refused_with("127.0.0.1 has the key " + key_.fingerprint + ", which was dropped")) << refusals();
  loop_.call([&] { EXPECT_EQ(accepted_.connection, nullptr); });
  ::close(early);
}

TEST_F(TlsTest, that_a_proven_key_was_dropped_is_known_at_both_ends) {
  connect();
  const LinkKey next = make_link_key();
  loop_.call([&] {
    network_->set_keys(keys_of({next, key_}));
    EXPECT_FALSE(dialled_.connection->key_dropped() || accepted_.connection->key_dropped());
    network_->set_keys(keys_of({next}));
    EXPECT_TRUE(dialled_.connection->key_dropped() && accepted_.connection->key_dropped());
  });
}

TEST_F(TlsTest, how_it_was_protected_is_known_after_its_end) {
  connect();
  loop_.call([&] {
    dialled_.destroy_when_closed = false;
    accepted_.connection.reset();
  });
  ASSERT_TRUE(loop_.eventually([&] { return dialled_.closings == 1; }));
  loop_.call([&] { EXPECT_NE(dialled_.connection->protection(), ""); });
}

TEST_F(TlsKeyOrderTest, after_a_renewal_was_taken_back_the_peer_s_key_counts_again) {
  loop_.call([&] {
    network_->set_keys(keys_of({next_, key_}), 3600 * kSecond_ns);
    network_->set_keys(keys_of({key_, next_}));
  });
  expect_after(next_, next_);
}

}  // namespace
}  // namespace twinblock
