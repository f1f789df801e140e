// Reads of equal blocks from the only good replica, the peer's: one of them asks for it, for a while. An engine on virtual
// parts, with a cache of reads, and the fuzzers' peer.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "cache/content_cache.h"
#include "volume/settings.h"
#include "volume_primary_support.h"

namespace twinblock::fuzz {
namespace {

class JoinedReads : public PrimaryTest {
 protected:
  static constexpr uint64_t kOther = 64 * kKiB;
  static constexpr uint64_t kThird = 128 * kKiB;

  JoinedReads() : PrimaryTest("[cache]\nsize = \"16MiB\"\n") {}

  struct Read {
    ClientRequest request;
    std::vector<std::byte> data = std::vector<std::byte>(limits::kBlockBytes);
    std::optional<int> error;
  };
  void begin(Read& read, uint64_t offset_bytes) {
    read.request.op = ClientOp::kRead;
    read.request.offset_bytes = offset_bytes;
    read.request.length_bytes = read.data.size();
    read.request.data = read.data.data();
    read.request.done = [&read](ClientRequest& request) { read.error = request.error; };
    node_->engine->clients().submit(read.request);
  }
  // This node's disk is lost; three places are known to hold `block_`, which is not here.
  void work_on_the_peers_replica() {
    node_->data.error = EIO;
    node_->data.failures = 1000000;
    ask(ClientOp::kZero, limits::kBlockBytes);
    ASSERT_EQ(await_end(), 0);
    ASSERT_EQ(node_->engine->status().state, VolumeState::kDiskless);
    peer_tells_its_settings();
    peer_->answers = false;
    hears_ = [this](const wire::FrameHeader& header) {
      if (header.type != static_cast<uint8_t>(wire::FrameType::kRead)) return;
      const auto read = wire::frame_as<wire::ReadFrame>(header);
      asked_[read.offset_bytes] = read.request;
    };
    for (const uint64_t place : {uint64_t{0}, kOther, kThird}) learn(place, block_);
  }
  // How long it waits before it asks to be promoted: until then what is known here is true there.
  void peer_tells_its_settings() {
    peer_->tell_settings(make_settings(config_));
    node_->run(10 * kMillisecond_ns);
  }
  // It is known to lie there, and is not here.
  void learn(uint64_t place, const std::vector<std::byte>& block) {
    ContentCache& cache = *node_->engine->worker_view().cache();
    cache.written(place, cache.tags_of(place, block));
  }
  // The peer's process is replaced, say.
  void lose_the_session() {
    wire::FrameHeader goodbye = wire::to_header(wire::GoodbyeFrame{});
    wire::set_order(goodbye, ++*peer_->control());
    peer_->send(0, wire::seal(goodbye));
    for (int i = 0; i < 10 && stands(); ++i) node_->run(kMillisecond_ns);
    ASSERT_FALSE(stands());
  }

  const std::vector<std::byte> block_ = std::vector<std::byte>(limits::kBlockBytes, std::byte{7});
  std::map<uint64_t, uint64_t> asked_;  // by place: the request to the peer
  Read one_, other_;
};

TEST_F(JoinedReads, AnEqualBlockThatComesIsNotAskedForTwice) {
  ASSERT_NO_FATAL_FAILURE(work_on_the_peers_replica());
  begin(one_, 0);
  begin(other_, kOther);
  node_->run(10 * kMillisecond_ns);
  ASSERT_TRUE(asked_.contains(0));
  answer(asked_[0], block_);
  node_->run(10 * kMillisecond_ns);
  for (const Read* read : {&one_, &other_}) {
    EXPECT_EQ(read->error, 0);
    EXPECT_EQ(read->data, block_);
  }
  EXPECT_FALSE(asked_.contains(kOther));
}

// The peer's disk may hang at that one place, and have the other one.
TEST_F(JoinedReads, AnEqualBlockThatDoesNotComeIsAskedForByWhoeverWaits) {
  ASSERT_NO_FATAL_FAILURE(work_on_the_peers_replica());
  begin(one_, 0);
  begin(other_, kOther);
  node_->run(limits::kJoinedReadPatience_ns / 2);
  EXPECT_FALSE(asked_.contains(kOther));
  node_->run(limits::kJoinedReadPatience_ns);
  ASSERT_TRUE(asked_.contains(kOther));
  Read late;  // has nothing to wait for any more
  begin(late, kThird);
  node_->run(kMillisecond_ns);
  ASSERT_TRUE(asked_.contains(kThird));
  answer(asked_[kOther], block_);
  node_->run(10 * kMillisecond_ns);
  EXPECT_EQ(other_.error, 0);
  EXPECT_EQ(other_.data, block_);
  EXPECT_FALSE(one_.error.has_value());
  answer(asked_[0], block_);
  answer(asked_[kThird], block_);
  node_->run(10 * kMillisecond_ns);
  EXPECT_EQ(one_.error, 0);
  EXPECT_EQ(late.error, 0);
}

// Whoever came later is waiting for something else, perhaps, and nobody else may come.
TEST_F(JoinedReads, EachOfTwoThatWaitWaitsForAWhile) {
  ASSERT_NO_FATAL_FAILURE(work_on_the_peers_replica());
  constexpr uint64_t kFourth = 192 * kKiB, kFifth = 224 * kKiB;
  const std::vector<std::byte> another(limits::kBlockBytes, std::byte{8});
  for (const uint64_t place : {kFourth, kFifth}) learn(place, another);
  begin(one_, 0);
  begin(other_, kOther);
  node_->run(limits::kJoinedReadPatience_ns / 2);
  Read fourth, fifth;
  begin(fourth, kFourth);
  begin(fifth, kFifth);
  node_->run(limits::kJoinedReadPatience_ns * 3 / 4);
  ASSERT_TRUE(asked_.contains(kOther) && !asked_.contains(kFifth));
  node_->run(limits::kJoinedReadPatience_ns);
  EXPECT_TRUE(asked_.contains(kFifth));
  for (const uint64_t place : {uint64_t{0}, kOther, kFourth, kFifth}) answer(asked_[place], block_);
  node_->run(10 * kMillisecond_ns);
  EXPECT_EQ(fifth.error, 0);
}

// What would be answered is what the client's memory held before: of another client, perhaps.
TEST_F(JoinedReads, AnEqualBlockThatCanNotBeReadThereIsAskedForByWhoeverWaits) {
  ASSERT_NO_FATAL_FAILURE(work_on_the_peers_replica());
  begin(one_, 0);
  begin(other_, kOther);
  node_->run(kMillisecond_ns);
  ASSERT_TRUE(asked_.contains(0) && !asked_.contains(kOther));
  peer_->send(0, wire::seal(wire::to_header(wire::AckFrame{.request = asked_[0], .error = EIO})));
  node_->run(10 * kMillisecond_ns);
  ASSERT_TRUE(one_.error.has_value());
  EXPECT_NE(one_.error, 0);
  EXPECT_FALSE(other_.error.has_value());
  ASSERT_TRUE(asked_.contains(kOther));
  answer(asked_[kOther], block_);
  node_->run(10 * kMillisecond_ns);
  EXPECT_EQ(other_.error, 0);
  EXPECT_EQ(other_.data, block_);
}

TEST_F(JoinedReads, WhoWaitsForAnotherReadIsAnsweredWhenThePeerIsGoneForGood) {
  ASSERT_NO_FATAL_FAILURE(work_on_the_peers_replica());
  begin(one_, 0);
  begin(other_, kOther);
  node_->run(kMillisecond_ns);
  ASSERT_TRUE(asked_.contains(0) && !asked_.contains(kOther));
  ASSERT_NO_FATAL_FAILURE(lose_the_session());
  peer_->vanish();
  node_->run(3 * config_.peer_timeout_ns);
  for (const Read* read : {&one_, &other_}) {
    ASSERT_TRUE(read->error.has_value());
    EXPECT_NE(read->error, 0);
  }
}

// The one that was under way then has begun anew, and whatever it brings is told to nobody.
TEST_F(JoinedReads, WhatWasOnItsWayInALostSessionIsJoinedInTheNextOne) {
  ASSERT_NO_FATAL_FAILURE(work_on_the_peers_replica());
  begin(one_, 0);
  node_->run(kMillisecond_ns);
  ASSERT_TRUE(asked_.contains(0));
  ASSERT_NO_FATAL_FAILURE(lose_the_session());
  peer_->answers = true;
  ASSERT_TRUE(await([this] { return stands() && one_.error.has_value(); }));
  EXPECT_EQ(one_.error, 0);
  peer_tells_its_settings();
  peer_->answers = false;
  asked_.clear();
  for (const uint64_t place : {kOther, kThird}) learn(place, block_);
  begin(other_, kOther);
  Read third;
  begin(third, kThird);
  node_->run(10 * kMillisecond_ns);
  ASSERT_TRUE(asked_.contains(kOther));
  EXPECT_FALSE(asked_.contains(kThird));
  answer(asked_[kOther], block_);
  node_->run(10 * kMillisecond_ns);
  EXPECT_EQ(third.error, 0);
}

// Nothing of it has come: what is in the client's memory is what was there before.
TEST_F(JoinedReads, WhatThePeerCouldNotReadIsNotLearned) {
  ASSERT_NO_FATAL_FAILURE(work_on_the_peers_replica());
  constexpr size_t kTwo = 2 * limits::kBlockBytes;
  one_.data.assign(kTwo, std::byte{1});
  begin(one_, 0);
  node_->run(10 * kMillisecond_ns);
  ASSERT_TRUE(asked_.contains(0));
  peer_->send(0, wire::seal(wire::to_header(wire::AckFrame{.request = asked_[0], .error = EIO})));
  node_->run(10 * kMillisecond_ns);
  ASSERT_TRUE(one_.error.has_value());
  EXPECT_NE(one_.error, 0);
  ASSERT_TRUE(stands());
  asked_.clear();
  other_.data.assign(kTwo, std::byte{2});
  begin(other_, 0);
  node_->run(10 * kMillisecond_ns);
  ASSERT_TRUE(asked_.contains(0)) << "what was learned is what the failed read left";
  const std::vector<std::byte> theirs(kTwo, std::byte{9});
  answer(asked_[0], theirs);  // of any other length it would be an error
  node_->run(10 * kMillisecond_ns);
  EXPECT_EQ(other_.error, 0);
  EXPECT_EQ(other_.data, theirs);
}

}  // namespace
}  // namespace twinblock::fuzz
