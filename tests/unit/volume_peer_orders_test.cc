// What the peer may order of the volume as a whole, its compression and its size: an engine on virtual parts, and the
// fuzzers' peer. (About links: volume_link_orders_test.)
#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "volume_beside_peer_support.h"

namespace twinblock::fuzz {
namespace {

class PeerOrdersTest : public BesidePeerTest {
 protected:
  PeerOrdersTest() : BesidePeerTest(1) {}
  template <typename Frame>
  void tell(const Frame& frame) {
    wire::FrameHeader header = wire::to_header(frame);
    wire::set_order(header, ++*peer_->control());
    peer_->send(0, wire::seal(header, {}));
    node_->run(50 * kMillisecond_ns);
    ASSERT_TRUE(stands());
  }
  // The answer to the order that the volume is to have this size; ETIMEDOUT: none.
  uint32_t grow(uint64_t size_bytes) {
    const uint64_t asked = peer_->next_sequence();
    tell(wire::GrowFrame{.request = asked, .size_bytes = size_bytes});
    return answer_to(asked);
  }
};

// Taken over, it would be held against every order about compression that is given here.
TEST_F(PeerOrdersTest, OneAboutCompressionWhoseNumberNoneCanHaveIsNotHeeded) {
  const int level = node_->engine->status().compression.level;
  ASSERT_NE(level, 7);
  tell(wire::CompressionFrame{.mode = 1, .level = 7, .number = ~uint64_t{0}});
  EXPECT_EQ(node_->engine->status().compression.level, level);
  tell(wire::CompressionFrame{.mode = 1, .level = 5, .number = 1});
  EXPECT_EQ(node_->engine->status().compression.level, 5);
}

// A process that is new counts from the beginning: what its operator ordered is the latest one nevertheless.
TEST_F(PeerOrdersTest, OneAboutCompressionThatThePeerKnewBeforeDoesNotUndoThatOfANewProcess) {
  std::vector<uint64_t> told;  // numbers
  peer_->hears = [&told](const wire::FrameHeader& header) {
    if (header.type == static_cast<uint8_t>(wire::FrameType::kCompression))
      told.push_back(wire::frame_as<wire::CompressionFrame>(header).number);
  };
  node_->engine->orders().set_compression(Compression::kOn, 3, [](const Result<std::string>&) {});
  tell(wire::CompressionFrame{.mode = 1, .level = 7, .number = ~uint64_t{0}});
  tell(wire::CompressionFrame{.mode = 1, .level = 5, .number = 5});
  EXPECT_EQ(node_->engine->status().compression.level, 3);
  peer_tells_its_settings();
  EXPECT_EQ(told, (std::vector<uint64_t>{1, 6}));
  peer_tells_its_settings();
  EXPECT_EQ(told.size(), 2u);
  tell(wire::CompressionFrame{.mode = 1, .level = 9, .number = 7});
  EXPECT_EQ(node_->engine->status().compression.level, 9) << "a later one";
}

// Its operator may have given another one at the same time, and that one may count.
TEST_F(PeerOrdersTest, WhoOrdersCompressionHearsThatThePeerIsTold) {
  std::string said;
  node_->engine->orders().set_compression(Compression::kOn, 3,
                                          [&said](const Result<std::string>& result) { said = result.value(); });
  EXPECT_EQ(said, "compression is on, level 3, here; beta is told");
}

// What the command line tool, or a peer in order, would never ask for: a smaller one would cut data off.
TEST_F(PeerOrdersTest, OneForASizeThatAVolumeCanNotHaveIsRefused) {
  for (const uint64_t size_bytes : {kVolumeBytes + 1, kVolumeBytes / 2}) {
    ASSERT_EQ(grow(size_bytes), static_cast<uint32_t>(EINVAL)) << size_bytes;
    node_->run(kSecond_ns);
    EXPECT_EQ(node_->engine->status().size_bytes, kVolumeBytes);
    EXPECT_EQ(node_->engine->status().growing_to_bytes, 0u);
  }
}

}  // namespace
}  // namespace twinblock::fuzz
