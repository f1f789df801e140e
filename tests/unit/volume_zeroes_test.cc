// What a client lets become a hole, and what it does not: an engine on virtual parts, and the fuzzers' peer.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "base/crc32c.h"
#include "volume_beside_peer_support.h"
#include "volume_primary_support.h"

namespace twinblock::fuzz {
namespace {

// One order to write zeroes, as a disk or the peer has got it.
struct Zeroes {
  uint64_t bytes;
  bool may_be_hole;
  bool operator==(const Zeroes&) const = default;
};

class ZeroesTest : public PrimaryTest {
 protected:
  void SetUp() override {
    PrimaryTest::SetUp();
    node_->data.submitted = [this](const DiskRequest& request) {
      if (request.op == DiskOp::kZero) here_.push_back({request.length_bytes, request.may_unmap});
    };
    hears_ = [this](const wire::FrameHeader& header) {
      if (header.type != static_cast<uint8_t>(wire::FrameType::kData)) return;
      const auto data = wire::frame_as<wire::DataFrame>(header);
      if (data.zero) there_.push_back({data.length_bytes, data.unmap});
    };
  }

  std::vector<Zeroes> here_, there_;  // by this node's disk, and by the peer
};

// Who forbids a hole has paid for the space: it may not be given to others on either host.
TEST_F(ZeroesTest, BecomeAHoleOnBothHostsOnlyWhereTheClientSaysSo) {
  for (const bool may_be_hole : {false, true, false}) {
    here_.clear();
    there_.clear();
    request_.may_unmap = may_be_hole;
    ask(ClientOp::kZero, kVolumeBytes);
    ASSERT_EQ(await_end(), 0);
    const std::vector<Zeroes> asked{{kVolumeBytes, may_be_hole}};
    EXPECT_EQ(here_, asked) << may_be_hole;
    EXPECT_EQ(there_, asked) << may_be_hole;
  }
}

// They travel as zeroes to save the wire, and nobody has let them go.
TEST_F(ZeroesTest, ThatAreWrittenAsDataBecomeNoHoleAtThePeer) {
  std::vector<std::byte> data(limits::kBlockBytes);
  request_.all_zero = true;
  ask(ClientOp::kWrite, data.size(), data.data());
  ASSERT_EQ(await_end(), 0);
  EXPECT_EQ(there_, (std::vector<Zeroes>{{data.size(), false}}));
}

TEST_F(ZeroesTest, ThatAreWrittenAsDataAreNoneThatCouldBeLost) {
  const auto promised_after_a_flush = [this] {
    ask(ClientOp::kFlush, 0);
    EXPECT_EQ(await_end(), 0);
    node_->run(2 * kSecond_ns);
    return load_plain(node_->metadata.contents, record_).record.held_data;
  };
  std::vector<std::byte> data(limits::kBlockBytes);
  request_.all_zero = true;
  ask(ClientOp::kWrite, data.size(), data.data());
  ASSERT_EQ(await_end(), 0);
  EXPECT_FALSE(promised_after_a_flush());
  data.assign(data.size(), std::byte{7});
  const WirePiece piece{data, crc32c(data)};
  request_.all_zero = false;
  request_.pieces = {&piece, 1};
  ask(ClientOp::kWrite, data.size(), data.data());
  ASSERT_EQ(await_end(), 0);
  EXPECT_TRUE(promised_after_a_flush());
}

// The process may end then, and its disk be another one when the next process begins.
TEST_F(ZeroesTest, DataThatOnlyADemotionHasFlushedCouldBeLost) {
  std::vector<std::byte> data(limits::kBlockBytes, std::byte{7});
  const WirePiece piece{data, crc32c(data)};
  request_.pieces = {&piece, 1};
  ask(ClientOp::kWrite, data.size(), data.data());
  ASSERT_EQ(await_end(), 0);
  bool demoted = false;
  node_->engine->orders().demote([&demoted](const Result<std::string>& said) { demoted = said.ok(); });
  for (int i = 0; i < 1000 && !demoted; ++i) node_->run(kMillisecond_ns);
  ASSERT_TRUE(demoted);
  EXPECT_TRUE(load_plain(node_->metadata.contents, record_).record.held_data);
}

class LongZeroesTest : public PrimaryTest {
 protected:
  static constexpr uint64_t kLong = 2 * limits::kFrameZeroBytesMax + kMiB;
  LongZeroesTest() : PrimaryTest({}, kLong) {}
};

// They travel in pieces, and the flush comes with the last one: not before the peer has done the others.
TEST_F(LongZeroesTest, AreFlushedWhenAllPiecesAreThere) {
  std::vector<wire::DataFrame> pieces;
  hears_ = [&pieces](const wire::FrameHeader& header) {
    if (header.type == static_cast<uint8_t>(wire::FrameType::kData)) pieces.push_back(wire::frame_as<wire::DataFrame>(header));
  };
  peer_->answers = false;
  request_.fua = true;
  ask(ClientOp::kZero, kLong);
  ASSERT_TRUE(await([&pieces] { return pieces.size() >= 2; }));
  node_->run(kSecond_ns);
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_FALSE(pieces[0].fua || pieces[1].fua);
  answer(pieces[0].request);
  node_->run(kSecond_ns);
  ASSERT_EQ(pieces.size(), 2u);
  answer(pieces[1].request);
  ASSERT_TRUE(await([&pieces] { return pieces.size() == 3; }));
  EXPECT_TRUE(pieces[2].fua);
  answer(pieces[2].request);
  EXPECT_EQ(await_end(), 0);
}

// Who is told that data are flushed may lose the disk in the next moment, and have an empty one in its place. Nothing
// flushes beside clients that make each write stable by itself, where there is no peer.
class LoneZeroesTest : public testing::Test {
 protected:
  LoneZeroesTest() : record_(plain_record("alpha", {kVolumeBytes, 64 * kKiB})) { begin(plain_node(config_, record_)); }
  ~LoneZeroesTest() override { node_->engine.reset(); }
  void begin(std::unique_ptr<FuzzNode> node) {
    if (node_) node_->engine.reset();
    node_ = std::move(node);
    EXPECT_TRUE(node_->engine->start().ok());
    node_->engine->orders().promote({true}, [](const Result<std::string>&) {});
    for (int i = 0; i < 1000 && !node_->engine->is_primary(); ++i) node_->run(10 * kMillisecond_ns);
    EXPECT_TRUE(node_->engine->is_primary());
  }
  // What is on record in the moment in which the client is told that it is done.
  bool held_when_done(ClientOp op, bool fua) {
    ClientRequest request;
    request.op = op;
    request.fua = fua;
    if (op != ClientOp::kFlush) request.length_bytes = data_.size();
    if (op == ClientOp::kWrite) {
      request.data = data_.data();
      request.pieces = {&piece_, 1};
    }
    std::optional<bool> held;
    request.done = [&](ClientRequest& done) {
      EXPECT_EQ(done.error, 0);
      held = load_plain(node_->metadata.contents, record_).record.held_data;
    };
    node_->engine->clients().submit(request);
    for (int i = 0; i < 1000 && !held; ++i) node_->run(10 * kMillisecond_ns);
    EXPECT_TRUE(held.has_value());
    return held.value_or(false);
  }

  const Config config_ = make_config(kVolumeBytes);
  const metadata::NodeRecord record_;
  std::vector<std::byte> data_ = std::vector<std::byte>(limits::kBlockBytes, std::byte{7});
  const WirePiece piece_{data_, crc32c(data_)};
  std::unique_ptr<FuzzNode> node_;
};

TEST_F(LoneZeroesTest, DataThatAreStableByThemselvesCouldBeLost) {
  begin(empty_node(config_, record_));
  EXPECT_FALSE(held_when_done(ClientOp::kWrite, false));
  EXPECT_TRUE(held_when_done(ClientOp::kWrite, true));
}

TEST_F(LoneZeroesTest, DataThatZeroesMakeStableCouldBeLost) {
  begin(empty_node(config_, record_));
  EXPECT_FALSE(held_when_done(ClientOp::kZero, true)) << "there is nothing else";
  EXPECT_FALSE(held_when_done(ClientOp::kWrite, false));
  EXPECT_TRUE(held_when_done(ClientOp::kZero, true));
}

// It may have ended before it flushed them.
TEST_F(LoneZeroesTest, DataOfAProcessBeforeCouldBeLost) {
  EXPECT_TRUE(held_when_done(ClientOp::kFlush, false));
}

TEST_F(LoneZeroesTest, DataCouldBeLostAlsoWhenTheyAreANewVolume) {
  begin(empty_node(config_, record_));
  ASSERT_FALSE(held_when_done(ClientOp::kWrite, false));
  ASSERT_TRUE(held_when_done(ClientOp::kFlush, false));
  bool done = false;
  node_->engine->orders().demote([&done](const Result<std::string>& said) { done = said.ok(); });
  for (int i = 0; i < 1000 && !done; ++i) node_->run(10 * kMillisecond_ns);
  ASSERT_TRUE(done);
  done = false;
  node_->engine->orders().init(true, false, [&done](const Result<std::string>& said) { done = said.ok(); });
  for (int i = 0; i < 1000 && !done; ++i) node_->run(10 * kMillisecond_ns);
  ASSERT_TRUE(done);
  EXPECT_TRUE(load_plain(node_->metadata.contents, record_).record.held_data);
}

TEST_F(LoneZeroesTest, DataCouldBeLostAsSoonAsTheyAreFlushed) {
  begin(empty_node(config_, record_));
  EXPECT_FALSE(held_when_done(ClientOp::kFlush, false));
  EXPECT_FALSE(held_when_done(ClientOp::kWrite, false));
  EXPECT_TRUE(held_when_done(ClientOp::kFlush, false));
}

// What the peer is told to be stable here.
class ZeroesBesidePeerTest : public BesidePeerTest {
 protected:
  ZeroesBesidePeerTest() : BesidePeerTest(1) {}
  // What is on record in the moment in which the peer is told that it is done.
  bool held_when_done(wire::FrameHeader header, std::span<const std::byte> payload = {}) {
    const uint64_t request = peer_->next_sequence();
    header.sequence = request;
    // What is to be recorded takes a moment, in which nobody may be told.
    node_->metadata.hung_until_ns = node_->scheduler.now_ns() + 100 * kMillisecond_ns;
    peer_->send(0, wire::seal(header, payload));
    peer_->send(0, payload);
    for (int i = 0; i < 1000 && !answers_.contains(request); ++i) node_->run(kMillisecond_ns);
    EXPECT_TRUE(answers_.contains(request));
    return load_plain(node_->metadata.contents, record_).record.held_data;
  }
  bool held_after_write(bool fua) {
    return held_when_done(wire::to_header(wire::DataFrame{.length_bytes = data_.size(), .fua = fua}), data_);
  }

  const std::vector<std::byte> data_ = std::vector<std::byte>(limits::kBlockBytes, std::byte{7});
};

TEST_F(ZeroesBesidePeerTest, DataThatThePeerFlushesHereCouldBeLost) {
  EXPECT_FALSE(held_after_write(false));
  EXPECT_TRUE(held_when_done(wire::to_header(wire::FlushFrame{})));
}

TEST_F(ZeroesBesidePeerTest, DataThatThePeerMakesStableHereCouldBeLost) {
  EXPECT_FALSE(held_after_write(false));
  EXPECT_TRUE(held_after_write(true));
}

TEST_F(ZeroesBesidePeerTest, DataThatThePeersZeroesMakeStableHereCouldBeLost) {
  const wire::DataFrame zeroes{.length_bytes = data_.size(), .fua = true, .zero = true};
  EXPECT_FALSE(held_when_done(wire::to_header(zeroes))) << "there is nothing else";
  EXPECT_FALSE(held_after_write(false));
  EXPECT_TRUE(held_when_done(wire::to_header(zeroes)));
}

}  // namespace
}  // namespace twinblock::fuzz
