// What a peer answers to a primary, and can't be the answer: it is longer or shorter than what was asked for, or comes
// before the question has left. Nothing of it is written anywhere, or believed.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "volume/settings.h"
#include "volume_primary_support.h"

namespace twinblock::fuzz {
namespace {

constexpr uint64_t kBlock = limits::kBlockBytes;
constexpr std::byte kUntouched{0x11};
constexpr std::byte kTheirs{0x22};

class WrongAnswersTest : public PrimaryTest {
 protected:
  // Without the peer nothing is acknowledged.
  WrongAnswersTest() : PrimaryTest("on_peer_loss = \"freeze\"\n") {}

  // What a client reads there while this node's disk can't be read, if the peer's answer has this length.
  std::optional<int> read(uint64_t answer_bytes) {
    std::optional<uint64_t> asked;
    hears_ = [&](const wire::FrameHeader& header) {
      if (header.type == static_cast<uint8_t>(wire::FrameType::kRead)) asked = header.sequence;
    };
    room_.assign(3 * kBlock, kUntouched);
    ask(ClientOp::kRead, kBlock, room_.data() + kBlock);
    EXPECT_TRUE(await([&] { return asked.has_value(); }));
    answer(*asked, std::vector<std::byte>(answer_bytes, kTheirs));
    return await_end();
  }
  [[nodiscard]] uint64_t count(size_t part, std::byte what) const {
    const std::span<const std::byte> bytes = std::span(room_).subspan(part * kBlock, kBlock);
    return static_cast<uint64_t>(std::ranges::count(bytes, what));
  }
  // How much differs, by a verification in which the digests that the peer tells have so many bytes more, or fewer,
  // than there are; but for that it holds the same.
  uint64_t differs(int more_bytes) {
    hears_ = [this, more_bytes](const wire::FrameHeader& header) {
      if (header.type == static_cast<uint8_t>(wire::FrameType::kFlush)) answer(header.sequence, {});
      if (header.type != static_cast<uint8_t>(wire::FrameType::kDigest)) return;
      std::vector<std::byte> digests = digests_of_zeroes(header.length);
      digests.resize(digests.size() + static_cast<size_t>(more_bytes));
      answer(header.sequence, digests);
    };
    peer_->answers = false;
    node_->engine->orders().verify(VerifyOrder::kCompare, [](const auto& said) { EXPECT_TRUE(said.ok()); });
    const auto verify = [this] { return node_->engine->status().verify; };
    (void)await([&] { return !verify().active; });
    peer_->answers = true;
    EXPECT_EQ(verify().ended, "complete");
    return verify().differing_bytes;
  }

  // Of a client: what it writes, or reads into with a block on either side.
  std::vector<std::byte> room_;
  WirePiece piece_;
};

TEST_F(WrongAnswersTest, AReadOfAnotherLengthIsAnError) {
  node_->data.unreadable = true;
  peer_->answers = false;
  EXPECT_EQ(read(kBlock), 0);
  EXPECT_EQ(count(1, kTheirs), kBlock);
  for (const uint64_t bytes : {2 * kBlock, kBlock + 1, kBlock - 1, kBlock / 2, uint64_t{0}}) {
    EXPECT_EQ(read(bytes), EIO) << bytes;
    EXPECT_EQ(count(0, kUntouched), kBlock) << bytes;
    EXPECT_EQ(count(1, kUntouched), kBlock) << bytes;
    EXPECT_EQ(count(2, kUntouched), kBlock) << bytes;
  }
  EXPECT_TRUE(stands());
}

// The first one leaves the right digests in the memory that the next one uses.
TEST_F(WrongAnswersTest, DigestsOfAnotherLengthAreOfOtherBlocks) {
  EXPECT_EQ(differs(0), 0u);
  for (const int more_bytes : {1, -1, -static_cast<int>(sizeof(Digest))})
    EXPECT_EQ(differs(more_bytes), kVolumeBytes) << more_bytes;
  EXPECT_EQ(differs(0), 0u);
}

// Where there is a hole here the peer is asked for one, and what differs must not be taken for one.
TEST_F(WrongAnswersTest, WhereAHoleIsByAnAnswerOfAnotherLengthIsNotBelieved) {
  node_->data.holes = true;
  for (const size_t bytes : {size_t{0}, size_t{8}, sizeof(wire::HolePayload) + 1}) {
    int asked = 0;
    hears_ = [&](const wire::FrameHeader& header) {
      if (header.type == static_cast<uint8_t>(wire::FrameType::kFlush)) answer(header.sequence, {});
      if (header.type != static_cast<uint8_t>(wire::FrameType::kDigest)) return;
      const bool hole = wire::frame_as<wire::DigestFrame>(header).hole;
      asked += hole ? 1 : 0;
      const size_t digests_bytes = digests_of_zeroes(header.length).size();
      answer(header.sequence, std::vector<std::byte>(hole ? bytes : digests_bytes, std::byte{0x5A}));
    };
    peer_->answers = false;
    node_->engine->orders().verify(VerifyOrder::kCompare, [](const auto& said) { EXPECT_TRUE(said.ok()); });
    (void)await([&] { return !node_->engine->status().verify.active; });
    EXPECT_GT(asked, 0);
    EXPECT_EQ(node_->engine->status().verify.ended, "complete") << bytes;
    EXPECT_EQ(node_->engine->status().verify.differing_bytes, kVolumeBytes) << bytes;
  }
}

// The peer's word that it has a write counts when the write has left: until then its bytes are still to be read here,
// and are the client's as soon as it is answered.
TEST_F(WrongAnswersTest, AnAnswerToWhatHasNotLeftIsNone) {
  room_.assign(16 * kBlock, kTheirs);
  piece_ = {room_, crc32c(room_)};
  request_.pieces = {&piece_, 1};
  std::optional<uint64_t> number;
  hears_ = [&number](const wire::FrameHeader& header) {
    if (header.type == static_cast<uint8_t>(wire::FrameType::kData)) number = header.sequence;
  };
  peer_->answers = false;
  std::vector<uint64_t> numbers;
  for (int i = 0; i < 2; ++i) {
    number.reset();
    ask(ClientOp::kWrite, room_.size(), room_.data());
    ASSERT_TRUE(await([&number] { return number.has_value(); }));
    ASSERT_FALSE(error_.has_value());
    answer(*number);
    ASSERT_EQ(await_end(), 0);
    numbers.push_back(*number);
  }
  ASSERT_EQ(numbers[1], numbers[0] + 1) << "so it is known what the next one's is";
  node_->network.set_faults("main", {.silent = {true, false}, .window_max_bytes = kBlock});
  std::string log;
  node_->logs = [&log](const std::string& line) { log += line + "\n"; };
  ask(ClientOp::kWrite, room_.size(), room_.data());
  node_->run(10 * kMillisecond_ns);
  answer(numbers[1] + 1);
  node_->run(kSecond_ns);
  EXPECT_FALSE(error_.has_value());
  const std::string told = "a request that it was not sent (number " + std::to_string(numbers[1] + 1) + ")";
  EXPECT_NE(log.find(told), std::string::npos) << log;
}

class LentReplicaTest : public PrimaryTest {
 protected:
  LentReplicaTest() : PrimaryTest("peer_timeout = \"20s\"\n[cache]\nsize = \"16MiB\"\n") {}
  void SetUp() override {
    peer_->settings = make_settings(config_);
    PrimaryTest::SetUp();
  }
};

TEST_F(LentReplicaTest, APeerThatMayHaveBeenPromotedIsAskedAlsoForWhatIsCached) {
  node_->data.error = EIO;
  node_->data.failures = 1000000;
  ask(ClientOp::kZero, kBlock);
  ASSERT_EQ(await_end(), 0);
  ASSERT_EQ(node_->engine->volume_state(), VolumeState::kDiskless);
  int asked = 0;
  hears_ = [&asked](const wire::FrameHeader& header) {
    asked += header.type == static_cast<uint8_t>(wire::FrameType::kRead) ? 1 : 0;
  };
  std::array<std::byte, kBlock> room{};
  const auto read = [&] {
    ask(ClientOp::kRead, kBlock, room.data());
    EXPECT_EQ(await_end(), 0);
  };
  read();
  read();
  ASSERT_EQ(asked, 1) << "it is cached";
  peer_->beats = peer_->listens = false;
  node_->run(limits::kLeaseMax_ns + 2 * kSecond_ns);
  ASSERT_TRUE(stands());
  read();
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace twinblock::fuzz
