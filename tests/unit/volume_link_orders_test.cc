// Who hears what has become of an operator's order about a link: an engine on virtual parts, and the fuzzers' peer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "volume_beside_peer_support.h"

namespace twinblock::fuzz {
namespace {

class LinkOrdersTest : public BesidePeerTest {
 protected:
  LinkOrdersTest() : BesidePeerTest(2) {}
  // What the operator here is told.
  Result<std::string> order_here(LinkOrder order, uint64_t rate_bits_per_s = 0) {
    give(order, rate_bits_per_s);
    for (int i = 0; i < 100 && !said_; ++i) node_->run(10 * kMillisecond_ns);
    return said_.value_or(Error{"nothing", "", 0});
  }
  void give(LinkOrder order, uint64_t rate_bits_per_s = 0) {
    LinkConfig link;
    link.name = "backup";
    link.rate_bits_per_s = rate_bits_per_s;
    said_.reset();
    node_->engine->orders().change_link(order, link, [this](const Result<std::string>& result) { said_ = result; });
  }
  // The answer that the operator's node there gets; ETIMEDOUT: none.
  uint32_t order_there(wire::LinkChange change, uint64_t number, const std::vector<std::string>& addresses = {},
                       const std::string& name = "backup") {
    wire::LinkChangePayload payload{};
    payload.change = static_cast<uint32_t>(change);
    payload.number = number;
    wire::set_name(payload.name, name);
    for (size_t i = 0; i < addresses.size(); ++i) wire::set_name(payload.address[i], addresses[i]);
    wire::FrameHeader header = wire::to_header(wire::LinkChangeFrame{});
    const uint64_t asked = peer_->next_sequence();
    wire::set_request(header, asked);
    wire::set_order(header, ++*peer_->control());
    for (const size_t line : {0, 1}) {  // of the two that it had, the one that is left
      peer_->send(line, wire::seal(header, wire::bytes_of(payload)));
      peer_->send(line, wire::bytes_of(payload));
    }
    return answer_to(asked);
  }

  std::optional<Result<std::string>> said_;  // to the operator here, of what was ordered last
};

TEST_F(LinkOrdersTest, ALaterOneOfThePeerCounts) {
  ASSERT_TRUE(order_here(LinkOrder::kDisable).ok());
  EXPECT_EQ(order_there(wire::LinkChange::kEnable, 2), 0u);
  EXPECT_EQ(order_there(wire::LinkChange::kEnable, 2), 0u) << "it is only told again";
}

// Its addresses are the file's; what is said of it counts.
TEST_F(LinkOrdersTest, ALinkThatIsAddedAgainHasTheRateThatIsSaid) {
  config_.encryption = Encryption::kOff;
  ASSERT_TRUE(order_here(LinkOrder::kRemove).ok());
  const Result<std::string> said = order_here(LinkOrder::kAdd, 10'000'000'000u);
  ASSERT_TRUE(said.ok()) << said.error().what;
  ASSERT_EQ(node_->engine->status().links.size(), 2u);
  EXPECT_EQ(node_->engine->status().links[1].nominal_bits_per_s, 10'000'000'000u);
}

// Nothing is changed by it then: a peer that begins anew is not told of it.
TEST_F(LinkOrdersTest, AnOrderThatIsRefusedIsNotToldAgain) {
  peer_->answers = false;
  give(LinkOrder::kDisable);
  node_->run(10 * kMillisecond_ns);
  for (const size_t line : {0, 1, 2}) peer_->answer(line, 0, EPERM, 0);
  for (int i = 0; i < 100 && !said_; ++i) node_->run(10 * kMillisecond_ns);
  ASSERT_TRUE(said_.has_value());
  ASSERT_FALSE(said_->ok());
  EXPECT_EQ(said_->error().code, EPERM);
  EXPECT_EQ(said_->error().action, "nothing was changed");
  peer_->vanish();
  for (int i = 0; i < 100 && stands(); ++i) node_->run(kSecond_ns);
  peer_.reset();
  std::vector<uint32_t> told;
  peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
  peer_->hears_payload = [&told](const wire::FrameHeader& header, std::span<const std::byte> payload) {
    if (header.type != static_cast<uint8_t>(wire::FrameType::kLinkChange)) return;
    wire::LinkChangePayload change{};
    std::memcpy(&change, payload.data(), sizeof change);
    told.push_back(change.change);
  };
  peer_->take(HostilePeer::Stance::kSame, 0, 2);
  for (int i = 0; i < 100 && !stands(); ++i) node_->run(kSecond_ns);
  node_->run(kSecond_ns);
  EXPECT_TRUE(std::ranges::all_of(told, [](uint32_t change) {
    return change == static_cast<uint32_t>(wire::LinkChange::kEnable);
  })) << told.size();
}

// Each is remembered, and told again to a peer that comes anew: a peer must not fill the memory with them.
TEST_F(LinkOrdersTest, OnlySoManyOfThePeersAreKept) {
  size_t taken = 0;
  uint32_t last = 0;
  for (uint64_t i = 1; i <= limits::kLinkOrdersMax + 8; ++i) {
    last = order_there(wire::LinkChange::kRemove, i, {}, "l" + std::to_string(i));
    taken += last == 0 ? 1 : 0;
  }
  EXPECT_GT(taken, 0u);
  EXPECT_LE(taken, limits::kLinkOrdersMax);
  EXPECT_EQ(last, static_cast<uint32_t>(ENOSPC));
}

// Both were given at the same time: the one of the node with the lower name counts. The other one was carried out where it
// was given, until that node hears of this one; its operator is not told that it holds on both.
TEST_F(LinkOrdersTest, WhoseOrderIsOverruledIsTold) {
  ASSERT_TRUE(order_here(LinkOrder::kDisable).ok());
  EXPECT_EQ(order_there(wire::LinkChange::kEnable, 1), static_cast<uint32_t>(ESTALE));
}

// The same, where it was given: what it ordered was overtaken, and not left as it was.
TEST_F(LinkOrdersTest, WhoseOrderWasOvertakenDoesNotHearThatNothingChanged) {
  peer_->answers = false;
  give(LinkOrder::kDisable);
  node_->run(10 * kMillisecond_ns);
  ASSERT_EQ(order_there(wire::LinkChange::kEnable, 2), 0u);
  for (const size_t line : {0, 1, 2}) peer_->answer(line, 0, ESTALE, 0);
  for (int i = 0; i < 100 && !said_; ++i) node_->run(10 * kMillisecond_ns);
  ASSERT_TRUE(said_.has_value());
  ASSERT_FALSE(said_->ok());
  EXPECT_EQ(said_->error().code, ESTALE);
  EXPECT_EQ(said_->error().action, "");
}

// It was carried out here, and will be there: who gave it is not left to wait for an answer that won't come.
TEST_F(LinkOrdersTest, WhoseOrderWasNotAnsweredBeforeTheSessionWasLostIsTold) {
  peer_->answers = false;
  give(LinkOrder::kDisable);
  node_->run(10 * kMillisecond_ns);
  ASSERT_FALSE(said_.has_value());
  peer_->vanish();
  for (int i = 0; i < 100 && !said_; ++i) node_->run(kSecond_ns);
  ASSERT_TRUE(said_.has_value());
  ASSERT_TRUE(said_->ok());
  EXPECT_NE(said_->value().find("it is told again"), std::string::npos) << said_->value();
}

// Both hold a link of this name then, and could not reach each other over it.
TEST_F(LinkOrdersTest, AnotherLinkOfTheSameNameIsNotTheSame) {
  ASSERT_TRUE(order_here(LinkOrder::kDisable).ok());
  ASSERT_TRUE(order_here(LinkOrder::kEnable).ok());
  EXPECT_EQ(order_there(wire::LinkChange::kAdd, 3, {"10.0.1.1:7999", "10.0.1.2:7999"}), static_cast<uint32_t>(EEXIST));
}

// Its network card is dead, say, and the process begins anew: the other link carries what there is, and this one comes back
// with its address.
TEST(LinkAddresses, ALinkWithoutItsAddressIsWaitedForAndNoOther) {
  const Config config = make_config(kVolumeBytes);
  const metadata::NodeRecord record = plain_record("alpha", {kVolumeBytes, 64 * kKiB});
  const std::unique_ptr<FuzzNode> node = plain_node(config, record);
  sim::LinkFaults faults;
  faults.no_address[0] = true;
  node->network.set_faults("backup", faults);
  int listens = 0;
  node->logs = [&listens](const std::string& line) { listens += line.find("backup: listens now") != line.npos ? 1 : 0; };
  auto peer = std::make_unique<HostilePeer>(*node, "beta", record);
  peer->take(HostilePeer::Stance::kSame, 0, 2);
  ASSERT_TRUE(node->engine->start().ok());
  node->run(3 * kSecond_ns);
  EXPECT_TRUE(node->engine->inside().session_stands());
  EXPECT_NE(node->engine->status().links.at(1).last_error, "");
  ASSERT_NE(node->engine->status().links.at(1).state, LinkState::kUp);
  node->network.set_faults("backup", {});
  for (int i = 0; i < 100 && node->engine->status().links.at(1).state != LinkState::kUp; ++i) node->run(kSecond_ns);
  EXPECT_EQ(node->engine->status().links.at(1).state, LinkState::kUp);
  node->run(2 * limits::kListenAgain_ns);
  EXPECT_EQ(listens, 1) << "whoever dials it is heard, too";
  node->engine.reset();
}

// Whether a session stands by the time that the node would have listened again for such a link, which was removed.
bool stands_without_a_link_that_had_no_address() {
  const Config config = make_config(kVolumeBytes);
  const metadata::NodeRecord record = plain_record("alpha", {kVolumeBytes, 64 * kKiB});
  const std::unique_ptr<FuzzNode> node = plain_node(config, record);
  sim::LinkFaults faults;
  faults.no_address[0] = true;
  node->network.set_faults("backup", faults);
  HostilePeer peer(*node, "beta", record);
  peer.take(HostilePeer::Stance::kSame, 0, 2);
  EXPECT_TRUE(node->engine->start().ok());
  node->run(3 * kSecond_ns);
  LinkConfig link;
  link.name = "backup";
  bool removed = false;
  node->engine->orders().change_link(LinkOrder::kRemove, link,
                                     [&removed](const Result<std::string>& said) { removed = said.ok(); });
  node->run(3 * limits::kListenAgain_ns);
  const bool stands = node->engine->inside().session_stands() && node->engine->status().links.size() == 1;
  node->engine.reset();
  return removed && stands;
}

// In a process of its own: whoever looks for that link once more may die of it.
TEST(LinkAddresses, ALinkWithoutItsAddressThatIsRemovedIsWaitedForNoMore) {
  EXPECT_EXIT(std::exit(stands_without_a_link_that_had_no_address() ? 0 : 1), testing::ExitedWithCode(0), "");
}

// One process of two on this host, say: nothing could ever be heard.
TEST(LinkAddresses, ANodeWithNoneOfItsAddressesDoesNotStart) {
  const Config config = make_config(kVolumeBytes);
  const std::unique_ptr<FuzzNode> node = plain_node(config, plain_record("alpha", {kVolumeBytes, 64 * kKiB}));
  sim::LinkFaults faults;
  faults.no_address[0] = true;
  for (const char* link : {"main", "backup"}) node->network.set_faults(link, faults);
  const Status started = node->engine->start();
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.error().code, EADDRNOTAVAIL);
  node->engine.reset();
}

TEST_F(LinkOrdersTest, APeerThatTellsOtherThingsBeforeItsAnswerIsWaitedFor) {
  peer_->answers = false;
  LinkConfig link;
  link.name = "backup";
  node_->engine->orders().change_link(LinkOrder::kDisable, link, [](const Result<std::string>&) {});
  for (uint64_t ns = 0; ns < 2 * config_.disk_timeout_ns; ns += kSecond_ns) {
    wire::FrameHeader role = wire::to_header(wire::RoleFrame{});
    wire::set_order(role, ++*peer_->control());
    for (const size_t line : {0, 1}) peer_->send(line, wire::seal(role, {}));
    node_->run(kSecond_ns);
    ASSERT_TRUE(node_->engine->inside().session_stands()) << ns;
  }
  node_->run(config_.disk_timeout_ns + kSecond_ns);
  EXPECT_FALSE(node_->engine->inside().session_stands()) << "one that says nothing hangs";
}

// The other one is enabled, and does not work just now.
TEST_F(LinkOrdersTest, TheOnlyLinkThatIsUpIsNotTakenAway) {
  sim::LinkFaults faults;
  faults.cut = {true, true};
  node_->network.set_faults("main", faults);
  node_->run(2 * kSecond_ns);
  ASSERT_NE(node_->engine->status().links.at(0).state, LinkState::kUp);
  for (const LinkOrder order : {LinkOrder::kDisable, LinkOrder::kRemove}) {
    const Result<std::string> said = order_here(order);
    ASSERT_FALSE(said.ok());
    EXPECT_EQ(said.error().code, EBUSY);
    EXPECT_NE(said.error().what.find("no other link is up"), std::string::npos) << said.error().what;
  }
  ASSERT_TRUE(node_->engine->inside().session_stands());
  node_->network.set_faults("main", {});
  for (int i = 0; i < 100 && node_->engine->status().links.at(0).state != LinkState::kUp; ++i) node_->run(kSecond_ns);
  EXPECT_TRUE(order_here(LinkOrder::kDisable).ok());
}

}  // namespace
}  // namespace twinblock::fuzz
