// A primary whose peer holds the only copy, and has no room for some of what clients write: that is these writes' error,
// and nothing else waits or fails. An engine on virtual parts, and the fuzzers' peer, which is full when a test says so.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/crc32c.h"
#include "base/limits.h"
#include "volume_beside_peer_support.h"
#include "volume_primary_support.h"

namespace twinblock::fuzz {
namespace {

class FullPeerTest : public PrimaryTest {
 protected:
  static constexpr uint64_t kLargeBytes = 3 * limits::kFrameZeroBytesMax;

  explicit FullPeerTest(const std::string& replication = {}) : PrimaryTest(replication, kLargeBytes) {}

  ~FullPeerTest() override { node_->engine.reset(); }  // before what it is asked for

  void SetUp() override {
    PrimaryTest::SetUp();
    node_->logs = [this](const std::string& line) {
      if (line.find("beta's disk refused a write") != std::string::npos) ++said_;
    };
  }
  [[nodiscard]] StatusView status() const { return node_->engine->status(); }
  [[nodiscard]] int told(const std::string& name) const {
    const std::vector<Event> all = std::as_const(*node_->engine).events().log().after(0, 1000);
    return static_cast<int>(std::ranges::count(all, name, &Event::name));
  }
  int end_of(ClientOp op, uint64_t length_bytes = 4 * kKiB) {
    ask(op, length_bytes, op == ClientOp::kRead ? memory_.data() : nullptr);
    return await_end().value_or(ETIMEDOUT);
  }
  void fail_here(int error, int times) {
    node_->data.error = error;
    node_->data.failures = times;
  }
  // Clients work on the peer's replica from then on, which answers by hand.
  void leave_the_disk() {
    fail_here(EIO, 1000000);
    ASSERT_EQ(end_of(ClientOp::kZero), 0);
    ASSERT_EQ(status().state, VolumeState::kDiskless);
    peer_->answers = false;
  }
  // The peer answers the oldest of the requests that it has not answered, or none has come.
  void answer_next(int error) {
    node_->run(10 * kMillisecond_ns);
    peer_->answer(0, 0, static_cast<uint32_t>(error), 0);
    node_->run(10 * kMillisecond_ns);
  }
  void refuse_until_it_ends() {
    for (int i = 0; i < 100 && !error_; ++i) answer_next(ENOSPC);
  }
  void expect_that_all_else_goes_on() {
    ASSERT_TRUE(stands());
    peer_->answers = true;
    EXPECT_EQ(status().state, VolumeState::kDiskless);
    EXPECT_EQ(end_of(ClientOp::kRead), 0);
    EXPECT_EQ(end_of(ClientOp::kFlush), 0);
    EXPECT_EQ(end_of(ClientOp::kZero), 0);
  }
  // The peer has a little more room, so that this node's disk is left before it, too, is full.
  void fill_the_peer_later() {
    ASSERT_NO_FATAL_FAILURE(leave_the_disk());
    ask(ClientOp::kZero, 4 * kKiB);
    refuse_until_it_ends();
    ASSERT_EQ(error_, ENOSPC);
    expect_that_all_else_goes_on();
  }
  // Each disk refuses one of two writes that are under way at once, and takes the other.
  void fill_both_at_different_writes() {
    peer_->answers = false;
    fail_here(ENOSPC, 1);
    ask(ClientOp::kZero, 4 * kKiB);
    node_->run(10 * kMillisecond_ns);
    std::optional<int> other_error;
    other_.op = ClientOp::kZero;
    other_.offset_bytes = other_.length_bytes = 4 * kKiB;
    other_.done = [&](ClientRequest& done) { other_error = done.error; };
    node_->engine->clients().submit(other_);
    answer_next(0);
    ASSERT_FALSE(status().disk_ok);
    answer_next(ENOSPC);
    ASSERT_EQ(other_error, ENOSPC) << "no disk that counts has it";
    EXPECT_EQ(error_, std::nullopt) << "the peer does not know yet that it has the only copy";
    peer_->answers = true;
    for (int i = 0; i < 10; ++i) answer_next(0);
    ASSERT_EQ(error_, 0);
    expect_that_all_else_goes_on();
  }

  std::array<std::byte, 4 * kKiB> memory_{};
  ClientRequest other_;
  int said_ = 0;  // that the peer refused something
};

class FrozenFullPeerTest : public FullPeerTest {
 protected:
  FrozenFullPeerTest() : FullPeerTest("on_peer_loss = \"freeze\"\n") {}
};

// The other one: what it answers when its disk is full.
class FullReplicaTest : public BesidePeerTest {
 protected:
  FullReplicaTest() : BesidePeerTest(1) {}

  uint32_t answer_to_flush() {
    const uint64_t request = peer_->next_sequence();
    peer_->send(0, wire::seal(wire::to_header(wire::FlushFrame{.request = request}), {}));
    return answer_to(request);
  }
  uint32_t answer_to_write(bool fua) {
    const uint64_t request = peer_->next_sequence();
    const wire::DataFrame write{.request = request, .length_bytes = block_.size(), .fua = fua};
    peer_->send(0, wire::seal(wire::to_header(write), block_));
    peer_->send(0, block_);
    return answer_to(request);
  }
  void fill() {
    node_->data.error = ENOSPC;
    node_->data.failures = 1;
  }

  const std::vector<std::byte> block_ = std::vector<std::byte>(limits::kBlockBytes, std::byte{7});
};

TEST_F(FullPeerTest, AWriteThatTheOnlyCopyHasNoRoomForFailsAlone) { fill_the_peer_later(); }
TEST_F(FrozenFullPeerTest, AWriteThatTheOnlyCopyHasNoRoomForFailsAlone) { fill_the_peer_later(); }
TEST_F(FullPeerTest, TwoDisksThatFillAtDifferentWritesCostTheWriteThatIsOnNone) { fill_both_at_different_writes(); }
TEST_F(FrozenFullPeerTest, TwoDisksThatFillAtDifferentWritesCostTheWriteThatIsOnNone) { fill_both_at_different_writes(); }

TEST_F(FullPeerTest, ThatItHasNoRoomIsToldOnceAndShown) {
  ASSERT_NO_FATAL_FAILURE(leave_the_disk());
  for (int i = 0; i < 3; ++i) {
    ask(ClientOp::kZero, 4 * kKiB);
    refuse_until_it_ends();
    ASSERT_EQ(error_, ENOSPC);
  }
  EXPECT_EQ(said_, 1);
  EXPECT_NE(status().peer.error.find("beta's disk refused a write"), std::string::npos) << status().peer.error;
  EXPECT_TRUE(status().peer.lacks_room);
}

// Zeroes need no room; and where one write has some, others may have none.
TEST_F(FullPeerTest, ThatItHasRoomAgainIsToldAndThatItFillsOnceMore) {
  ASSERT_NO_FATAL_FAILURE(leave_the_disk());
  memory_.fill(std::byte{7});
  const WirePiece piece{memory_, crc32c(memory_)};
  request_.piece_bytes = memory_.size();
  const auto write = [&](ClientOp op, int error) {
    request_.pieces = op == ClientOp::kWrite ? std::span(&piece, 1) : std::span<const WirePiece>();
    peer_->answers = error == 0;
    ask(op, 4 * kKiB, memory_.data());
    if (error != 0) answer_next(error);
    return await_end();
  };
  for (int times = 1; times < 3; ++times) {
    ASSERT_EQ(write(ClientOp::kWrite, ENOSPC), ENOSPC);
    ASSERT_EQ(write(ClientOp::kWrite, 0), 0);
    EXPECT_NE(status().peer.error, "");
    node_->run(limits::kDiskNoteKept_ns);
    ASSERT_EQ(write(ClientOp::kZero, 0), 0);
    EXPECT_NE(status().peer.error, "");
    ASSERT_EQ(write(ClientOp::kWrite, 0), 0);
    EXPECT_EQ(status().peer.error, "");
    EXPECT_EQ(said_, times);
    EXPECT_EQ(told("disk-error"), times + 1) << "that of this node's disk was the first";
    EXPECT_EQ(told("disk-mended"), times);
  }
}

// A quota or a limit of the file's size, as well.
TEST_F(FullPeerTest, EveryWantOfRoomIsOne) {
  ASSERT_NO_FATAL_FAILURE(leave_the_disk());
  for (const int error : {EDQUOT, EFBIG}) {
    ask(ClientOp::kZero, 4 * kKiB);
    answer_next(error);
    ASSERT_EQ(error_, error);
  }
  expect_that_all_else_goes_on();
}

// None of the others is a client's any more when the write has failed.
TEST_F(FullPeerTest, AWriteOfPiecesEndsWhenEachWasAnswered) {
  ASSERT_NO_FATAL_FAILURE(leave_the_disk());
  std::vector<std::byte> data(12 * kKiB, std::byte{7});
  std::vector<WirePiece> pieces;
  for (size_t at = 0; at < data.size(); at += 4 * kKiB) {
    const auto piece = std::span(data).subspan(at, 4 * kKiB);
    pieces.push_back({piece, crc32c(piece)});
  }
  request_.pieces = pieces;
  request_.piece_bytes = 4 * kKiB;
  ask(ClientOp::kWrite, data.size(), data.data());
  for (const int error : {0, ENOSPC}) {
    answer_next(error);
    ASSERT_EQ(error_, std::nullopt);
  }
  answer_next(0);
  ASSERT_EQ(error_, ENOSPC);
  expect_that_all_else_goes_on();
}

// What was refused is in flight no more, so that there is room for the next ones.
TEST_F(FullPeerTest, ATrimOfPiecesEndsWhenEachWasAnswered) {
  ASSERT_NO_FATAL_FAILURE(leave_the_disk());
  int sent = 0;
  hears_ = [&sent](const wire::FrameHeader& header) { sent += header.type == static_cast<uint8_t>(wire::FrameType::kData); };
  request_.may_unmap = true;
  for (int times = 1; times < 5; ++times) {
    ask(ClientOp::kZero, kLargeBytes);
    for (const int error : {ENOSPC, 0}) {
      answer_next(error);
      ASSERT_EQ(error_, std::nullopt);
    }
    answer_next(ENOSPC);
    ASSERT_EQ(error_, ENOSPC);
    EXPECT_EQ(sent, 3 * times);
  }
  expect_that_all_else_goes_on();
  EXPECT_EQ(end_of(ClientOp::kZero, kLargeBytes), 0);
}

// It is not known what of it the peer has: nobody has promised anything yet, so all is sent again.
TEST_F(FrozenFullPeerTest, AWriteThatWasRefusedInPartWhenTheSessionEndedIsDoneAnew) {
  ASSERT_NO_FATAL_FAILURE(leave_the_disk());
  request_.may_unmap = true;
  ask(ClientOp::kZero, kLargeBytes);
  answer_next(ENOSPC);
  ASSERT_EQ(error_, std::nullopt);
  peer_->vanish();
  ASSERT_TRUE(await([this] { return !stands(); }));
  ASSERT_EQ(error_, std::nullopt);
  meet();
  EXPECT_EQ(await_end(), 0);
  EXPECT_EQ(status().state, VolumeState::kDiskless);
}

// As the journal of a file system is written.
TEST_F(FullPeerTest, AWriteWithFuaThatTheOnlyCopyHasNoRoomForFailsAlone) {
  request_.fua = true;
  fill_the_peer_later();
}

TEST_F(FullPeerTest, AnErrorThatIsNoWantOfRoomEndsTheSession) {
  ASSERT_NO_FATAL_FAILURE(leave_the_disk());
  ask(ClientOp::kZero, 4 * kKiB);
  answer_next(EIO);
  EXPECT_EQ(await_end(), EIO);
  EXPECT_FALSE(stands());
  EXPECT_NE(status().peer.error, "");
  EXPECT_FALSE(status().peer.lacks_room);
}

TEST_F(FullReplicaTest, AWriteThatHasNoRoomSaysSo) {
  for (const bool fua : {false, true}) {
    fill();
    EXPECT_EQ(answer_to_write(fua), static_cast<uint32_t>(ENOSPC));
    EXPECT_EQ(answer_to_write(fua), 0U);
  }
  EXPECT_EQ(answer_to_flush(), 0U);
}

// More may be lost than that write: nobody may go on with this replica.
TEST_F(FullReplicaTest, AWriteWhoseFlushFailedForWantOfRoomFailedForGood) {
  node_->data.fails_in_flushes = true;
  fill();
  EXPECT_EQ(answer_to_write(true), static_cast<uint32_t>(EIO));
  EXPECT_EQ(answer_to_write(false), static_cast<uint32_t>(EIO));
  EXPECT_NE(answer_to_flush(), 0U);
}

TEST_F(FullReplicaTest, WhatIsWrittenAfterAFlushThatFailedForWantOfRoomFailsForGood) {
  fill();
  EXPECT_EQ(answer_to_flush(), static_cast<uint32_t>(ENOSPC));
  EXPECT_EQ(answer_to_write(false), static_cast<uint32_t>(EIO));
  std::string advice;
  node_->engine->orders().promote({}, [&advice](const Result<std::string>& said) { advice = said ? "" : said.error().action; });
  node_->run(kSecond_ns);
  EXPECT_EQ(advice, "free space for it, then restart twinblockd") << "nor is it to be replaced";
}

// The repair was under way when this node's disk failed, and goes no further.
TEST_F(FullPeerTest, ARepairThatTheOnlyCopyHasNoRoomForIsOver) {
  bool wrong = true;
  hears_ = [&](const wire::FrameHeader& header) {
    if (header.type != static_cast<uint8_t>(wire::FrameType::kDigest)) return;
    std::vector<std::byte> digests = digests_of_zeroes(header.length);
    if (std::exchange(wrong, false)) digests.front() ^= std::byte{1};
    answer(header.sequence, digests);
  };
  uint64_t repair = 0;
  peer_->hears = [&](const wire::FrameHeader& header) {
    if (header.type == static_cast<uint8_t>(wire::FrameType::kData)) repair = header.sequence;
    if (hears_) hears_(header);
  };
  peer_->answers = false;
  node_->engine->orders().verify(VerifyOrder::kRepair, [](const auto& said) { EXPECT_TRUE(said.ok()); });
  ASSERT_TRUE(await([&] { return repair != 0; }));
  fail_here(EIO, 1000000);
  peer_->answers = true;
  ASSERT_EQ(end_of(ClientOp::kFlush), 0);
  ASSERT_EQ(status().state, VolumeState::kDiskless);
  peer_->send(0, wire::seal(wire::to_header(wire::AckFrame{.request = repair, .error = ENOSPC}), {}));
  node_->run(100 * kMillisecond_ns);
  EXPECT_FALSE(status().verify.active);
  EXPECT_EQ(status().verify.repaired_bytes, 0U);
  expect_that_all_else_goes_on();
}

}  // namespace
}  // namespace twinblock::fuzz
