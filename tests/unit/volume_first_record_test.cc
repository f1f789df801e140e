// What a volume that begins knows of the data that it begins with, and says of the peer's: an engine on virtual parts, and
// the fuzzers' peer.
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fuzz_node.h"
#include "hostile_peer.h"
#include "metadata_image.h"

namespace twinblock::fuzz {
namespace {

constexpr uint64_t kVolumeBytes = 256 * kKiB;

// Whether a volume that was begun where `found` was found counts an empty backing as a lost one.
bool holds_data_from_the_begin_on(DataFound found) {
  const Config config = make_config(kVolumeBytes);
  const metadata::NodeRecord record = plain_record("alpha", {kVolumeBytes, 64 * kKiB});
  std::vector<std::byte> file = plain_file(record);
  metadata::Loaded loaded = load_plain(file, record);
  FuzzNode node(config, "alpha", std::move(file), std::move(loaded), found);
  EXPECT_TRUE(node.engine->start().ok());
  bool begun = false;
  node.engine->orders().init(true, false, [&begun](const Result<std::string>& said) { begun = said.ok(); });
  node.run(kSecond_ns);
  EXPECT_TRUE(begun);
  return load_plain(node.metadata.contents, record).record.held_data;
}

// The device was exchanged for an empty one while its host was down, say, before any client had written: the peer has what
// was copied to it, and this node must not pass for its equal.
TEST(FirstRecord, DataThatWereThereBeforeTheVolumeAreMissedWhenTheyAreGone) {
  EXPECT_TRUE(holds_data_from_the_begin_on(DataFound::kSome));
  EXPECT_FALSE(holds_data_from_the_begin_on(DataFound::kNone));
  EXPECT_FALSE(holds_data_from_the_begin_on(DataFound::kUnknown)) << "it may be empty, and was not lost then";
}

using Stance = HostilePeer::Stance;

class BeginsBesidePeerTest : public testing::Test {
 protected:
  ~BeginsBesidePeerTest() override {
    node_->engine.reset();
    peer_.reset();
  }
  void begin(std::unique_ptr<FuzzNode> node) {
    node_ = std::move(node);
    ASSERT_TRUE(node_->engine->start().ok());
  }
  void begin_blank() { begin(blank_node(config_, DataFound::kSome)); }
  // … and the node hears it, and has no session with it.
  void hear(Stance stance, bool joins = true) {
    peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
    peer_->take(stance, 0, 2);
    peer_->joins = joins;
    node_->run(5 * kSecond_ns);
    ASSERT_FALSE(node_->engine->inside().session_stands());
    ASSERT_TRUE(node_->engine->status().peer.facts);
  }
  // What is answered to `init --force`.
  std::string force() {
    std::string answer;
    node_->engine->orders().init(true, false, [&answer](const Result<std::string>& said) {
      answer = said.ok() ? said.value() : "refused: " + said.error().what;
    });
    node_->run(kSecond_ns);
    return answer;
  }

  const Config config_ = make_config(kVolumeBytes);
  const metadata::NodeRecord record_ = plain_record("alpha", {kVolumeBytes, 64 * kKiB});
  std::unique_ptr<FuzzNode> node_;
  std::unique_ptr<HostilePeer> peer_;
};

TEST_F(BeginsBesidePeerTest, NothingIsPromisedOfAPeerThatHoldsAnotherVolume) {
  begin_blank();
  hear(Stance::kUnrelated);
  const std::string said = force();
  EXPECT_TRUE(said.starts_with("initialised; beta holds another volume (volume ")) << said;
  EXPECT_NE(said.find("nothing in common with this one: it is refused until one of the two joins"), std::string::npos) << said;
  EXPECT_NE(said.find("`twinblock init r0 --join`"), std::string::npos) << said;
  EXPECT_EQ(said.find("promote"), std::string::npos) << said;
  node_->run(60 * kSecond_ns);
  EXPECT_EQ(node_->engine->status().state, VolumeState::kRefused) << "that is how it ends";
}

TEST_F(BeginsBesidePeerTest, APeerThatWasNotHeardIsCopiedToIfItIsBlank) {
  begin_blank();
  EXPECT_EQ(force(), "initialised; beta is copied from this node if it is blank. Next: twinblock promote r0");
}

TEST_F(BeginsBesidePeerTest, ABlankPeerIsCopiedTo) {
  begin_blank();
  hear(Stance::kBlank);
  EXPECT_EQ(force(), "initialised; beta will be copied from this node. Next: twinblock promote r0");
}

// What it said of itself last was that it is blank.
TEST_F(BeginsBesidePeerTest, APeerThatHasJoinedIsNotBlankAnyMore) {
  begin(plain_node(config_, record_));
  peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
  peer_->take(Stance::kBlank, 0, 0);
  for (int i = 0; i < 100 && !node_->engine->inside().session_stands(); ++i) node_->run(100 * kMillisecond_ns);
  ASSERT_TRUE(node_->engine->inside().session_stands());
  peer_->vanish();
  node_->run(5 * kSecond_ns);
  const std::string said = force();
  EXPECT_NE(said.find("The replica on beta has nothing in common with this one any more"), std::string::npos) << said;
  EXPECT_EQ(said.find("will be copied"), std::string::npos) << said;
}

TEST_F(BeginsBesidePeerTest, ABlankPeerWithDataIsToBeOrderedToJoin) {
  for (const bool blank : {true, false}) {
    begin(blank ? blank_node(config_, DataFound::kSome) : plain_node(config_, record_));
    hear(Stance::kBlank, false);
    const std::string said = force();
    EXPECT_NE(said.find("on beta run `twinblock init r0 --join`"), std::string::npos) << said;
    EXPECT_EQ(said.find("will be copied"), std::string::npos) << said;
    EXPECT_EQ(said.find("is refused until"), std::string::npos) << said;
    EXPECT_EQ(said.find("what was here is forgotten") == std::string::npos, blank) << said;
    node_->engine.reset();
    peer_.reset();
  }
}

}  // namespace
}  // namespace twinblock::fuzz
