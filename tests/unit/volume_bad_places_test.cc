// Reads that some place of this node's disk fails: what is asked of the peer, and what is believed of the disk. An
// engine on virtual parts, and the fuzzers' peer, which says of each byte that it is 0x5A; those here are zeroes.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "volume_beside_peer_support.h"
#include "volume_lost_peer_support.h"

namespace twinblock::fuzz {
namespace {

constexpr uint64_t kBlock = limits::kBlockBytes;

class BadPlacesTest : public LostPeerTest {
 protected:
  // How the read of these blocks ends, as a worker hands it to the loop.
  int read(uint64_t first, uint64_t blocks, int local_error = 0, InflightFilter::Mark local_mark = 0) {
    ClientRequest request;
    std::optional<int> error;
    request.op = ClientOp::kRead;
    request.offset_bytes = first * kBlock;
    request.length_bytes = blocks * kBlock;
    request.local_error = local_error;
    request.local_mark = local_mark;
    data_.assign(request.length_bytes, std::byte{1});
    request.data = data_.data();
    request.done = [&error](ClientRequest& done) { error = done.error; };
    node_->engine->clients().submit(request);
    for (int i = 0; i < 100 && !error; ++i) node_->run(10 * kMillisecond_ns);
    return error.value_or(ETIMEDOUT);
  }
  // Of what was read: whose each block is. '?': nobody's, or half of it.
  [[nodiscard]] std::string whose() const {
    std::string each;
    for (size_t at = 0; at < data_.size(); at += kBlock) {
      const auto block = std::vector(data_.begin() + static_cast<std::ptrdiff_t>(at),
                                     data_.begin() + static_cast<std::ptrdiff_t>(at + kBlock));
      const bool even = std::ranges::count(block, block[0]) == static_cast<std::ptrdiff_t>(kBlock);
      each += !even ? '?' : block[0] == std::byte{0} ? 'h' : block[0] == std::byte{0x5A} ? 't' : '?';
    }
    return each;
  }
  void begin_with_zeroes() {
    begin_in_duplex();
    std::ranges::fill(node_->data.contents, std::byte{0});
  }
  void zero(uint64_t first, uint64_t blocks) {
    ClientRequest request;
    std::optional<int> error;
    request.op = ClientOp::kZero;
    request.offset_bytes = first * kBlock;
    request.length_bytes = blocks * kBlock;
    request.done = [&error](ClientRequest& done) { error = done.error; };
    node_->engine->clients().submit(request);
    for (int i = 0; i < 100 && !error; ++i) node_->run(10 * kMillisecond_ns);
    ASSERT_EQ(error, 0);
  }
  // The peer has missed these blocks, and all else is the same; the resync has not begun to copy.
  void miss(std::initializer_list<uint64_t> blocks) {
    begin_with_zeroes();
    node_->engine->orders().set_resync_pace(ResyncPace::kPause, 0, [](const Result<std::string>&) {});
    ASSERT_EQ(flush(), 0);
    part();
    for (const uint64_t block : blocks) ASSERT_NO_FATAL_FAILURE(zero(block, 1));
    meet(true);
    const auto copies = [this] { return node_->engine->inside().phase() == Phase::kCopying; };
    for (int i = 0; i < 100 && !copies(); ++i) node_->run(100 * kMillisecond_ns);
    ASSERT_TRUE(copies());
    ASSERT_EQ(node_->engine->status().dirty_bytes, blocks.size() * kBlock);
  }
  // A worker could not, and the loop asks the peer.
  int read_badly(uint64_t block) {
    const auto mark = node_->engine->worker_view().mark_read(block * kBlock, kBlock);
    return read(block, 1, EIO, mark.value());
  }
  // Where the peer's is number 40.
  void have_too_many_bad_places() {
    for (uint64_t i = 0; i < 2 * limits::kBadPlacesMax; ++i) ASSERT_EQ(read_badly(2 * i + 1), 0) << i;
    EXPECT_TRUE(node_->engine->status().peer_reads_fail);
    EXPECT_FALSE(node_->engine->status().mine.disk_failed);
    EXPECT_EQ(read(40, 1), 0);
    EXPECT_EQ(whose(), "h");
  }
  void lose_the_disk_to_bad_places() {
    for (uint64_t i = 0; i < limits::kBadPlacesMax; ++i) ASSERT_EQ(read_badly(2 * i + 1), 0) << i;
    EXPECT_TRUE(node_->engine->status().mine.disk_failed);
  }
  void verify(VerifyOrder order) {
    node_->engine->orders().verify(order, [](const Result<std::string>& said) { EXPECT_TRUE(said.ok()); });
    node_->run(kLong_ns);
  }
  // … by what a comparison finds there.
  void keep_the_disk_for_the_peer_s() {
    begin_with_zeroes();
    peer_->unreadable_at = 40;
    verify(VerifyOrder::kCompare);
    have_too_many_bad_places();
  }
  void be_in_duplex_again() {
    promote();
    const auto whole = [this] { return node_->engine->inside().phase() == Phase::kDuplex; };
    for (int i = 0; i < 100 && !whole(); ++i) node_->run(100 * kMillisecond_ns);
    ASSERT_TRUE(whole());
  }

  std::vector<std::byte> data_;
};

TEST_F(BadPlacesTest, ABlockThatThePeerMissesDoesNotKeepItFromAnsweringAnother) {
  ASSERT_NO_FATAL_FAILURE(miss({0}));
  node_->data.unreadable_at = 2;
  EXPECT_EQ(read(2, 1), 0) << "alone";
  EXPECT_EQ(read(0, 4), 0);
  EXPECT_EQ(whose(), "httt");
  EXPECT_EQ(node_->engine->status().unreadable_places, 1u);
}

// It is nowhere else.
TEST_F(BadPlacesTest, ABlockThatThePeerMissesIsNotAskedForThere) {
  ASSERT_NO_FATAL_FAILURE(miss({0}));
  node_->data.unreadable_at = 0;
  EXPECT_EQ(read(0, 4), EIO);
  EXPECT_EQ(read(1, 3), 0);
}

TEST_F(BadPlacesTest, WhatThePeerCanNotReadIsReadHereDuringAResyncToo) {
  ASSERT_NO_FATAL_FAILURE(miss({0}));
  node_->data.unreadable_at = 2;
  peer_->unreadable_at = 3;
  EXPECT_EQ(read(0, 4), 0);
  EXPECT_EQ(whose()[0], 'h');
  EXPECT_EQ(whose()[2], 't');
  EXPECT_EQ(whose()[3], 'h');
}

TEST_F(BadPlacesTest, EachOfTwoDisksMayHaveABadPlaceInOneRead) {
  begin_with_zeroes();
  node_->data.unreadable_at = 5;
  for (uint64_t theirs = 0; theirs < 8; ++theirs) {
    if (theirs == 5) continue;
    peer_->unreadable_at = theirs;
    EXPECT_EQ(read(0, 8), 0) << theirs;
    EXPECT_EQ(whose()[5], 't') << theirs;
    EXPECT_EQ(whose()[theirs], 'h') << theirs;
    EXPECT_EQ(whose().find('?'), std::string::npos) << whose();
  }
  EXPECT_EQ(node_->engine->status().unreadable_places, 1u);
  peer_->unreadable_at = 5;
  EXPECT_EQ(read(0, 8), EIO) << "neither has it";
  EXPECT_EQ(read(0, 5), 0);
}

// Between two blocks that the peer misses.
TEST_F(BadPlacesTest, ABlockThatThePeerCanNotReadIsReadHere) {
  ASSERT_NO_FATAL_FAILURE(miss({0, 2}));
  node_->data.unreadable_at = 3;
  peer_->unreadable_at = 1;
  EXPECT_EQ(read(0, 4), 0);
  EXPECT_EQ(whose(), "hhht");
}

// Which of its blocks it was is known better now.
TEST_F(BadPlacesTest, WhatReadsWellOfABadReadIsNoBadPlace) {
  ASSERT_NO_FATAL_FAILURE(miss({0}));
  node_->data.unreadable_at = 2;
  ASSERT_EQ(read(0, 4), 0);
  ASSERT_EQ(node_->engine->status().unreadable_places, 1u);
  node_->data.unreadable_at.reset();
  ASSERT_NO_FATAL_FAILURE(zero(1, 3));
  EXPECT_EQ(node_->engine->status().unreadable_places, 0u);
}

// What is not at a block's begin is cut at the blocks' all the same.
TEST_F(BadPlacesTest, AReadThatBeginsWithinABlockIsTakenApartAsWell) {
  begin_with_zeroes();
  node_->data.unreadable_at = 1;
  peer_->unreadable_at = 2;
  ClientRequest request;
  std::optional<int> error;
  request.op = ClientOp::kRead;
  request.offset_bytes = kBlock + 512;
  request.length_bytes = kBlock + 1024;
  data_.assign(request.length_bytes, std::byte{1});
  request.data = data_.data();
  request.done = [&error](ClientRequest& done) { error = done.error; };
  node_->engine->clients().submit(request);
  node_->run(kSecond_ns);
  EXPECT_EQ(error, 0);
  EXPECT_EQ(static_cast<uint64_t>(std::ranges::count(data_, std::byte{0x5A})), kBlock - 512);
  EXPECT_EQ(static_cast<uint64_t>(std::ranges::count(data_, std::byte{0})), 1536u);
}

// A bad place takes the disk seconds to say so, and somebody has written there meanwhile, which mends it.
TEST_F(BadPlacesTest, AWorkersErrorFromBeforeAWriteIsNotBelieved) {
  begin_with_zeroes();
  const WorkerView& view = node_->engine->worker_view();
  for (const bool alone : {false, true}) {
    if (alone) {
      part();
      node_->run(2 * config_.peer_timeout_ns);
    }
    const auto mark = view.mark_read(0, kBlock);
    ASSERT_TRUE(mark);
    write();
    EXPECT_EQ(read(0, 1, EIO, *mark), 0);
    EXPECT_EQ(whose(), "h");
    EXPECT_EQ(node_->engine->status().unreadable_places, 0u) << "its disk is well";
  }
}

// It takes seconds.
TEST_F(BadPlacesTest, AWorkersErrorIsBelievedWhereNobodyHasWrittenSince) {
  begin_with_zeroes();
  const auto mark = node_->engine->worker_view().mark_read(0, kBlock);
  ASSERT_TRUE(mark);
  int reads = 0;
  node_->data.submitted = [&reads](const DiskRequest& request) { reads += request.op == DiskOp::kRead ? 1 : 0; };
  EXPECT_EQ(read(0, 1, EIO, *mark), 0);
  EXPECT_EQ(whose(), "t");
  EXPECT_EQ(reads, 0) << "the disk is not asked again";
  EXPECT_EQ(node_->engine->status().unreadable_places, 1u);
}

// Each is a whole disk but for some places, and none of those is bad on both.
TEST_F(BadPlacesTest, ADiskIsKeptBesideAPeerWhoseReadsFail) {
  begin_with_zeroes();
  peer_->unreadable_at = 40;
  ASSERT_EQ(read_badly(40), EIO) << "neither has it";
  ASSERT_NO_FATAL_FAILURE(zero(40, 1));
  have_too_many_bad_places();
}
TEST_F(BadPlacesTest, ADiskIsKeptBesideAPeerThatCanNotCompareAPlace) { keep_the_disk_for_the_peer_s(); }
TEST_F(BadPlacesTest, ADiskIsKeptInTheNextSessionToo) {
  keep_the_disk_for_the_peer_s();
  part();
  meet(true);
  ASSERT_NO_FATAL_FAILURE(be_in_duplex_again());
  peer_->unreadable_at = 40;
  have_too_many_bad_places();
}
// Or else a disk that gives next to nothing would be asked for ever.
TEST_F(BadPlacesTest, ADiskIsNotKeptForPlacesOfThePeersThatAreWrittenAnew) {
  begin_with_zeroes();
  peer_->unreadable_at = 40;
  verify(VerifyOrder::kRepair);
  peer_->unreadable_at.reset();
  lose_the_disk_to_bad_places();
}
TEST_F(BadPlacesTest, ADiskIsNotKeptForAPeerThatWasCopiedAnew) {
  keep_the_disk_for_the_peer_s();
  part();
  peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
  peer_->instance = {7};
  peer_->take(HostilePeer::Stance::kBlank, 0, 0);
  ASSERT_NO_FATAL_FAILURE(be_in_duplex_again());
  lose_the_disk_to_bad_places();
}

// A node whose peer is primary, and asks it for nothing but what a comparison asks for.
class BadReplicaTest : public BesidePeerTest {
 protected:
  BadReplicaTest() : BesidePeerTest(1) {}

  // How many of such places are asked for before the session ends.
  uint64_t places_until_the_end() {
    for (uint64_t place = 0; place < 2 * limits::kBadPlacesMax; ++place) {
      if (!stands()) return place;
      node_->data.unreadable_at = place;
      const uint64_t request = peer_->next_sequence();
      peer_->send(0, wire::seal(wire::to_header(wire::DigestFrame{.request = request,
                                                                  .offset_bytes = place * kBlock,
                                                                  .length_bytes = kBlock}),
                                {}));
      node_->run(kSecond_ns);
    }
    return stands() ? 2 * limits::kBadPlacesMax : 0;
  }
};

// Or its peer would leave a disk of its own to this one.
TEST_F(BadReplicaTest, ThatItsDiskIsGivenUpIsToldToAPeerThatAsksForNothing) {
  EXPECT_EQ(places_until_the_end(), limits::kBadPlacesMax);
  EXPECT_TRUE(node_->engine->status().mine.disk_failed);
}

TEST_F(BadReplicaTest, ItsDiskIsKeptForAPeerThatReadsFromIt) {
  peer_->send(0, wire::seal(wire::to_header(wire::ReadFrame{
                                .request = peer_->next_sequence(), .offset_bytes = 0, .length_bytes = kBlock}),
                            {}));
  EXPECT_EQ(places_until_the_end(), 2 * limits::kBadPlacesMax);
  EXPECT_FALSE(node_->engine->status().mine.disk_failed);
}

}  // namespace
}  // namespace twinblock::fuzz
