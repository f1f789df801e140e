// What a client lets become a hole, and what it does not: an engine on virtual parts, and the fuzzers' peer.
#include <gtest/gtest.h>

#include <vector>

#include "base/crc32c.h"
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

}  // namespace
}  // namespace twinblock::fuzz
