// A node that is promoted without its peer asks the witness: an engine on virtual parts, and an entry that is told and
// replaced by hand.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fuzz_node.h"
#include "metadata_image.h"

namespace twinblock::fuzz {
namespace {

constexpr uint64_t kVolumeBytes = 256 * kKiB;
constexpr uint32_t kRegionBytes = 64 * kKiB;
constexpr uint64_t kGeneration = 11;
constexpr uint64_t kClaim = 12;

class WrittenWitness final : public Witness {
 public:
  struct Replacement {
    int64_t revision;
    WitnessEntry entry;
  };

  void read(const std::string&, const std::string&, std::function<void(Result<WitnessReading>)> done) override {
    answer([this, done = std::move(done)] { done(reading); });
  }
  void replace(const std::string&, int64_t revision, const WitnessEntry& entry,
               std::function<void(Result<bool>)> done) override {
    replacements.push_back({revision, entry});
    answer([this, revision, entry, done = std::move(done)] {
      const bool current = revision == reading.revision;
      if (current) reading = {entry, revision + 1};
      done(current);
    });
  }
  [[nodiscard]] std::string name() const override { return "a witness in writing"; }

  WitnessReading reading;
  std::vector<Replacement> replacements;
  sim::Scheduler* scheduler = nullptr;  // of the node that asks

 private:
  void answer(sim::Action said) { scheduler->after(kMillisecond_ns, nullptr, std::move(said)); }
};

class ConsentTest : public testing::Test {
 protected:
  ConsentTest() : config_(make_config(kVolumeBytes)) {
    config_.witness.kind = WitnessKind::kEtcd;
    config_.witness.endpoints = {"http://10.0.0.3:2379"};
    config_.witness.timeout_ns = kSecond_ns;
    record_.volume_uuid[0] = 1;
    record_.volume = "r0";
    record_.node = "alpha";
    record_.size_bytes = kVolumeBytes;
    record_.region_bytes = kRegionBytes;
    record_.generations.current = record_.generations.base = kGeneration;
    witness_.reading = {entry(kGeneration, ""), 5};
  }
  ~ConsentTest() override { node_.reset(); }

  [[nodiscard]] WitnessEntry entry(uint64_t generation, const std::string& holder) const {
    return {metadata::format_uuid(record_.volume_uuid), generation, holder};
  }
  // A process of the node begins, and is ordered to become primary while nothing is heard of its peer. Whether it is.
  bool promoted() {
    std::vector<std::byte> file = plain_file(record_);
    Result<metadata::Loaded> loaded =
        metadata::load(metadata::reader_of(file), file.size(), kVolumeBytes, "r0.meta");
    require(loaded.ok() && !loaded.value().blank, "the test's own metadata");
    node_ = std::make_unique<FuzzNode>(config_, "alpha", std::move(file), std::move(loaded.value()),
                                       DataFound::kSome, &witness_);
    witness_.scheduler = &node_->scheduler;
    EXPECT_TRUE(node_->engine->start().ok());
    node_->run(limits::kLeaseMax_ns + config_.peer_timeout_ns);  // what an earlier process may have told its peer
    std::optional<bool> answer;
    node_->engine->orders().promote({}, [&](Result<std::string> said) { answer = said.ok(); });
    for (int i = 0; i < 100 && !answer; ++i) node_->run(100 * kMillisecond_ns);
    EXPECT_TRUE(answer.has_value());
    return answer.value_or(false);
  }

  Config config_;
  metadata::NodeRecord record_;
  WrittenWitness witness_;
  std::unique_ptr<FuzzNode> node_;
};

TEST_F(ConsentTest, AKnownEntryIsReplacedByTheClaim) {
  EXPECT_TRUE(promoted());
  ASSERT_EQ(witness_.replacements.size(), 1u);
  EXPECT_EQ(witness_.replacements[0].revision, 5);
  EXPECT_EQ(witness_.replacements[0].entry.holder, "alpha");
  EXPECT_NE(witness_.replacements[0].entry.generation, kGeneration);
}

TEST_F(ConsentTest, AnEntryOfTheOtherOneRefuses) {
  witness_.reading = {entry(kClaim, "beta"), 5};
  EXPECT_FALSE(promoted());
  EXPECT_TRUE(witness_.replacements.empty());
}

// The answer to an earlier question was lost. The peer may have read that entry as well, and have its own replacement
// under way: by the new revision it comes too late.
TEST_F(ConsentTest, ItsOwnClaimIsPutThereAnew) {
  record_.claim = kClaim;
  witness_.reading = {entry(kClaim, "alpha"), 5};
  EXPECT_TRUE(promoted());
  ASSERT_EQ(witness_.replacements.size(), 1u);
  EXPECT_EQ(witness_.replacements[0].revision, 5);
  EXPECT_EQ(witness_.replacements[0].entry, entry(kClaim, "alpha"));
  EXPECT_EQ(witness_.reading.revision, 6);
}

}  // namespace
}  // namespace twinblock::fuzz
