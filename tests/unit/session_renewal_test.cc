// Links get new connections, as keys are changed, while a write waits for the peer's disk: an engine on virtual parts, and
// the fuzzers' peer, mostly over one link.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "fuzz_node.h"
#include "hostile_peer.h"
#include "metadata_image.h"

namespace twinblock::fuzz {
namespace {

constexpr uint64_t kVolumeBytes = 256 * kKiB;
constexpr uint64_t kMoment_ns = 100 * kMillisecond_ns;

class RenewalTest : public testing::Test {
 protected:
  explicit RenewalTest(size_t links = 1, const std::string& replication = {})
      : config_(make_config(kVolumeBytes, replication)), record_(plain_record("alpha", {kVolumeBytes, 64 * kKiB})) {
    config_.links.resize(links);
    node_ = plain_node(config_, record_);
    peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
    peer_->hears = [this](const wire::FrameHeader& header) {
      ++heard_[static_cast<wire::FrameType>(header.type)];
      if (header.type == static_cast<uint8_t>(wire::FrameType::kJoin)) join_ = wire::frame_as<wire::JoinFrame>(header);
    };
    peer_->take(HostilePeer::Stance::kSame, 0, 0);
  }
  ~RenewalTest() override {
    node_->engine.reset();
    peer_.reset();
  }

  [[nodiscard]] bool stands() const { return node_->engine->inside().session_stands(); }
  void be_primary() {
    ASSERT_TRUE(node_->engine->start().ok());
    for (int i = 0; i < 100 && !stands(); ++i) node_->run(kMoment_ns);
    node_->engine->orders().promote(Promotion::Word{}, [](const Result<std::string>& said) { EXPECT_TRUE(said.ok()); });
    for (int i = 0; i < 100 && !node_->engine->is_primary(); ++i) node_->run(kMoment_ns);
    ASSERT_TRUE(stands() && node_->engine->is_primary());
  }
  // A primary, a client's block of zeroes that is not answered, and a peer that lives.
  void wait_for_the_peers_disk() {
    ASSERT_NO_FATAL_FAILURE(be_primary());
    peer_->answers = peer_->shakes_hands = false;
    request_.op = ClientOp::kZero;
    request_.length_bytes = 4 * kKiB;
    request_.done = [](ClientRequest&) {};
    node_->engine->clients().submit(request_);
    for (int i = 0; i < 100 && heard_[wire::FrameType::kData] == 0; ++i) node_->run(kMoment_ns);
    ASSERT_EQ(heard_[wire::FrameType::kData], 1);
  }
  // The peer dials, and asks to put that in the place of the connection that there is.
  void peer_joins() {
    const int answers = heard_[wire::FrameType::kJoin];
    peer_->dial(0);
    node_->run(kMoment_ns);
    incarnation_ += 2;
    peer_->ask_to_join(0, incarnation_);
    node_->run(kMoment_ns);
    if (stands()) {
      EXPECT_EQ(heard_[wire::FrameType::kJoin], answers + 1);
    }
    peer_->hang_up(1);
  }
  void peer_speaks(bool speaks) { peer_->beats = peer_->shakes_hands = speaks; }
  void wait_for_joins(int count) {
    for (int i = 0; i < 500 && heard_[wire::FrameType::kJoin] < count; ++i) node_->run(10 * kMillisecond_ns);
    ASSERT_EQ(heard_[wire::FrameType::kJoin], count);
  }
  // The only link of a primary is, as its peer stands still, and has asked to join.
  void dial_in_silence() {
    ASSERT_NO_FATAL_FAILURE(be_primary());
    peer_speaks(false);
    ASSERT_NO_FATAL_FAILURE(wait_for_joins(1));
    ASSERT_FALSE(join_.renews);
  }
  // The peer does, late, to what was asked last.
  void agree_to_join(size_t which) {
    peer_->send(which, wire::seal(wire::to_header(wire::JoinFrame{
                           .incarnation = join_.incarnation, .dialler = join_.dialler, .acceptor = join_.acceptor})));
  }
  // … or refuses it.
  void refuse_to_join(uint32_t error) {
    peer_->send(0, wire::seal(wire::to_header(wire::RefuseFrame{.incarnation = join_.incarnation,
                                                               .dialler = join_.dialler,
                                                               .acceptor = join_.acceptor,
                                                               .error = error})));
  }
  // The links do, while the peer's disk is busy, and then they stay.
  void break_again_and_again(const std::function<void()>& meanwhile = [] {}) {
    ASSERT_NO_FATAL_FAILURE(wait_for_the_peers_disk());
    peer_->disk_still_ns = kMillisecond_ns;
    peer_->shakes_hands = true;
    for (size_t i = 0; i <= limits::kPartingsMax; ++i) {
      const int joins = heard_[wire::FrameType::kJoin];
      peer_->hang_up(0);
      for (int times = 0; times < 100 && heard_[wire::FrameType::kJoin] == joins; ++times) node_->run(kMoment_ns);
      node_->run(kMoment_ns);
      ASSERT_TRUE(stands());
      ASSERT_NO_FATAL_FAILURE(meanwhile());
    }
    peer_->shakes_hands = false;  // a session that is lost stays so
    node_->run(config_.disk_timeout_ns - 2 * config_.peer_timeout_ns);
    EXPECT_TRUE(stands());
  }
  // Another block of zeroes comes back.
  void get_an_answer() {
    bool answered = false;
    ClientRequest other;
    other.op = ClientOp::kZero;
    other.offset_bytes = 64 * kKiB;
    other.length_bytes = 4 * kKiB;
    other.done = [&answered](ClientRequest& done) { answered = done.error == 0; };
    peer_->answers = true;
    node_->engine->clients().submit(other);
    for (int i = 0; i < 100 && !answered; ++i) node_->run(10 * kMillisecond_ns);
    peer_->answers = false;
    ASSERT_TRUE(answered);
  }

  Config config_;
  const metadata::NodeRecord record_;
  std::unique_ptr<FuzzNode> node_;
  std::unique_ptr<HostilePeer> peer_;
  std::map<wire::FrameType, int> heard_;  // by the peer
  ClientRequest request_;
  wire::JoinFrame join_;                  // … the last one
  uint64_t incarnation_ = 1;  // odd: the peer's
};

class RenewalOfTwoTest : public RenewalTest {
 protected:
  explicit RenewalOfTwoTest(const std::string& replication = {}) : RenewalTest(2, replication) {}

  [[nodiscard]] LinkState state(size_t number) const { return node_->engine->status().links.at(number).state; }
  [[nodiscard]] bool both_up() const { return state(0) == LinkState::kUp && state(1) == LinkState::kUp; }
  void wait_for_both() {
    for (int i = 0; i < 100 && !both_up(); ++i) node_->run(kMoment_ns);
    ASSERT_TRUE(both_up());
  }
  void order(LinkOrder order) {
    bool said_ok = false;
    node_->engine->orders().change_link(order, LinkConfig{"backup", {}, 0},
                                        [&said_ok](const Result<std::string>& said) { said_ok = said.ok(); });
    for (int i = 0; i < 100 && !said_ok; ++i) node_->run(10 * kMillisecond_ns);
    ASSERT_TRUE(said_ok);
  }
  // The backup link, which is disabled, is enabled, and the peer is the first to dial, with the key that it has.
  void enable_for_the_peer() {
    peer_->listens = false;
    ASSERT_NO_FATAL_FAILURE(order(LinkOrder::kEnable));
    node_->run(10 * kMillisecond_ns);
    peer_->listens = true;
    peer_->dial(1);
    for (int i = 0; i < 100 && !both_up(); ++i) node_->run(kMillisecond_ns);
    ASSERT_TRUE(both_up());
  }
  // … and is renewed, once, as the second one after `joins` of them: the first answers the peer's.
  void is_renewed_when_it_is_enabled(int joins) {
    ASSERT_NO_FATAL_FAILURE(enable_for_the_peer());
    ASSERT_NO_FATAL_FAILURE(wait_for_joins(joins + 2));
    EXPECT_TRUE(join_.renews);
    node_->run(3 * kSecond_ns);
    EXPECT_TRUE(stands() && both_up());
    EXPECT_EQ(heard_[wire::FrameType::kJoin], joins + 2);
  }
};

class PatientLinksTest : public RenewalOfTwoTest {
 protected:
  PatientLinksTest() : RenewalOfTwoTest("link_timeout = \"10s\"\npeer_timeout = \"30s\"") {}
};

TEST_F(RenewalTest, OfThePeersIsNoLoss) {
  ASSERT_NO_FATAL_FAILURE(wait_for_the_peers_disk());
  peer_->renews = true;
  for (int i = 0; i < 5; ++i) peer_joins();
  node_->run(2 * config_.peer_timeout_ns);
  EXPECT_TRUE(stands());
}

TEST_F(RenewalTest, OfThisNodesIsNoLoss) {
  ASSERT_NO_FATAL_FAILURE(wait_for_the_peers_disk());
  peer_->shakes_hands = true;
  for (int i = 1; i <= 5; ++i) {
    node_->engine->orders().renew_links();
    node_->run(2 * kMoment_ns);
    EXPECT_EQ(heard_[wire::FrameType::kJoin], i);
  }
  peer_->shakes_hands = false;  // a session that is lost stays so
  node_->run(2 * config_.peer_timeout_ns);
  EXPECT_TRUE(stands());
}

// The peer held it for dead, and did so again and again.
TEST_F(RenewalTest, AnotherJoinIsOne) {
  ASSERT_NO_FATAL_FAILURE(wait_for_the_peers_disk());
  peer_joins();
  node_->run(2 * config_.peer_timeout_ns);
  EXPECT_FALSE(stands());
}

// What it carried has come through: a disk needs its time.
TEST_F(RenewalTest, AnotherJoinIsNoneWhileThePeersDiskIsBusy) {
  ASSERT_NO_FATAL_FAILURE(wait_for_the_peers_disk());
  peer_->disk_still_ns = kMillisecond_ns;
  peer_joins();
  node_->run(2 * config_.peer_timeout_ns);
  EXPECT_TRUE(stands());
  peer_->disk_still_ns = 0;
  node_->run(2 * config_.peer_timeout_ns);
  EXPECT_FALSE(stands());
}

TEST_F(RenewalTest, LinksThatBreakAgainAndAgainCarryWhatThePeersDiskIsBusyWith) {
  ASSERT_NO_FATAL_FAILURE(break_again_and_again());
  peer_->disk_still_ns = 0;
  node_->run(2 * config_.peer_timeout_ns);
  EXPECT_FALSE(stands());
}

// … or not, where that is busy with something else: a disk has its time, and no more.
TEST_F(RenewalTest, LinksThatBreakAgainAndAgainMayNotCarryWhatIsLateEvenForADisk) {
  ASSERT_NO_FATAL_FAILURE(break_again_and_again());
  node_->run(4 * config_.peer_timeout_ns);
  EXPECT_FALSE(stands());
}

// It waits for the peer's disk, and the links carry what others ask.
TEST_F(RenewalTest, LinksThatBreakAgainAndAgainCarryWhatIsSmallWhereOthersAreAnswered) {
  ASSERT_NO_FATAL_FAILURE(break_again_and_again([this] { get_an_answer(); }));
  peer_->disk_still_ns = 0;
  node_->run(2 * config_.peer_timeout_ns);
  EXPECT_TRUE(stands());
}

TEST_F(RenewalTest, WithoutEndIsOne) {
  ASSERT_NO_FATAL_FAILURE(wait_for_the_peers_disk());
  peer_->renews = true;
  for (size_t i = 0; i < 2 * limits::kRenewalsMax && stands(); ++i) peer_joins();
  EXPECT_FALSE(stands());
}

// Anybody may have recorded one that was said to an earlier join.
TEST_F(RenewalTest, ARefusalOfAnotherJoinEndsNoSession) {
  ASSERT_NO_FATAL_FAILURE(wait_for_the_peers_disk());
  peer_->hang_up(0);
  const auto refuse = [this](uint64_t other_incarnation, uint64_t other_dialler, uint64_t other_acceptor) {
    const int before = heard_[wire::FrameType::kJoin];
    for (int i = 0; i < 100 && heard_[wire::FrameType::kJoin] == before; ++i) node_->run(10 * kMillisecond_ns);
    ASSERT_GT(heard_[wire::FrameType::kJoin], before);
    peer_->send(0, wire::seal(wire::to_header(wire::RefuseFrame{.incarnation = join_.incarnation ^ other_incarnation,
                                                               .dialler = join_.dialler ^ other_dialler,
                                                               .acceptor = join_.acceptor ^ other_acceptor,
                                                               .error = ESTALE})));
    node_->run(10 * kMillisecond_ns);
  };
  for (const auto& [incarnation, dialler, acceptor] : {std::array{2, 0, 0}, {0, 1, 0}, {0, 0, 1}}) {
    ASSERT_NO_FATAL_FAILURE(refuse(incarnation, dialler, acceptor));
    EXPECT_TRUE(stands()) << incarnation << dialler << acceptor;
  }
  ASSERT_NO_FATAL_FAILURE(refuse(0, 0, 0));
  EXPECT_FALSE(stands()) << "the peer has no such session any more";
}

// Links get theirs one after the other.
TEST_F(RenewalOfTwoTest, OneThatComesToNothingDoesNotEndTheNextOne) {
  ASSERT_TRUE(node_->engine->start().ok());
  ASSERT_NO_FATAL_FAILURE(wait_for_both());
  sim::LinkFaults faults;
  faults.no_address[0] = true;  // what it has stays
  node_->network.set_faults("main", faults);
  const int joins = heard_[wire::FrameType::kJoin];
  node_->engine->orders().renew_links();
  node_->run(3 * kSecond_ns);
  EXPECT_EQ(heard_[wire::FrameType::kJoin], joins + 1) << "of the other link";
  EXPECT_TRUE(stands() && both_up());
}

// Without another one there is nothing that the session could go on with.
TEST_F(RenewalTest, AnOnlyConnectionThatFallsSilentIsReplaced) {
  ASSERT_NO_FATAL_FAILURE(wait_for_the_peers_disk());
  peer_->beats = false;
  peer_->shakes_hands = true;
  node_->run(kSecond_ns);
  EXPECT_EQ(heard_[wire::FrameType::kJoin], 1);
  peer_->beats = true;
  node_->run(2 * config_.peer_timeout_ns);
  EXPECT_TRUE(stands());
}

// The peer stands still, and the link is dialled for that when it is to be renewed.
TEST_F(RenewalTest, IsNotForgottenBesideAnotherAttempt) {
  ASSERT_NO_FATAL_FAILURE(dial_in_silence());
  node_->engine->orders().renew_links();
  peer_speaks(true);
  ASSERT_NO_FATAL_FAILURE(wait_for_joins(2));
  EXPECT_TRUE(join_.renews) << "the connection of before stays, with the key of before";
  node_->run(3 * kSecond_ns);
  EXPECT_TRUE(stands());
  EXPECT_EQ(heard_[wire::FrameType::kJoin], 2);
}

TEST_F(RenewalTest, IsNotWhatWasDialledBefore) {
  ASSERT_NO_FATAL_FAILURE(dial_in_silence());
  node_->engine->orders().renew_links();
  agree_to_join(0);
  peer_speaks(true);
  ASSERT_NO_FATAL_FAILURE(wait_for_joins(2));
  EXPECT_TRUE(join_.renews) << "its connection has the key of before";
  node_->run(3 * kSecond_ns);
  EXPECT_TRUE(stands());
  EXPECT_EQ(heard_[wire::FrameType::kJoin], 2);
}

// Who does not speak has not said no.
TEST_F(RenewalTest, ThatASilentPeerDoesNotAnswerIsTriedAgain) {
  ASSERT_NO_FATAL_FAILURE(be_primary());
  peer_speaks(false);
  node_->engine->orders().renew_links();
  ASSERT_NO_FATAL_FAILURE(wait_for_joins(2));
  ASSERT_FALSE(join_.renews) << "it is dialled for its silence, after the renewal has come to nothing";
  peer_speaks(true);
  ASSERT_NO_FATAL_FAILURE(wait_for_joins(3));
  EXPECT_TRUE(join_.renews);
  node_->run(3 * kSecond_ns);
  EXPECT_TRUE(stands());
  EXPECT_EQ(heard_[wire::FrameType::kJoin], 3);
}

// Both mean to try again: the peer has put another connection in its place, or lost the session, which this node has
// not seen yet.
TEST_F(RenewalTest, ThatIsToComeLaterIsNotForgotten) {
  ASSERT_NO_FATAL_FAILURE(be_primary());
  int joins = 0;
  for (const uint32_t error : {EAGAIN, ESTALE}) {
    peer_->shakes_hands = false;
    node_->engine->orders().renew_links();
    ASSERT_NO_FATAL_FAILURE(wait_for_joins(joins + 1));
    refuse_to_join(error);
    peer_->shakes_hands = true;
    ASSERT_NO_FATAL_FAILURE(wait_for_joins(joins + 2));
    EXPECT_TRUE(join_.renews);
    node_->run(3 * kSecond_ns);
    EXPECT_TRUE(stands());
    EXPECT_EQ(heard_[wire::FrameType::kJoin], joins + 2);
    joins += 2;
  }
}

TEST_F(RenewalTest, ThatIsToComeLaterIsNotTriedAtOnce) {
  ASSERT_NO_FATAL_FAILURE(be_primary());
  peer_->shakes_hands = false;
  node_->engine->orders().renew_links();
  for (int i = 0, refused = 0; i < 1000; ++i) {
    node_->run(kMillisecond_ns);
    if (heard_[wire::FrameType::kJoin] == refused) continue;
    refused = heard_[wire::FrameType::kJoin];
    refuse_to_join(EAGAIN);
  }
  EXPECT_GE(heard_[wire::FrameType::kJoin], 3);
  EXPECT_LE(heard_[wire::FrameType::kJoin], 20);
}

TEST_F(RenewalTest, ThatThePeerDoesNotWantIsNotTriedAgain) {
  ASSERT_NO_FATAL_FAILURE(be_primary());
  peer_->shakes_hands = false;
  node_->engine->orders().renew_links();
  ASSERT_NO_FATAL_FAILURE(wait_for_joins(1));
  refuse_to_join(0);
  peer_->shakes_hands = true;
  node_->run(3 * kSecond_ns);
  EXPECT_TRUE(stands());
  EXPECT_EQ(heard_[wire::FrameType::kJoin], 1);
}

// … nor one whose session was lost over that, and who dials for the next one with the key that he has.
TEST_F(RenewalTest, IsOfTheNextSessionToo) {
  ASSERT_NO_FATAL_FAILURE(be_primary());
  peer_speaks(false);
  node_->engine->orders().renew_links();
  ASSERT_NO_FATAL_FAILURE(wait_for_joins(1));
  peer_->listens = false;
  for (int i = 0; i < 100 && stands(); ++i) node_->run(kMoment_ns);
  ASSERT_FALSE(stands());
  peer_speaks(true);
  peer_->dial(0);
  for (int i = 0; i < 1000 && !stands(); ++i) node_->run(kMillisecond_ns);
  ASSERT_TRUE(stands());
  peer_->listens = true;
  ASSERT_NO_FATAL_FAILURE(wait_for_joins(2));
  EXPECT_TRUE(join_.renews);
  node_->run(3 * kSecond_ns);
  EXPECT_TRUE(stands());
  EXPECT_EQ(heard_[wire::FrameType::kJoin], 2);
}

TEST_F(RenewalOfTwoTest, IsOfALinkThatComesUpLaterToo) {
  ASSERT_TRUE(node_->engine->start().ok());
  ASSERT_NO_FATAL_FAILURE(wait_for_both());
  const int joins = heard_[wire::FrameType::kJoin];
  peer_->shakes_hands = false;
  peer_->hang_up(0);
  ASSERT_NO_FATAL_FAILURE(wait_for_joins(joins + 1));
  ASSERT_NE(state(1), LinkState::kUp);
  node_->engine->orders().renew_links();
  agree_to_join(0);  // what was dialled before
  peer_->shakes_hands = true;
  node_->run(3 * kSecond_ns);
  EXPECT_EQ(heard_[wire::FrameType::kJoin], joins + 3) << "of either link";
  EXPECT_TRUE(stands() && both_up());
}

TEST_F(RenewalOfTwoTest, IsOfALinkThatIsEnabledLaterToo) {
  ASSERT_TRUE(node_->engine->start().ok());
  ASSERT_NO_FATAL_FAILURE(wait_for_both());
  ASSERT_NO_FATAL_FAILURE(order(LinkOrder::kDisable));
  const int joins = heard_[wire::FrameType::kJoin];
  node_->engine->orders().renew_links();
  ASSERT_NO_FATAL_FAILURE(wait_for_joins(joins + 1));
  is_renewed_when_it_is_enabled(joins + 1);
}

// The other link's is under way, and the order comes first.
TEST_F(RenewalOfTwoTest, IsOfALinkThatIsDisabledMeanwhileToo) {
  ASSERT_TRUE(node_->engine->start().ok());
  ASSERT_NO_FATAL_FAILURE(wait_for_both());
  peer_->shakes_hands = false;
  const int joins = heard_[wire::FrameType::kJoin];
  node_->engine->orders().renew_links();
  ASSERT_NO_FATAL_FAILURE(wait_for_joins(joins + 1));
  ASSERT_NO_FATAL_FAILURE(order(LinkOrder::kDisable));
  agree_to_join(0);
  node_->run(kSecond_ns);
  ASSERT_EQ(heard_[wire::FrameType::kJoin], joins + 1);
  peer_->shakes_hands = true;
  is_renewed_when_it_is_enabled(joins + 1);
}

// Nobody else would dial for it.
TEST_F(RenewalOfTwoTest, OneThatFailsLeavesNoLinkThatHasLostItsConnection) {
  ASSERT_TRUE(node_->engine->start().ok());
  ASSERT_NO_FATAL_FAILURE(wait_for_both());
  peer_->shakes_hands = false;
  const int joins = heard_[wire::FrameType::kJoin];
  node_->engine->orders().renew_links();
  for (int i = 0; i < 100 && heard_[wire::FrameType::kJoin] == joins; ++i) node_->run(kMillisecond_ns);
  ASSERT_EQ(heard_[wire::FrameType::kJoin], joins + 1);
  peer_->hang_up(2);  // main's: the backup link's is younger, and the renewal's the youngest
  for (int i = 0; i < 100 && state(0) == LinkState::kUp; ++i) node_->run(kMillisecond_ns);
  ASSERT_NE(state(0), LinkState::kUp);
  ASSERT_EQ(state(1), LinkState::kUp);
  peer_->hang_up(0);
  // Within this no try over any link has its time over.
  bool over_main = false;
  for (int i = 0; i < 500 && !over_main; ++i) {
    node_->run(kMillisecond_ns);
    over_main = heard_[wire::FrameType::kJoin] > joins + 1 && !join_.renews;
  }
  EXPECT_TRUE(over_main) << "beside the backup link's renewal";
  peer_->shakes_hands = true;
  node_->run(3 * kSecond_ns);
  EXPECT_TRUE(stands() && both_up());
}

// It may be dead, and is given up much later.
TEST_F(PatientLinksTest, WhatIsSilentGetsNoWork) {
  ASSERT_NO_FATAL_FAILURE(be_primary());
  ASSERT_NO_FATAL_FAILURE(wait_for_both());
  sim::LinkFaults faults;
  faults.silent = {true, true};
  node_->network.set_faults("backup", faults);
  node_->run(400 * kMillisecond_ns);
  std::array<ClientRequest, 20> writes;
  size_t done = 0;
  for (size_t i = 0; i < writes.size(); ++i) {
    writes[i].op = ClientOp::kZero;
    writes[i].offset_bytes = i * 4 * kKiB;
    writes[i].length_bytes = 4 * kKiB;
    writes[i].done = [&done](ClientRequest& each) { done += each.error == 0 ? 1 : 0; };
    node_->engine->clients().submit(writes[i]);
  }
  node_->run(kMoment_ns);
  EXPECT_EQ(done, writes.size());
  EXPECT_TRUE(both_up()) << "nor is it given up";
  node_->network.set_faults("backup", {});
  node_->run(kSecond_ns);
}

}  // namespace
}  // namespace twinblock::fuzz
