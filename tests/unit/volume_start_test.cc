// Whose metadata a node takes for its own when it starts, and what its cache begins with: an engine on virtual parts.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fuzz_node.h"
#include "metadata_image.h"
#include "volume_beside_peer_support.h"

namespace twinblock::fuzz {
namespace {

// What alpha of volume r0 says when it is to start with this record.
Status start_with(const metadata::NodeRecord& record) {
  const Config config = make_config(kVolumeBytes);
  std::vector<std::byte> file = plain_file(record);
  metadata::Loaded loaded = load_plain(file, record);
  FuzzNode node(config, "alpha", std::move(file), std::move(loaded), DataFound::kSome);
  return node.engine->start();
}

// A mistyped path, say: what the record says of generations and of what the peer misses is true of another replica.
TEST(Start, IsRefusedWithMetadataOfTheOtherNodeOrOfAnotherVolume) {
  metadata::NodeRecord record = plain_record("alpha", {kVolumeBytes, 64 * kKiB});
  EXPECT_TRUE(start_with(record).ok());
  record.node = "beta";
  Status started = start_with(record);
  ASSERT_FALSE(started.ok());
  EXPECT_NE(started.error().what.find("belongs to node 'beta'"), std::string::npos) << started.error().what;
  record.node = "alpha";
  record.volume = "r1";
  started = start_with(record);
  ASSERT_FALSE(started.ok());
  EXPECT_NE(started.error().what.find("of volume 'r1'"), std::string::npos) << started.error().what;
}

class CacheAtTheStart : public testing::Test {
 protected:
  FuzzNode& begin(uint64_t seed = 3) {
    std::vector<std::byte> file = plain_file(record_);
    metadata::Loaded loaded = load_plain(file, record_);
    node_.emplace(config_, "alpha", std::move(file), std::move(loaded), DataFound::kSome, nullptr, nullptr, 0,
                  nullptr, seed);
    return *node_;
  }
  std::vector<ContentTag> tags_of_a_block(uint64_t seed) {
    const std::vector<std::byte> block(limits::kBlockBytes, std::byte{7});
    return begin(seed).engine->worker_view().cache()->tags_of(0, block);
  }

  Config config_ = make_config(kVolumeBytes);
  const metadata::NodeRecord record_ = plain_record("alpha", {kVolumeBytes, 64 * kKiB});
  std::optional<FuzzNode> node_;
};

// Whoever knows the key can write two blocks that count as one, and read what another client has written.
TEST_F(CacheAtTheStart, ItsDigestsHaveAKeyThatNobodyKnows) {
  config_.cache_bytes = 16 * kMiB;
  const std::vector<ContentTag> one = tags_of_a_block(3), again = tags_of_a_block(3), other = tags_of_a_block(5);
  ASSERT_EQ(one.size(), 1u);
  ASSERT_EQ(other.size(), 1u);
  EXPECT_EQ(std::memcmp(&one[0], &again[0], sizeof(ContentTag)), 0);
  EXPECT_NE(std::memcmp(&one[0], &other[0], sizeof(ContentTag)), 0);
}

// A node that does not start is gone; one without a cache is slower.
TEST_F(CacheAtTheStart, OneForWhichThereIsNoMemoryIsLeftOut) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer ends a process that asks for so much";
#endif
  config_.cache_bytes = uint64_t{1} << 60;
  FuzzNode& node = begin();
  EXPECT_EQ(node.engine->worker_view().cache(), nullptr);
  EXPECT_TRUE(node.engine->start().ok());
}

// Of a node without its peer.
class AStop : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(node_->engine->start().ok());
    node_->run(kSecond_ns);
  }
  [[nodiscard]] metadata::NodeRecord recorded() const { return load_plain(node_->metadata.contents, record_).record; }
  void promote() {
    node_->engine->orders().promote({}, [](const Result<std::string>& said) { EXPECT_TRUE(said.ok()); });
    node_->run(kSecond_ns);
    ASSERT_TRUE(recorded().primary);
  }
  void have_a_flush_on_record() {
    node_->data.flushes_since_ns = node_->clock->now_ns();
    node_->run(limits::kFlushOnRecord_ns + 2 * kSecond_ns);
    ASSERT_TRUE(recorded().flush_failed) << "the next process would take it for one that failed";
  }
  void stop() {
    node_->engine->shut_down(false, [this] { stopped_ = true; });
  }

  const Config config_ = make_config(kVolumeBytes);
  const metadata::NodeRecord record_ = plain_record("alpha", {kVolumeBytes, 64 * kKiB});
  const std::unique_ptr<FuzzNode> node_ = plain_node(config_, record_);
  bool stopped_ = false;
};

// The next process would compare, or copy, all that there is.
TEST_F(AStop, WaitsUntilItIsOnRecordThatNoFlushIsUnderWay) {
  ASSERT_NO_FATAL_FAILURE(have_a_flush_on_record());
  node_->data.flushes_since_ns = 0;  // it ends well
  node_->metadata.hung_until_ns = node_->scheduler.now_ns() + kSecond_ns;
  stop();
  node_->run(kSecond_ns / 2);
  EXPECT_FALSE(stopped_);
  node_->run(kSecond_ns);
  EXPECT_TRUE(stopped_);
  EXPECT_FALSE(recorded().flush_failed);
}

// Of a secondary it may be the peer's.
TEST_F(AStop, WaitsForAFlushThatTakesLong) {
  ASSERT_NO_FATAL_FAILURE(have_a_flush_on_record());
  stop();
  node_->run(60 * kSecond_ns);
  EXPECT_FALSE(stopped_);
  node_->data.flushes_since_ns = 0;
  node_->run(2 * kSecond_ns);
  EXPECT_TRUE(stopped_);
  EXPECT_FALSE(recorded().flush_failed);
}

// The next process would go on as primary, against the order.
TEST_F(AStop, WaitsForADemotionThatIsUnderWay) {
  ASSERT_NO_FATAL_FAILURE(promote());
  node_->data.hung_until_ns = node_->scheduler.now_ns() + 4 * kSecond_ns;
  bool demoted = false;
  node_->engine->orders().demote([&demoted](const Result<std::string>& said) { demoted = said.ok(); });
  node_->run(kSecond_ns);
  stop();
  node_->run(2 * kSecond_ns);
  EXPECT_FALSE(stopped_);
  EXPECT_FALSE(demoted);
  node_->run(2 * kSecond_ns);
  EXPECT_TRUE(demoted);
  EXPECT_TRUE(stopped_);
  EXPECT_FALSE(recorded().primary);
}

// It has failed, and what the stop does by itself is tried once more: there is nobody to order it again.
TEST_F(AStop, DemotesWhereADemotionThatWasUnderWayFails) {
  ASSERT_NO_FATAL_FAILURE(promote());
  node_->metadata.hung_until_ns = node_->scheduler.now_ns() + kSecond_ns;
  node_->data.error = EIO;
  node_->data.failures = 1;
  node_->data.hung_until_ns = node_->scheduler.now_ns() + kSecond_ns;
  std::optional<bool> demoted;
  node_->engine->orders().demote([&demoted](const Result<std::string>& said) { demoted = said.ok(); });
  stop();
  node_->run(10 * kSecond_ns);
  EXPECT_EQ(demoted, false);
  EXPECT_TRUE(stopped_);
}

class AStopBesideAPeer : public BesidePeerTest {
 protected:
  AStopBesideAPeer() : BesidePeerTest(1) {}
};

// A primary's clients wait for what their node has asked of this one.
TEST_F(AStopBesideAPeer, EndsTheSessionBeforeASlowFlushHasEnded) {
  node_->data.flushes_since_ns = node_->scheduler.now_ns();
  node_->run(limits::kFlushOnRecord_ns + 2 * kSecond_ns);
  bool stopped = false;
  bool heard = false;
  peer_->hears = [&heard](const wire::FrameHeader& header) {
    heard |= header.type == static_cast<uint8_t>(wire::FrameType::kGoodbye);
  };
  node_->engine->shut_down(false, [&stopped] { stopped = true; });
  node_->run(kSecond_ns);
  EXPECT_TRUE(heard);
  EXPECT_FALSE(stopped);
  node_->data.flushes_since_ns = 0;
  node_->run(5 * kSecond_ns);
  EXPECT_TRUE(stopped);
}

}  // namespace
}  // namespace twinblock::fuzz
