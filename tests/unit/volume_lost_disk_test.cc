// What a primary does on its peer's replica, and what of it is remembered.
#include <array>
#include <cerrno>
#include <optional>

#include "volume_lost_peer_support.h"

namespace twinblock::fuzz {
namespace {

TEST_F(LostPeerTest, ANewVolumeDoesNotMendADiskWhoseFlushHadFailed) {
  record_.flush_failed = true;
  begin(OnPeerLoss::kContinue);
  bool begun = false;
  node_->engine->orders().init(true, false, [&begun](const Result<std::string>& said) { begun = said.ok(); });
  node_->run(kSecond_ns);
  ASSERT_TRUE(begun);
  EXPECT_TRUE(load_plain(node_->metadata.contents, record_).record.flush_failed);
  EXPECT_FALSE(node_->engine->status().promotable);
}

// What a peer has acknowledged and not flushed is lost when its host is started anew; what a flush has closed is not. A
// session that was lost between changes nothing of either.
TEST_F(LostPeerTest, APeerMayForgetWhatItHasFlushed) {
  begin(OnPeerLoss::kFreeze);
  ASSERT_NO_FATAL_FAILURE(lose_the_disk());
  const auto part_and = [this](const auto& then) {
    peer_->answers = false;  // no flush of this node's own
    part();
    record_.generations = node_->engine->status().mine.generations;  // the peer has it on record
    then();
  };
  write();
  part_and([this] { meet(false); });
  part_and([this] { be_refused(HostilePeer::Stance::kSame, Verdict::kCantGoOn, {8}, 0); });
  peer_->vanish();
  peer_.reset();
  meet(true);
  ASSERT_EQ(flush(), 0);
  instance_ = {7};
  part_and([this] { meet(true); });
  write();
}

// It went on alone, and its host has lost its memory since. Where nobody is asked, nobody knows but the operator whether the
// peer was promoted meanwhile.
TEST_F(LostPeerTest, WhoWentOnAloneAndWasStartedAnewWantsAWordWithoutAWitness) {
  record_.generations.advance(12);
  record_.primary = record_.dirty = true;
  record_.peer_instance = 7;
  begin(OnPeerLoss::kContinue);
  int error = 0;
  node_->engine->orders().promote({}, [&error](const Result<std::string>& said) { error = said ? 0 : said.error().code; });
  node_->run(kLong_ns);
  EXPECT_EQ(error, EBUSY);
  Promotion::Word word;
  word.peer_is_dead = true;
  promote(word);
}

// Its process is replaced, say, or its links broke: nobody else has what clients ask for.
TEST_F(LostPeerTest, ThePeerThatHoldsTheOnlyCopyIsWaitedForAWhile) {
  begin(OnPeerLoss::kContinue);
  ASSERT_NO_FATAL_FAILURE(lose_the_disk());
  std::array<std::optional<int>, 3> errors;
  std::array<ClientRequest, 3> requests;
  std::array<std::byte, 4 * kKiB> memory{};
  const auto ask_all = [&] {
    const std::array ops{ClientOp::kZero, ClientOp::kRead, ClientOp::kFlush};
    for (size_t each = 0; each < ops.size(); ++each) {
      errors[each].reset();
      requests[each] = {};
      requests[each].op = ops[each];
      requests[each].offset_bytes = each * memory.size();
      requests[each].length_bytes = ops[each] == ClientOp::kFlush ? 0 : memory.size();
      requests[each].data = ops[each] == ClientOp::kRead ? memory.data() : nullptr;
      requests[each].done = [&errors, each](ClientRequest& done) { errors[each] = done.error; };
      node_->engine->clients().submit(requests[each]);
    }
  };
  part();
  ask_all();
  node_->run(100 * kMillisecond_ns);
  for (const auto& error : errors) EXPECT_FALSE(error) << "it may be back at any moment";
  meet(true);
  node_->run(kSecond_ns);
  for (const auto& error : errors) EXPECT_EQ(error, 0);
  part();
  ask_all();
  node_->run(2 * config_.peer_timeout_ns);
  for (const auto& error : errors) EXPECT_EQ(error, EIO) << "not for ever";
}

}  // namespace
}  // namespace twinblock::fuzz
