// A record that is about another backing than the one that the node finds, or about one that was not empty: an engine
// on virtual parts, the fuzzers' peer, and processes one after the other, with backings that are told apart by their
// numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz_node.h"
#include "hostile_peer.h"
#include "io/posix/backing_number.h"
#include "metadata_image.h"
#include "wire/codec.h"

namespace twinblock::fuzz {
namespace {

constexpr uint64_t kVolumeBytes = 256 * kKiB;
constexpr uint32_t kRegionBytes = 64 * kKiB;
constexpr uint64_t kBoot = 7;
constexpr uint64_t kRight = 101, kOther = 102;
constexpr uint64_t kSystemDisk = 201;

class OtherBackingTest : public testing::Test {
 protected:
  OtherBackingTest() : config_(make_config(kVolumeBytes)), record_(plain_record("alpha", {kVolumeBytes, kRegionBytes})) {
    record_.held_data = true;
    record_.backing_number = kRight;
    record_.metadata_number = kSystemDisk;
    put(record_);
  }
  ~OtherBackingTest() override { end(); }

  // It had gone on without its peer when its process ended.
  [[nodiscard]] metadata::NodeRecord primary_alone() const {
    metadata::NodeRecord record = record_;
    record.primary = record.dirty = true;
    record.boot = record.promoted_boot = kBoot;
    record.term = 2;
    record.generations.current = 12;
    return record;
  }
  // With the record that there is, or with what the last process has left.
  void begin(uint64_t backing_number, DataFound found = DataFound::kSome) {
    end();
    Result<metadata::Loaded> read =
        metadata::load(metadata::reader_of(std::as_bytes(std::span(file_))), file_.size(), kVolumeBytes, "alpha.meta");
    ASSERT_TRUE(read.ok());
    metadata::Loaded loaded = std::move(read.value());
    if (loaded.blank) loaded.record.region_bytes = kRegionBytes;
    node_ = std::make_unique<FuzzNode>(config_, "alpha", file_, std::move(loaded), found, nullptr, nullptr, kBoot, nullptr, 3,
                                       false, limits::kControlBytesMax, BackingNumbers{backing_number, metadata_number_});
    node_->logs = [this](const std::string& line) {
      told_ |= line.find("is another file or disk") != std::string::npos;
      stays_secondary_ |= line.find("does not go on as primary: its backing") != std::string::npos;
    };
    told_ = false;
    ASSERT_TRUE(node_->engine->start().ok());
  }
  void begin_with(const metadata::NodeRecord& record, uint64_t backing_number) {
    end();
    put(record);
    begin(backing_number);
  }
  // Not as the first record of its volume, which names no backing.
  void put(const metadata::NodeRecord& record) {
    file_ = plain_file(record);
    const auto bytes = metadata::encode(record, 2);
    for (const uint64_t offset : metadata::kSuperblockOffset)
      std::copy(bytes.begin(), bytes.end(), file_.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  void end() {
    if (!node_) return;
    file_ = node_->metadata.contents;
    node_->engine.reset();
    peer_.reset();
    node_.reset();
  }
  void meet(HostilePeer::Stance stance, bool primary) {
    peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
    peer_->take(stance, primary ? 1 : 0, 1);
    for (int i = 0; i < 100 && !node_->engine->inside().session_stands(); ++i) node_->run(100 * kMillisecond_ns);
    ASSERT_TRUE(node_->engine->inside().session_stands());
  }
  // What the source makes this node record.
  void tell(uint32_t flag) {
    peer_->tell_generation(0, record_.generations, flag);
    node_->run(kSecond_ns);
  }
  void be_filled() {
    meet(HostilePeer::Stance::kSame, true);
    tell(wire::kGenerationInconsistent);
    tell(wire::kGenerationConsistent);
    ASSERT_EQ(node_->engine->status().dirty_bytes, 0u);
  }
  [[nodiscard]] bool promoted(bool peer_is_dead) {
    bool done = false;
    node_->engine->orders().promote({peer_is_dead},
                                    [this, &done](const Result<std::string>& said) {
                                      done = said.ok();
                                      said_ = said.ok() ? said.value() : said.error().what + "; " + said.error().action;
                                    });
    node_->run(kSecond_ns);
    return done;
  }
  [[nodiscard]] metadata::NodeRecord on_record() const { return load_plain(node_->metadata.contents, record_).record; }
  [[nodiscard]] uint64_t dirty_bytes() const { return node_->engine->status().dirty_bytes; }
  [[nodiscard]] bool doubted() const { return node_->engine->status().mine.other_backing; }

  Config config_;
  metadata::NodeRecord record_;
  std::vector<std::byte> file_;
  bool told_ = false, stays_secondary_ = false;
  std::string said_;
  std::unique_ptr<FuzzNode> node_;
  std::unique_ptr<HostilePeer> peer_;
  uint64_t metadata_number_ = kSystemDisk;  // from the next process on
};

TEST_F(OtherBackingTest, AllOfItMayDifferAndThatIsTold) {
  begin(kOther);
  EXPECT_EQ(dirty_bytes(), kVolumeBytes);
  EXPECT_TRUE(doubted());
  EXPECT_TRUE(told_);
  const std::vector<Event> events = std::as_const(*node_->engine).events().log().after(0, 1000);
  EXPECT_TRUE(std::any_of(events.begin(), events.end(),
                          [](const Event& event) { return std::string_view(event.name) == "other-backing"; }));
  begin(kOther);
  EXPECT_TRUE(doubted()) << "nothing has shown by now that it is the right one";
  begin(kRight);
  EXPECT_EQ(dirty_bytes(), 0u);
  EXPECT_FALSE(doubted() || told_) << "nothing has happened to it";
}

// … but for what a list names that was written in order.
TEST_F(OtherBackingTest, NoListFromBeforeSaysWhatItLacks) {
  metadata::NodeRecord record = record_;
  record.dirty = record.snapshot = true;  // it names nothing
  begin_with(record, kOther);
  EXPECT_EQ(dirty_bytes(), kVolumeBytes);
  be_filled();
  begin(kOther);
  EXPECT_EQ(dirty_bytes(), 0u);
}

TEST_F(OtherBackingTest, WhatCantBeToldApartIsBelieved) {
  record_.backing_number = kBackingTellsNothing;
  begin_with(record_, kBackingTellsNothing);
  EXPECT_EQ(dirty_bytes(), 0u);
  EXPECT_FALSE(doubted());
  record_.backing_number = 0;  // by an older version
  begin_with(record_, kOther);
  EXPECT_EQ(dirty_bytes(), 0u);
  EXPECT_FALSE(doubted());
  metadata::NodeRecord primary = primary_alone();
  primary.backing_number = 0;
  begin_with(primary, kOther);
  node_->run(30 * kSecond_ns);
  ASSERT_TRUE(node_->engine->is_primary());
  EXPECT_EQ(on_record().backing_number, kOther) << "as with anything that is recorded";
  begin(kRight);
  EXPECT_TRUE(doubted());
}

// A wrong disk that told nothing was filled, and the right one is back; or the other way round.
TEST_F(OtherBackingTest, OneThatTellsNothingIsNotOneThatTells) {
  for (const auto& [recorded, here] : {std::pair{kRight, kBackingTellsNothing}, {kBackingTellsNothing, kRight}}) {
    metadata::NodeRecord record = record_;
    record.backing_number = recorded;
    begin_with(record, here);
    EXPECT_TRUE(doubted()) << here;
    begin_with(record, recorded);
    EXPECT_FALSE(doubted()) << recorded;
  }
  begin_with(record_, kBackingTellsNothing);
  be_filled();
  EXPECT_EQ(on_record().backing_number, kBackingTellsNothing);
  begin(kRight);
  EXPECT_TRUE(doubted());
}

TEST_F(OtherBackingTest, ItIsTheTargetOfOneInTheSameGenerationAndIsOnRecordBeforeItIsWritten) {
  begin(kOther);
  meet(HostilePeer::Stance::kSame, false);
  EXPECT_EQ(node_->engine->inside().phase(), Phase::kBehind);
  EXPECT_EQ(on_record().backing_number, kRight) << "nothing was written there";
  tell(wire::kGenerationInconsistent);
  EXPECT_EQ(on_record().backing_number, kOther);
  EXPECT_TRUE(on_record().inconsistent && on_record().all_dirty);
  begin(kOther);
  EXPECT_FALSE(doubted()) << "it is half-copied, and that is on record";
  EXPECT_EQ(dirty_bytes(), kVolumeBytes);
  be_filled();
  begin(kOther);
  EXPECT_EQ(dirty_bytes(), 0u);
}

// What is acknowledged beside the empty one in its place it has not got.
TEST_F(OtherBackingTest, TheRightDiskThatIsBackWhenTheEmptyOneWasFilledIsComparedInFull) {
  begin(kOther, DataFound::kNone);
  be_filled();
  EXPECT_EQ(on_record().backing_number, kOther);
  begin(kRight);
  EXPECT_TRUE(doubted());
  EXPECT_EQ(dirty_bytes(), kVolumeBytes);
  meet(HostilePeer::Stance::kSame, true);
  EXPECT_EQ(node_->engine->inside().phase(), Phase::kBehind);
}

// The operator says that it is the right one, by serving it.
TEST_F(OtherBackingTest, OnceItWasServedItIsWhatTheRecordIsAbout) {
  begin(kOther);
  ASSERT_TRUE(promoted(true));
  EXPECT_FALSE(doubted());
  EXPECT_EQ(on_record().backing_number, kOther);
  EXPECT_TRUE(on_record().dirty && on_record().all_dirty);
  begin(kOther);
  EXPECT_FALSE(doubted());
  EXPECT_EQ(dirty_bytes(), kVolumeBytes) << "what the peer lacks is not known";
  begin(kRight);
  EXPECT_TRUE(doubted());
}

// … also where it holds nothing of what it held, which is to be said once.
TEST_F(OtherBackingTest, OnceAnEmptyOneWasServedItIsPromotedWithoutAWord) {
  begin(kRight, DataFound::kNone);
  ASSERT_FALSE(promoted(false));
  EXPECT_NE(said_.find("holds nothing but zeroes"), std::string::npos) << said_;
  ASSERT_TRUE(promoted(true)) << said_;
  node_->engine->orders().demote([](const Result<std::string>& said) { EXPECT_TRUE(said.ok()); });
  node_->run(kSecond_ns);
  ASSERT_FALSE(node_->engine->is_primary());
  EXPECT_TRUE(promoted(false)) << said_;
}

// Where data lie by then, nothing shows any more that the peer's blocks are on no disk of this node.
TEST_F(OtherBackingTest, WhatAnEmptyOneLacksIsKnownToALaterProcess) {
  begin(kRight, DataFound::kNone);
  ASSERT_TRUE(promoted(true)) << said_;
  EXPECT_TRUE(on_record().dirty && on_record().all_dirty);
  begin(kRight);
  EXPECT_EQ(dirty_bytes(), kVolumeBytes);
}

TEST_F(OtherBackingTest, APromotionTakesTheOperatorsWord) {
  for (const uint64_t backing : {kRight, kOther}) {
    begin_with(record_, backing);
    EXPECT_EQ(promoted(false), backing == kRight) << said_;
  }
  EXPECT_NE(said_.find("another file or disk"), std::string::npos) << said_;
  EXPECT_NE(said_.find("--peer-is-dead"), std::string::npos) << said_;
  EXPECT_TRUE(doubted());
  EXPECT_TRUE(promoted(true)) << said_;
}

TEST_F(OtherBackingTest, APrimaryWhoseProcessEndedGoesOnWithTheBackingThatItHadOnly) {
  for (const uint64_t backing : {kRight, kOther}) {
    begin_with(primary_alone(), backing);
    node_->run(30 * kSecond_ns);
    EXPECT_EQ(node_->engine->is_primary(), backing == kRight) << backing;
    EXPECT_EQ(stays_secondary_, backing == kOther) << "and says so";
  }
}

TEST_F(OtherBackingTest, ANewVolumeIsAboutWhatItBeganWith) {
  for (const bool blank : {false, true}) {
    if (blank) {
      end();
      std::fill(file_.begin(), file_.end(), std::byte{0});
    }
    begin(kOther);
    ASSERT_EQ(node_->engine->status().mine.blank, blank);
    bool begun = false;
    node_->engine->orders().init(!blank, false, [&begun](const Result<std::string>& said) { begun = said.ok(); });
    node_->run(kSecond_ns);
    ASSERT_TRUE(begun);
    EXPECT_FALSE(doubted());
    EXPECT_EQ(on_record().backing_number, kOther) << blank;
  }
}

// Which says who is the source where the peer's were, too; the record becomes about what is there before that is copied.
TEST_F(OtherBackingTest, ABackingThatWasCopiedTogetherWithItsRecordIsKnownByThat) {
  for (const bool moved : {false, true}) {
    metadata_number_ = kSystemDisk + (moved ? 1 : 0);
    begin_with(record_, kOther);
    EXPECT_TRUE(told_);
    EXPECT_EQ(node_->engine->status().mine.moved_together, moved);
  }
  metadata_number_ = 0;
  begin_with(record_, kOther);
  EXPECT_FALSE(node_->engine->status().mine.moved_together) << "nothing tells";
  be_filled();
  metadata_number_ = kSystemDisk + 1;
  begin(kRight);
  EXPECT_FALSE(node_->engine->status().mine.moved_together) << "the last record says nothing of where it lay";
}

// Whose blocks were the bad ones when a repair was cut off matters no more where all are the peer's, and does where some are.
TEST_F(OtherBackingTest, ARepairThatWasCutOffIsPastWhenAllIsThePeers) {
  record_.repairing = true;
  begin_with(record_, kOther);
  ASSERT_NO_FATAL_FAILURE(be_filled());
  EXPECT_FALSE(on_record().repairing);
  EXPECT_FALSE(node_->engine->status().repair_cut_off);
  begin_with(record_, kRight);
  meet(HostilePeer::Stance::kNewer, true);
  tell(wire::kGenerationInconsistent);
  tell(wire::kGenerationConsistent);
  ASSERT_FALSE(on_record().inconsistent);
  EXPECT_TRUE(on_record().repairing);
}

// The next one of which this node is the source would stand still, which nobody has in mind then.
TEST_F(OtherBackingTest, ATargetSetsNoPaceForTheNextResync) {
  begin_with(record_, kOther);
  meet(HostilePeer::Stance::kSame, true);
  tell(wire::kGenerationInconsistent);
  for (const ResyncPace pace : {ResyncPace::kPause, ResyncPace::kRate}) {
    std::string refused;
    node_->engine->orders().set_resync_pace(pace, kMiB, [&refused](const Result<std::string>& said) {
      if (!said) refused = said.error().action;
    });
    EXPECT_EQ(refused, "give the order on beta");
  }
}

}  // namespace
}  // namespace twinblock::fuzz
