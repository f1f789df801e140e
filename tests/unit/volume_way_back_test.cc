// A way back is kept for as long as the record names it: an engine on virtual parts, the fuzzers' peer as the source of
// one resync after the other, and copies of which only is known that they were asked for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fuzz_node.h"
#include "hostile_peer.h"
#include "io/copies.h"
#include "metadata_image.h"
#include "wire/codec.h"

namespace twinblock::fuzz {
namespace {

constexpr uint64_t kVolumeBytes = 256 * kKiB;
constexpr uint32_t kRegionBytes = 64 * kKiB;
constexpr uint64_t kLong_ns = 60 * kSecond_ns;

class WrittenCopies final : public Copies {
 public:
  [[nodiscard]] bool can(CopyStep) const override { return true; }
  void begin(CopyStep step, const std::string&, std::function<void(Status)> done) override {
    steps.push_back(step);
    if (step == hangs) return;
    const Status end = step == fails ? Status(Error{"it failed", "", EIO}) : ok_status();
    scheduler->after(answers_after_ns, nullptr, [done = std::move(done), end] { done(end); });
  }
  [[nodiscard]] std::string place(CopyStep, const std::string&) const override { return "/alpha.img.before-resync"; }
  [[nodiscard]] auto count(CopyStep step) const { return std::count(steps.begin(), steps.end(), step); }

  std::vector<CopyStep> steps;
  std::optional<CopyStep> hangs, fails;
  uint64_t answers_after_ns = kMillisecond_ns;
  sim::Scheduler* scheduler = nullptr;
};

class WayBackTest : public testing::Test {
 protected:
  WayBackTest() : config_(make_config(kVolumeBytes)), record_(plain_record("alpha", {kVolumeBytes, kRegionBytes})) {
    node_ = plain_node(config_, record_, nullptr, &copies_);
    copies_.scheduler = &node_->scheduler;
    EXPECT_TRUE(node_->engine->start().ok());
  }
  ~WayBackTest() override {
    node_->engine.reset();
    peer_.reset();
  }

  // The peer, which is primary and has written since it had this node with it.
  void meet() {
    peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
    peer_->take(HostilePeer::Stance::kNewer, 1, ++term_);
    for (int i = 0; i < 100 && !node_->engine->inside().session_stands(); ++i) node_->run(100 * kMillisecond_ns);
    ASSERT_TRUE(node_->engine->inside().session_stands());
    record_.generations.advance(++generation_);
  }
  void part() {
    peer_->vanish();
    for (int i = 0; i < 100 && node_->engine->inside().session_stands(); ++i) node_->run(100 * kMillisecond_ns);
    ASSERT_FALSE(node_->engine->inside().session_stands());
    peer_.reset();
  }
  // What the source makes this node record.
  void tell(uint32_t flag) {
    metadata::Generations told = record_.generations;
    if (flag == wire::kGenerationConsistent) told.settle();
    peer_->tell_generation(0, told, flag);
    node_->run(kSecond_ns);
  }
  // … which it asks again, as a copy is taken first.
  void tell_half_copied() {
    tell(wire::kGenerationInconsistent);
    tell(wire::kGenerationInconsistent);
  }

  // Its next process, with what is in its files then.
  void begin_anew(std::vector<std::byte> file, DataFound found, uint64_t backing_number = 0) {
    peer_.reset();
    metadata::Loaded loaded = load_plain(file, record_);
    node_ = std::make_unique<FuzzNode>(config_, "alpha", std::move(file), std::move(loaded), found, nullptr, &copies_, 0,
                                       nullptr, 3, false, limits::kControlBytesMax, BackingNumbers{backing_number});
    copies_.scheduler = &node_->scheduler;
  }
  // … and knew of no block that the other one lacked.
  std::vector<std::byte> file_of_one_that_held_data() {
    record_.held_data = record_.dirty = record_.snapshot = true;
    return plain_file(record_);
  }
  // Of a node that has just been made.
  void expect_no_way_back() {
    copies_.scheduler = &node_->scheduler;
    ASSERT_TRUE(node_->engine->start().ok());
    meet();
    tell_half_copied();
    EXPECT_EQ(copies_.count(CopyStep::kBeforeResync), 0);
    EXPECT_FALSE(node_->engine->status().way_back.kept);
  }

  // It was whole, as its disk says late; by then there is a next session.
  void be_whole_late() {
    meet();
    tell_half_copied();
    node_->metadata.hung_until_ns = node_->scheduler.now_ns() + kLong_ns;
    tell(wire::kGenerationConsistent);
    part();
    meet();
  }

  [[nodiscard]] metadata::NodeRecord on_record() const { return load_plain(node_->metadata.contents, record_).record; }
  // From now on the metadata disk does.
  void fail_records() {
    node_->metadata.error = EIO;
    node_->metadata.failures = 1000;
  }
  void roll_back() {
    node_->engine->orders().roll_back([this](const Result<std::string>& said) { rolled_back_ = said.ok(); });
  }
  void begin_a_rollback_that_hangs() {
    meet();
    tell_half_copied();
    part();
    copies_.hangs = CopyStep::kRollback;
    roll_back();
    node_->run(kSecond_ns);
    ASSERT_EQ(copies_.count(CopyStep::kRollback), 1);
  }

  Config config_;
  metadata::NodeRecord record_;
  std::optional<bool> rolled_back_;  // what was said to that order
  uint64_t generation_ = 20, term_ = 0;
  WrittenCopies copies_;
  std::unique_ptr<FuzzNode> node_;
  std::unique_ptr<HostilePeer> peer_;
};

TEST_F(WayBackTest, TheCopyGoesWhenTheReplicaIsWhole) {
  meet();
  tell_half_copied();
  EXPECT_EQ(copies_.count(CopyStep::kBeforeResync), 1);
  EXPECT_EQ(copies_.count(CopyStep::kAfterResync), 0);
  tell(wire::kGenerationConsistent);
  EXPECT_EQ(copies_.count(CopyStep::kAfterResync), 1);
}

// By the time that the disk says it, it is half-copied anew.
TEST_F(WayBackTest, TheCopyOfTheNextResyncStays) {
  be_whole_late();
  tell_half_copied();
  EXPECT_EQ(copies_.count(CopyStep::kBeforeResync), 2);
  node_->run(2 * kLong_ns);
  EXPECT_EQ(copies_.count(CopyStep::kAfterResync), 0) << "the record says that there is a way back";
  tell(wire::kGenerationConsistent);
  EXPECT_EQ(copies_.count(CopyStep::kAfterResync), 1);
}

// … or a copy is just being taken, so that it can be.
// A primary that was to go on with this node's word does so without it then, while the session stands.
TEST_F(WayBackTest, ACopyThatFailsAtOnceLeavesTheSourceAMomentInTheSession) {
  config_.on_no_way_back = OnNoWayBack::kWait;
  copies_.fails = CopyStep::kBeforeResync;
  int lost = 0;
  node_->logs = [&lost](const std::string& line) { lost += line.find("is lost: no copy of what") != std::string::npos; };
  meet();
  tell(wire::kGenerationInconsistent);
  EXPECT_EQ(node_->engine->status().way_back.failure, "it failed");
  tell(wire::kGenerationInconsistent);
  EXPECT_EQ(lost, 0);
  node_->run(kSecond_ns);
  tell(wire::kGenerationInconsistent);
  EXPECT_EQ(lost, 1);
}

TEST_F(WayBackTest, TheCopyThatIsBeingTakenStays) {
  be_whole_late();
  tell(wire::kGenerationInconsistent);
  EXPECT_EQ(copies_.count(CopyStep::kBeforeResync), 2);
  node_->run(2 * kLong_ns);
  tell(wire::kGenerationInconsistent);
  EXPECT_EQ(copies_.count(CopyStep::kAfterResync), 0) << "the record says that there is a way back";
}

// It pins what the backing held, and nobody says that there will be another resync: its source may be gone for good.
TEST_F(WayBackTest, ACopyThatTheSourceDidNotComeBackForGoes) {
  meet();
  tell(wire::kGenerationInconsistent);
  ASSERT_EQ(copies_.count(CopyStep::kBeforeResync), 1);
  ASSERT_EQ(copies_.count(CopyStep::kAfterResync), 0) << "the source is there, and asks again";
  part();
  node_->run(kSecond_ns);
  EXPECT_EQ(copies_.count(CopyStep::kAfterResync), 1);
}

TEST_F(WayBackTest, ACopyThatIsThereWhenItsSessionIsGoneGoes) {
  copies_.answers_after_ns = config_.copies.timeout_ns;
  meet();
  tell(wire::kGenerationInconsistent);
  part();
  ASSERT_EQ(copies_.count(CopyStep::kAfterResync), 0) << "it is just being taken";
  node_->run(config_.copies.timeout_ns);
  EXPECT_EQ(copies_.count(CopyStep::kAfterResync), 1);
}

// This node's next process would still look for a copy there.
TEST_F(WayBackTest, ACopyInThePlaceOfOneThatIsOnTheDisksRecordGoesWhenItIsNotAnyMore) {
  be_whole_late();
  tell(wire::kGenerationInconsistent);
  ASSERT_EQ(copies_.count(CopyStep::kBeforeResync), 2);
  part();
  node_->run(kSecond_ns);
  ASSERT_LT(node_->scheduler.now_ns(), node_->metadata.hung_until_ns);
  EXPECT_EQ(copies_.count(CopyStep::kAfterResync), 0);
  node_->run(2 * kLong_ns);
  EXPECT_EQ(copies_.count(CopyStep::kAfterResync), 1);
}

TEST_F(WayBackTest, ACopyInThePlaceOfOneThatWasOnRecordGoesWithItsSession) {
  be_whole_late();
  tell(wire::kGenerationInconsistent);
  node_->run(2 * kLong_ns);
  ASSERT_EQ(copies_.count(CopyStep::kAfterResync), 0);
  part();
  node_->run(kSecond_ns);
  EXPECT_EQ(copies_.count(CopyStep::kAfterResync), 1);
}

// The loop stood still, say, and heard of the end of its patience first.
TEST_F(WayBackTest, ACopyThatEndsAfterItWasGivenUpIsNone) {
  copies_.answers_after_ns = config_.copies.timeout_ns + 7 * kSecond_ns;
  meet();
  tell(wire::kGenerationInconsistent);
  ASSERT_EQ(copies_.count(CopyStep::kBeforeResync), 1);
  node_->run(config_.copies.timeout_ns + 5 * kSecond_ns);
  const std::string failure = node_->engine->status().way_back.failure;
  EXPECT_NE(failure, "");
  node_->run(2 * kSecond_ns);
  EXPECT_EQ(node_->engine->status().way_back.failure, failure);
  tell(wire::kGenerationInconsistent);
  EXPECT_FALSE(node_->engine->status().way_back.kept);
  EXPECT_TRUE(node_->engine->status().mine.inconsistent) << "it goes on without one";
}

// What is shown here may not be on the disk, nor in a copy of it.
TEST_F(WayBackTest, WhatAFailedFlushMayHaveLostIsNoWayBack) {
  node_.reset();
  record_.flush_failed = true;
  node_ = plain_node(config_, record_, nullptr, &copies_);
  expect_no_way_back();
}

TEST_F(WayBackTest, APromotionThatThePeerHasGivenUpIsNotAgreedTo) {
  node_.reset();
  node_ = plain_node(config_, record_);
  ASSERT_TRUE(node_->engine->start().ok());
  peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
  int agreed = 0;
  peer_->hears = [&agreed](const wire::FrameHeader& header) {
    agreed += header.type == static_cast<uint8_t>(wire::FrameType::kPromoteAnswer) ? 1 : 0;
  };
  peer_->take(HostilePeer::Stance::kNewer, 0, 1);
  node_->run(5 * kSecond_ns);
  ASSERT_TRUE(node_->engine->inside().session_stands());
  record_.generations.advance(++generation_);
  node_->metadata.hung_until_ns = node_->scheduler.now_ns() + kLong_ns;
  tell(wire::kGenerationInconsistent);
  for (wire::FrameHeader header : {wire::to_header(wire::PromoteAskFrame{.question = 1, .term = 5}),
                                   wire::to_header(wire::RoleFrame{.primary = false, .term = 1})}) {
    wire::set_order(header, ++*peer_->control());
    peer_->send(0, wire::seal(header, {}));
    node_->run(10 * kMillisecond_ns);
  }
  node_->run(2 * kLong_ns);
  EXPECT_EQ(agreed, 0);
  EXPECT_FALSE(load_plain(node_->metadata.contents, record_).record.peer_primary);
}

// Its session is lost before its turn has come: it was told of what the two were then.
TEST_F(WayBackTest, WhatWaitedForARecordIsNothingToTheNextSession) {
  for (const bool whole : {false, true}) {
    node_->engine.reset();
    peer_.reset();
    node_ = plain_node(config_, record_);
    ASSERT_TRUE(node_->engine->start().ok());
    const auto begin_to_copy = [this] {
      peer_->take(HostilePeer::Stance::kNewer, 0, ++term_);
      for (int i = 0; i < 100 && !node_->engine->inside().session_stands(); ++i) node_->run(100 * kMillisecond_ns);
      ASSERT_TRUE(node_->engine->inside().session_stands());
      record_.generations.advance(++generation_);
      node_->metadata.hung_until_ns = node_->scheduler.now_ns() + kLong_ns;
      tell(wire::kGenerationInconsistent);
    };
    peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
    ASSERT_NO_FATAL_FAILURE(begin_to_copy());
    if (whole) {
      tell(wire::kGenerationConsistent);
    } else {
      wire::FrameHeader header = wire::to_header(wire::PromoteAskFrame{.question = 1, .term = 5});
      wire::set_order(header, ++*peer_->control());
      peer_->send(0, wire::seal(header, {}));
      node_->run(10 * kMillisecond_ns);
    }
    ASSERT_NO_FATAL_FAILURE(part());
    int agreed = 0;
    peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
    peer_->hears = [&agreed](const wire::FrameHeader& header) {
      agreed += header.type == static_cast<uint8_t>(wire::FrameType::kPromoteAnswer) ? 1 : 0;
    };
    ASSERT_NO_FATAL_FAILURE(begin_to_copy());
    node_->run(2 * kLong_ns);
    EXPECT_EQ(agreed, 0);
    EXPECT_FALSE(on_record().peer_primary);
    EXPECT_TRUE(on_record().inconsistent) << "it is half-copied";
  }
}

// What the backing holds is being replaced: it would be the new volume's.
TEST_F(WayBackTest, NoVolumeBeginsWhileItIsBroughtBack) {
  ASSERT_NO_FATAL_FAILURE(begin_a_rollback_that_hangs());
  const metadata::NodeRecord before = load_plain(node_->metadata.contents, record_).record;
  std::optional<Error> why;
  node_->engine->orders().init(true, false, [&why](const Result<std::string>& said) {
    if (!said.ok()) why = said.error();
  });
  node_->run(kSecond_ns);
  ASSERT_TRUE(why.has_value());
  EXPECT_EQ(why->code, EBUSY);
  EXPECT_NE(why->what.find("being rolled back"), std::string::npos) << why->what;
  EXPECT_EQ(load_plain(node_->metadata.contents, record_).record, before);
}

// As long as it is brought back no session may come up: its source would write to the same backing.
TEST_F(WayBackTest, WhatIsBroughtBackMayTakeAsLongAsItTakes) {
  ASSERT_NO_FATAL_FAILURE(begin_a_rollback_that_hangs());
  node_->run(config_.copies.timeout_ns + kLong_ns);
  EXPECT_FALSE(rolled_back_.has_value()) << "it may still write";
  EXPECT_TRUE(node_->engine->status().way_back.rolling_back);
  peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
  peer_->take(HostilePeer::Stance::kNewer, 1, ++term_);
  node_->run(kLong_ns);
  EXPECT_FALSE(node_->engine->inside().session_stands());
}

// After a loss of power nobody would know that what is there is of two moments.
TEST_F(WayBackTest, NothingIsBroughtBackThatIsNotOnRecord) {
  meet();
  tell_half_copied();
  part();
  fail_records();
  roll_back();
  node_->run(kSecond_ns);
  EXPECT_EQ(rolled_back_, false);
  EXPECT_EQ(copies_.count(CopyStep::kRollback), 0);
  EXPECT_EQ(copies_.count(CopyStep::kAfterResync), 0);
}

// The next process is half-copied still, by its record, and brings the copy back once more.
TEST_F(WayBackTest, ARollbackThatIsNotOnRecordHasFailed) {
  meet();
  tell_half_copied();
  part();
  copies_.answers_after_ns = kSecond_ns;
  roll_back();
  node_->run(kSecond_ns / 2);
  ASSERT_EQ(copies_.count(CopyStep::kRollback), 1);
  fail_records();
  node_->run(2 * kSecond_ns);
  EXPECT_EQ(rolled_back_, false);
  EXPECT_EQ(copies_.count(CopyStep::kAfterResync), 0);
  EXPECT_TRUE(on_record().inconsistent);
  EXPECT_TRUE(on_record().way_back);
}

// The source may die as well, and the next process offers what its record names.
TEST_F(WayBackTest, TheCopyStaysWhereItIsNotOnRecordThatTheReplicaIsWhole) {
  meet();
  tell_half_copied();
  ASSERT_TRUE(node_->engine->status().way_back.kept);
  fail_records();
  tell(wire::kGenerationConsistent);
  part();
  node_->run(kSecond_ns);
  EXPECT_EQ(copies_.count(CopyStep::kAfterResync), 0);
  EXPECT_TRUE(on_record().inconsistent);
  EXPECT_TRUE(on_record().way_back);
}

// The list names what the source lacked; what it has overwritten since, and this node goes back to, is anywhere.
TEST_F(WayBackTest, WhatIsBroughtBackIsNotWhatAnOldListNames) {
  node_.reset();
  record_.dirty = record_.snapshot = true;  // it names nothing
  node_ = plain_node(config_, record_, nullptr, &copies_);
  copies_.scheduler = &node_->scheduler;
  ASSERT_TRUE(node_->engine->start().ok());
  ASSERT_NO_FATAL_FAILURE(begin_a_rollback_that_hangs());
  begin_anew(node_->metadata.contents, DataFound::kSome);
  ASSERT_TRUE(node_->engine->start().ok());
  EXPECT_EQ(node_->engine->status().dirty_bytes, kVolumeBytes);
}

// What the lost session had sent would land on top of it.
TEST_F(WayBackTest, NothingIsBroughtBackBeforeTheDiskHasFinished) {
  meet();
  tell_half_copied();
  node_->data.hung_until_ns = node_->scheduler.now_ns() + kLong_ns;
  const std::vector<std::byte> block(4 * kKiB, std::byte{7});
  peer_->send(0, wire::seal(wire::to_header(wire::DataFrame{
                                .request = peer_->next_sequence(), .length_bytes = block.size(), .resync = true}),
                            block));
  peer_->send(0, block);
  node_->run(100 * kMillisecond_ns);
  part();
  std::optional<int> error;
  const auto roll_back = [&] {
    error.reset();
    node_->engine->orders().roll_back([&error](const Result<std::string>& said) {
      error = said ? 0 : said.error().code;
    });
    node_->run(kSecond_ns);
  };
  ASSERT_LT(node_->scheduler.now_ns(), node_->data.hung_until_ns);
  roll_back();
  EXPECT_EQ(error, EBUSY);
  EXPECT_EQ(copies_.count(CopyStep::kRollback), 0);
  node_->run(2 * kLong_ns);
  ASSERT_EQ(node_->data.contents[0], std::byte{7}) << "it has landed";
  roll_back();
  EXPECT_EQ(error, 0);
  EXPECT_EQ(copies_.count(CopyStep::kRollback), 1);
}

// No process would take a record with it for one: the replica would be as good as lost.
TEST_F(WayBackTest, AGenerationThatIsNoneIsNotTakenOver) {
  meet();
  tell(wire::kGenerationInconsistent);  // a copy is taken first
  const metadata::NodeRecord before = load_plain(node_->metadata.contents, record_).record;
  record_.generations.current = 0;
  tell(wire::kGenerationInconsistent);
  ASSERT_EQ(node_->engine->status().mine.generations.current, before.generations.current);
  const metadata::NodeRecord now = load_plain(node_->metadata.contents, record_).record;
  EXPECT_EQ(now.generations.current, before.generations.current);
  EXPECT_FALSE(now.inconsistent);
}

TEST_F(WayBackTest, ABackingThatWasFoundEmptyIsNoWayBack) {
  begin_anew(file_of_one_that_held_data(), DataFound::kNone);
  expect_no_way_back();
}

// It may be a copy that lacks nothing: that is the operator's to say.
TEST_F(WayBackTest, AnotherBackingThanTheRecordsIsKept) {
  record_.backing_number = 101;
  std::vector<std::byte> file = file_of_one_that_held_data();
  const auto bytes = metadata::encode(record_, 2);  // the first one of a volume names none
  for (const uint64_t offset : metadata::kSuperblockOffset)
    std::copy(bytes.begin(), bytes.end(), file.begin() + static_cast<std::ptrdiff_t>(offset));
  begin_anew(std::move(file), DataFound::kSome, 102);
  ASSERT_TRUE(node_->engine->status().mine.other_backing);
  ASSERT_TRUE(node_->engine->start().ok());
  meet();
  tell_half_copied();
  EXPECT_EQ(copies_.count(CopyStep::kBeforeResync), 1);
  EXPECT_TRUE(node_->engine->status().way_back.kept);
}

// What has been copied to the empty one meanwhile is in the source's set no more, and the right one lacks it.
TEST_F(WayBackTest, TheRightDiskThatIsBackWhileTheEmptyOneIsFilledIsComparedInFull) {
  begin_anew(file_of_one_that_held_data(), DataFound::kNone);
  expect_no_way_back();
  begin_anew(node_->metadata.contents, DataFound::kSome);
  ASSERT_TRUE(node_->engine->start().ok());
  ASSERT_TRUE(node_->engine->status().mine.inconsistent);
  EXPECT_EQ(node_->engine->status().dirty_bytes, kVolumeBytes);
  meet();
  tell(wire::kGenerationConsistent);
  begin_anew(node_->metadata.contents, DataFound::kSome);
  ASSERT_TRUE(node_->engine->start().ok());
  EXPECT_EQ(node_->engine->status().dirty_bytes, 0u) << "it is whole";
}

}  // namespace
}  // namespace twinblock::fuzz
