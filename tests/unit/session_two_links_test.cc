// A session over two links, one of which goes another way than the other: an engine on virtual parts, and the fuzzers'
// peer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "mirror/link_damping.h"
#include "volume_beside_peer_support.h"
#include "wire/codec.h"

namespace twinblock::fuzz {
namespace {

class TwoLinksTest : public BesidePeerTest {
 protected:
  explicit TwoLinksTest(const std::string& replication = {}) : BesidePeerTest(2, replication) {
    EXPECT_TRUE(comes_true([this] { return is_up(0) && is_up(1); }));
  }

  [[nodiscard]] LinkView link(size_t number) const { return node_->engine->status().links.at(number); }
  [[nodiscard]] bool is_up(size_t number) const { return link(number).state == LinkState::kUp; }
  template <typename Fact>
  bool comes_true(Fact&& fact) {
    for (int i = 0; i < 2000 && !fact(); ++i) node_->run(5 * kMillisecond_ns);
    return fact();
  }
  [[nodiscard]] auto count(const std::string& event) const {
    const std::vector<Event> all = std::as_const(*node_->engine).events().log().after(0, 1000);
    return std::ranges::count_if(all, [&event](const Event& each) { return event == each.name; });
  }
  // A link that was up for long falls silent, and is back as soon as it is dialled: it was not dead.
  void give_up_wrongly() {
    node_->logs = [this](const std::string& line) {
      if (line.find("link backup is lost") != line.npos) node_->network.set_faults("backup", {});
    };
    node_->run(LinkDamping::kSteady_ns + kSecond_ns);
    ASSERT_TRUE(is_up(1));
    sim::LinkFaults faults;
    faults.silent = {true, true};
    node_->network.set_faults("backup", faults);
    ASSERT_TRUE(comes_true([this, before = count("link-lost")] { return count("link-lost") > before; }));
    ASSERT_TRUE(comes_true([this] { return is_up(1); }));
  }
};

class SlowToGiveUpTest : public TwoLinksTest {
 protected:
  SlowToGiveUpTest() : TwoLinksTest("link_timeout = \"1s\"\npeer_timeout = \"4s\"\n") {}
};

TEST_F(TwoLinksTest, ALinkThatIsGivenUpWronglyAgainIsWaitedForLonger) {
  for (int times = 1; times <= 2; ++times) {
    EXPECT_FALSE(link(1).silence_limit_raised) << times;
    ASSERT_NO_FATAL_FAILURE(give_up_wrongly());
  }
  EXPECT_TRUE(link(1).silence_limit_raised);
  EXPECT_FALSE(link(0).silence_limit_raised);
  EXPECT_EQ(count("link-patience"), 1);
}

// What is on it waits for as long, and may wait again over the next link before the peer counts as lost.
TEST_F(SlowToGiveUpTest, NoLinkIsWaitedForLongerThanHalfOfThePeersTime) {
  for (int times = 1; times <= 3; ++times) ASSERT_NO_FATAL_FAILURE(give_up_wrongly());
  EXPECT_EQ(link(1).silence_limit_ns, config_.peer_timeout_ns / 2);
  EXPECT_EQ(link(0).silence_limit_ns, config_.link_timeout_ns);
}

// What is heard of it first comes over one of them; over the other nothing is missing yet.
TEST_F(SlowToGiveUpTest, APeerThatStoodStillLosesNoLink) {
  peer_->beats = peer_->listens = false;
  node_->run(config_.peer_timeout_ns * 7 / 8);
  peer_->send_beat(0);
  node_->run(config_.link_timeout_ns / 4);
  peer_->beats = peer_->listens = true;
  node_->run(config_.peer_timeout_ns);
  EXPECT_EQ(count("link-lost"), 0);
  EXPECT_TRUE(is_up(0) && is_up(1));
}

// What it stood still itself it has not waited for this node over that link, whenever its word of it comes; what it
// was there it has.
TEST_F(SlowToGiveUpTest, WhatThePeerStoodStillItDidNotWait) {
  for (const bool stood_still : {true, false}) {
    peer_->beats = peer_->listens = false;
    const uint64_t begun_ns = node_->scheduler.now_ns();
    const auto beat = [&](size_t which, uint64_t echo_ns) {
      const uint64_t now = node_->scheduler.now_ns();
      peer_->send(which, wire::seal(wire::to_header(
                             wire::HeartbeatFrame{.sent_ns = now, .echo_ns = echo_ns, .held_ns = now - echo_ns})));
    };
    beat(1, begun_ns);
    const uint64_t time_ns = config_.link_timeout_ns * 5 / 4;
    for (uint64_t ns = 0; ns < time_ns; ns += limits::kHeartbeatInterval_ns) {
      node_->run(limits::kHeartbeatInterval_ns);
      if (stood_still)  // what it had sent before comes meanwhile
        peer_->send(0, wire::seal(wire::to_header(wire::ReadFrame{peer_->next_sequence(), 0, 4 * kKiB})));
      else
        beat(1, begun_ns);
    }
    beat(0, node_->scheduler.now_ns());
    beat(1, begun_ns);
    node_->run(2 * limits::kHeartbeatInterval_ns);
    EXPECT_EQ(count("link-lost"), stood_still ? 0 : 1);
    peer_->beats = peer_->listens = true;
    node_->run(config_.link_timeout_ns);
  }
}

// Its operator has mended it, and need not wait.
TEST_F(TwoLinksTest, ALinkThatIsLeftAloneIsTriedAtOnceByOrder) {
  sim::LinkFaults faults;
  faults.cut = {true, true};
  node_->network.set_faults("backup", faults);
  ASSERT_TRUE(comes_true([this] { return link(1).state == LinkState::kDamped; }));
  node_->network.set_faults("backup", {});
  LinkConfig backup;
  backup.name = "backup";
  node_->engine->orders().change_link(LinkOrder::kEnable, backup,
                                      [](const Result<std::string>& said) { EXPECT_TRUE(said.ok()); });
  node_->run(LinkDamping::kPenaltyMin_ns / 5);
  EXPECT_TRUE(is_up(1));
}

TEST_F(TwoLinksTest, EachLinkTakesWhatAVolumeHasGrownBy) {
  node_->data.contents.resize(2 * kVolumeBytes);
  const uint64_t order = peer_->next_sequence();
  wire::FrameHeader grow = wire::to_header(wire::GrowFrame{.request = order, .size_bytes = 2 * kVolumeBytes});
  wire::set_order(grow, ++*peer_->control());
  peer_->send(0, wire::seal(grow, {}));
  ASSERT_TRUE(comes_true([this] { return node_->engine->status().size_bytes == 2 * kVolumeBytes; }));
  for (const size_t line : {0, 1}) {
    const uint64_t request = peer_->next_sequence();
    peer_->send(line, wire::seal(wire::to_header(wire::ReadFrame{request, kVolumeBytes, 4 * kKiB})));
    ASSERT_TRUE(comes_true([&] { return answers_.contains(request); })) << line;
    EXPECT_EQ(answers_[request], 0u) << line;
  }
  EXPECT_EQ(count("session-lost"), 0);
}

// What comes over a connection while the disk hangs, and again over the other one when that is gone.
class LostLinkTest : public TwoLinksTest {
 protected:
  static constexpr uint64_t kHang_ns = 3 * kSecond_ns;
  LostLinkTest() {
    peer_->hears = [this](const wire::FrameHeader& header) {
      retired_ |= header.type == static_cast<uint8_t>(wire::FrameType::kRetired);
      if (header.type == static_cast<uint8_t>(wire::FrameType::kAck)) ++answered_[header.sequence];
    };
    peer_->listens = peer_->shakes_hands = false;  // nothing else is retired
    node_->data.submitted = [this](const DiskRequest&) { ++begun_; };
    node_->data.hung_until_ns = node_->scheduler.now_ns() + kHang_ns;
  }
  void send(size_t over, const wire::FrameHeader& header, const std::vector<std::byte>& payload) {
    peer_->send(over, wire::seal(header, payload));
    if (!payload.empty()) peer_->send(over, payload);
    node_->run(20 * kMillisecond_ns);
  }
  // Sent, and its connection lost.
  void lose(const wire::FrameHeader& header, const std::vector<std::byte>& payload = {}) {
    send(1, header, payload);
    ASSERT_EQ(begun_, 1u);
    peer_->retire(1, true);
    node_->run(100 * kMillisecond_ns);
    ASSERT_TRUE(stands());
    ASSERT_TRUE(retired_) << "other requests of that connection would wait for the disk";
  }
  [[nodiscard]] wire::FrameHeader write() {
    return wire::to_header(wire::DataFrame{
        .request = peer_->next_sequence(), .offset_bytes = 0, .length_bytes = block_.size(), .fua = true});
  }

  bool retired_ = false;
  size_t begun_ = 0;                      // requests of the disk
  std::map<uint64_t, size_t> answered_;  // how often, by request
  const std::vector<std::byte> block_ = std::vector<std::byte>(4 * kKiB, std::byte{7});
};

TEST_F(LostLinkTest, AWriteThatComesAgainIsNotBegunAgain) {
  const wire::FrameHeader header = write();
  ASSERT_NO_FATAL_FAILURE(lose(header, block_));
  send(0, header, block_);
  node_->run(kHang_ns);
  EXPECT_EQ(begun_, 1u) << "the first one would land after what is written next";
  EXPECT_EQ(answered_[header.sequence], 1u);
  EXPECT_TRUE(std::equal(block_.begin(), block_.end(), node_->data.contents.begin()));
  EXPECT_EQ(count("session-lost"), 0);
}

// One that takes long would be begun at each parting of the links, and keep the disk busy for good.
TEST_F(LostLinkTest, AFlushThatComesAgainIsNotBegunAgain) {
  const wire::FrameHeader header = wire::to_header(wire::FlushFrame{peer_->next_sequence()});
  ASSERT_NO_FATAL_FAILURE(lose(header));
  send(0, header, {});
  node_->run(kHang_ns);
  EXPECT_EQ(begun_, 1u);
  EXPECT_EQ(answered_[header.sequence], 1u);
}

class LostReadTest : public LostLinkTest, public testing::WithParamInterface<bool> {};

TEST_P(LostReadTest, AReadThatComesAgainIsNotBegunAgain) {
  const uint64_t number = peer_->next_sequence();
  const wire::FrameHeader header =
      GetParam() ? wire::to_header(wire::DigestFrame{.request = number, .offset_bytes = 4 * kKiB, .length_bytes = 8 * kKiB})
                 : wire::to_header(wire::ReadFrame{number, 4 * kKiB, 8 * kKiB});
  ASSERT_NO_FATAL_FAILURE(lose(header));
  send(0, header, {});
  node_->run(kHang_ns);
  EXPECT_EQ(begun_, 1u);
  EXPECT_EQ(answered_[header.sequence], 1u);
}

INSTANTIATE_TEST_SUITE_P(WhatOnlyAsks, LostReadTest, testing::Bool(),
                         [](const auto& param) { return param.param ? "Digests" : "Bytes"; });

// Its answer went with its connection.
TEST_F(LostLinkTest, WhatHasEndedMeanwhileIsDoneOnceMore) {
  const wire::FrameHeader header = write();
  ASSERT_NO_FATAL_FAILURE(lose(header, block_));
  node_->run(kHang_ns);
  EXPECT_EQ(answered_[header.sequence], 0u);
  std::fill_n(node_->data.contents.begin(), block_.size(), std::byte{0});
  send(0, header, block_);
  node_->run(100 * kMillisecond_ns);
  EXPECT_EQ(begun_, 2u);
  EXPECT_EQ(answered_[header.sequence], 1u);
  EXPECT_TRUE(std::equal(block_.begin(), block_.end(), node_->data.contents.begin()));
}

// What the connection had not carried does not wait for what it had.
TEST_F(LostLinkTest, WhatWasNotReadIsBegunBesideWhatIsWorkedOn) {
  ASSERT_NO_FATAL_FAILURE(lose(wire::to_header(wire::FlushFrame{peer_->next_sequence()})));
  send(0, write(), block_);
  EXPECT_EQ(begun_, 2u);
}

// Its record would say that the other one is done.
TEST_F(LostLinkTest, AnotherRequestWithTheNumberOfOneEndsTheSession) {
  wire::FrameHeader header = write();
  ASSERT_NO_FATAL_FAILURE(lose(header, block_));
  header.offset = 8 * kKiB;
  send(0, header, block_);
  EXPECT_TRUE(comes_true([this] { return count("session-lost") == 1; }));
}

// It is shown to whoever looks at the status, or at the log. (In a process of its own: the harness ends with a line of
// the log that is none.)
TEST_F(TwoLinksTest, WhatSaysGoodbyeMovesNoCursor) {
  const auto text = wire::text_bytes("gone\x1b[2J\r");
  wire::FrameHeader goodbye = wire::to_header(wire::GoodbyeFrame{});
  wire::set_order(goodbye, ++*peer_->control());
  peer_->send(0, wire::seal(goodbye, text));
  peer_->send(0, text);
  const auto hear = [this] {
    EXPECT_TRUE(comes_true([this] { return !node_->engine->inside().session_stands(); }));
    const std::string reason = node_->engine->status().loss_reason;
    EXPECT_NE(reason.find("beta said goodbye: gone"), std::string::npos) << reason;
    EXPECT_EQ(reason.find_first_of("\x1b\r"), std::string::npos);
    std::exit(HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(hear(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace twinblock::fuzz
