// That two nodes find each other whatever becomes of their links: an engine on virtual parts, and the fuzzers' peer.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "volume_link_orders_support.h"

namespace twinblock::fuzz {
namespace {

sim::LinkFaults without_address() {
  sim::LinkFaults faults;
  faults.no_address[0] = true;
  return faults;
}

class LinkRosterTest : public LinkOrdersTest {
 protected:
  // The peer is away, and has not agreed to it.
  void remove_backup_apart() {
    config_.encryption = Encryption::kOff;  // so that links may be added
    lose_peer();
    give(LinkOrder::kRemove);
    ASSERT_TRUE(said_.has_value() && said_->ok());
  }
  // A peer that begins anew with its file finds this node over "backup", which was removed here.
  void expect_to_be_found_over_backup() {
    begin_anew();
    peer_->answers = false;
    dial_backup();
    EXPECT_TRUE(stands());
  }
};

// Its card is being replaced, say: it was listened on before, and would have been heard again by itself.
TEST_F(LinkRosterTest, ARemovedLinkThatCanNotBeAddedWithoutItsAddressIsHeardWhenThatIsBack) {
  ASSERT_NO_FATAL_FAILURE(remove_backup_apart());
  node_->network.set_faults("backup", without_address());
  give(LinkOrder::kAdd, config_.links.back());
  ASSERT_TRUE(said_.has_value() && !said_->ok());
  node_->network.set_faults("backup", {});
  node_->run(2 * limits::kListenAgain_ns);
  expect_to_be_found_over_backup();
}

TEST_F(LinkRosterTest, ARemovedLinkInTheWayOfOneThatCanNotBeAddedIsListenedOnAsBefore) {
  ASSERT_NO_FATAL_FAILURE(remove_backup_apart());
  node_->network.set_faults("third", without_address());
  give(LinkOrder::kAdd, {"third", {{"alpha", "10.1.0.1:7700"}, {"beta", "10.1.0.2:7999"}}, 0});
  ASSERT_TRUE(said_.has_value() && !said_->ok());
  expect_to_be_found_over_backup();
}

// … nor is one that has come back this way looked for once more when it is removed for good.
TEST_F(LinkRosterTest, ALinkThatIsAddedAfterItCouldNotBeIsListenedOnOnce) {
  ASSERT_NO_FATAL_FAILURE(remove_backup_apart());
  int listens = 0;
  node_->logs = [&listens](const std::string& line) { listens += line.find("listens now") != line.npos ? 1 : 0; };
  node_->network.set_faults("backup", without_address());
  give(LinkOrder::kAdd, config_.links.back());
  ASSERT_TRUE(said_.has_value() && !said_->ok());
  node_->network.set_faults("backup", {});
  give(LinkOrder::kAdd, config_.links.back());
  ASSERT_TRUE(said_.has_value() && said_->ok()) << said_->error().what;
  node_->run(2 * limits::kListenAgain_ns);
  EXPECT_EQ(listens, 0);
  begin_anew();
  wait_for_session();
  for (int i = 0; i < 100 && links().at(1).state != LinkState::kUp; ++i) node_->run(kSecond_ns);
  EXPECT_EQ(links().at(1).state, LinkState::kUp);
}

// The peer knows nothing of that order, and may have no other link that works.
TEST(LinkAddress, ALinkThatIsRemovedBeforeItHasItsAddressIsHeardWhenItHas) {
  const Config config = make_config(kVolumeBytes);
  const metadata::NodeRecord record = plain_record("alpha", {kVolumeBytes, 64 * kKiB});
  const std::unique_ptr<FuzzNode> node = plain_node(config, record);
  node->network.set_faults("backup", without_address());
  ASSERT_TRUE(node->engine->start().ok());
  bool removed = false;
  node->engine->orders().change_link(LinkOrder::kRemove, {"backup", {}, 0},
                                     [&removed](const Result<std::string>& said) { removed = said.ok(); });
  node->run(kSecond_ns);
  ASSERT_TRUE(removed);
  node->network.set_faults("backup", {});
  node->run(2 * limits::kListenAgain_ns);
  sim::LinkFaults cut;
  cut.cut = {true, true};
  node->network.set_faults("main", cut);
  HostilePeer peer(*node, "beta", record);
  peer.answers = false;
  peer.take(HostilePeer::Stance::kSame, 0, 2);
  for (int i = 0; i < 10 && !node->engine->inside().session_stands(); ++i) {
    peer.dial(1);
    node->run(kSecond_ns);
  }
  EXPECT_TRUE(node->engine->inside().session_stands());
  node->engine.reset();
}

// Nobody answers there, so the operator takes it away while its dial is under way. The peer listens, and does not dial:
// a firewall lets one direction through.
TEST_F(LinkRosterTest, ALinkThatIsDisabledWhileItIsDialledLeavesTheOtherOne) {
  lose_peer();
  sim::LinkFaults silent;
  silent.silent = {true, true};
  node_->network.set_faults("backup", silent);
  for (int i = 0; i < 10'000 && links().at(1).state != LinkState::kConnecting; ++i) node_->run(kMillisecond_ns);
  ASSERT_EQ(links().at(1).state, LinkState::kConnecting);
  give(LinkOrder::kDisable);
  begin_anew();
  wait_for_session();
  EXPECT_EQ(links().at(0).state, LinkState::kUp);
}

}  // namespace
}  // namespace twinblock::fuzz
