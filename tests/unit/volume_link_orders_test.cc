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

#include "volume_link_orders_support.h"

namespace twinblock::fuzz {
namespace {

TEST_F(LinkOrdersTest, ALaterOneOfThePeerCounts) {
  ASSERT_TRUE(order_here(LinkOrder::kDisable).ok());
  EXPECT_EQ(order_there(wire::LinkChange::kEnable, 2), 0u);
  EXPECT_EQ(order_there(wire::LinkChange::kEnable, 2), 0u) << "it is only told again";
}

// A process that is new counts from the beginning: the peer's numbers are higher, though its orders are older, and perhaps
// this node's own. What the operator was answered holds.
TEST_F(LinkOrdersTest, OneOfANewProcessHoldsAgainstWhatThePeerKnewBefore) {
  lose_peer();
  give(LinkOrder::kDisable);
  ASSERT_TRUE(said_.has_value() && said_->ok());
  begin_anew();
  peer_->answers = false;
  wait_for_session();
  EXPECT_EQ(order_there(wire::LinkChange::kEnable, ~uint64_t{0}), static_cast<uint32_t>(EPROTO));
  EXPECT_EQ(order_there(wire::LinkChange::kEnable, 7), static_cast<uint32_t>(ESTALE));
  EXPECT_EQ(links().at(1).state, LinkState::kDisabled);
  peer_tells_its_settings();
  answer(ESTALE);
  EXPECT_EQ(told_, (std::vector{wire::LinkChange::kDisable, wire::LinkChange::kDisable}));
  EXPECT_EQ(told_numbers_, (std::vector<uint64_t>{1, 8}));
  EXPECT_TRUE(node_->engine->status().refused_link_orders.empty()) << "it is only told again";
  EXPECT_EQ(order_there(wire::LinkChange::kEnable, 9), 0u) << "a later one";
}

// Its addresses were changed, say: of the peer's two orders about that the first says the same.
TEST_F(LinkOrdersTest, OneOfANewProcessHoldsAlsoAgainstWhatFollowsTheSame) {
  ASSERT_NO_FATAL_FAILURE(give_while_parted(LinkOrder::kDisable));
  EXPECT_EQ(order_there(wire::LinkChange::kDisable, 7), 0u);
  EXPECT_EQ(order_there(wire::LinkChange::kEnable, 8), static_cast<uint32_t>(ESTALE));
  peer_tells_its_settings();
  EXPECT_EQ(told_numbers_, (std::vector<uint64_t>{1, 9}));
}

TEST_F(LinkOrdersTest, OnesOfANewProcessAreToldAgainInTheirOrder) {
  config_.encryption = Encryption::kOff;
  lose_peer();
  give(LinkOrder::kRemove);
  give(LinkOrder::kAdd, {"backup", {{"alpha", "10.1.0.1:7999"}, {"beta", "10.1.0.2:7999"}}, 0});
  begin_anew();
  peer_->answers = false;
  wait_for_session();
  EXPECT_EQ(order_there(wire::LinkChange::kRemove, 7), static_cast<uint32_t>(ESTALE));
  peer_tells_its_settings();
  EXPECT_EQ(told_, (std::vector{wire::LinkChange::kRemove, wire::LinkChange::kAdd, wire::LinkChange::kRemove,
                                wire::LinkChange::kAdd}));
  EXPECT_EQ(told_numbers_, (std::vector<uint64_t>{1, 2, 8, 9}));
}

// What both know decides then.
TEST_F(LinkOrdersTest, OneThatWasGivenApartByWhoKnowsThePeersNumbersIsOverruled) {
  peer_tells_its_settings();
  lose_peer();
  give(LinkOrder::kDisable);
  begin_anew();
  wait_for_session();
  EXPECT_EQ(order_there(wire::LinkChange::kEnable, 7), 0u);
  EXPECT_EQ(told_numbers_, std::vector<uint64_t>{1});
}

// Nothing contradicts it.
TEST_F(LinkOrdersTest, OneOfANewProcessThatThePeerKnowsIsNotToldOnceMore) {
  lose_peer();
  give(LinkOrder::kDisable);
  begin_anew();
  wait_for_session();
  EXPECT_EQ(order_there(wire::LinkChange::kDisable, 7), 0u);
  peer_tells_its_settings();
  EXPECT_EQ(told_numbers_, std::vector<uint64_t>{1});
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
  const Result<std::string> said = order_refused(LinkOrder::kDisable);
  ASSERT_FALSE(said.ok());
  EXPECT_EQ(said.error().code, EPERM);
  EXPECT_EQ(said.error().action, "nothing was changed");
  EXPECT_NE(links().at(1).state, LinkState::kDisabled);
  lose_peer();
  begin_anew();
  wait_for_session();
  EXPECT_TRUE(told_.empty()) << told_.size();
}

// "link enable" of one that is enabled tries it at once, and changes nothing: there is nothing to be taken back.
TEST_F(LinkOrdersTest, WhatWasEnabledStaysSoWhereThePeerRefuses) {
  const Result<std::string> said = order_refused(LinkOrder::kEnable);
  ASSERT_FALSE(said.ok());
  EXPECT_EQ(said.error().action, "nothing was changed");
  EXPECT_NE(links().at(1).state, LinkState::kDisabled);
  lose_peer();
  begin_anew();
  wait_for_session();
  EXPECT_TRUE(told_.empty()) << "what holds for the file's links need not be told";
}

// … and the order by which it was disabled is still the one that holds.
TEST_F(LinkOrdersTest, WhatWasDisabledStaysSoWhereThePeerRefuses) {
  ASSERT_TRUE(order_here(LinkOrder::kDisable).ok());
  for (const LinkOrder order : {LinkOrder::kDisable, LinkOrder::kRemove, LinkOrder::kEnable}) {
    const Result<std::string> said = order_refused(order);
    ASSERT_FALSE(said.ok());
    EXPECT_EQ(said.error().action, "nothing was changed");
    ASSERT_EQ(links().size(), 2u);
    EXPECT_EQ(links().at(1).state, LinkState::kDisabled);
  }
  lose_peer();
  begin_anew();
  wait_for_session();
  EXPECT_EQ(told_, std::vector{wire::LinkChange::kDisable});
}

// The sender chooses among so many.
TEST_F(LinkOrdersTest, ARemovalThatIsRefusedBringsBackNoNinthLink) {
  config_.encryption = Encryption::kOff;
  const auto add = [this](size_t number) {
    const std::string port = ":" + std::to_string(8000 + number);
    const std::string name = "l" + std::to_string(number);
    give(LinkOrder::kAdd, {name, {{"alpha", "10.0.0.1" + port}, {"beta", "10.0.0.2" + port}}, 0});
  };
  for (size_t number = 2; number < limits::kLinksMax; ++number) {
    add(number);
    ASSERT_TRUE(heard().ok());
  }
  peer_->answers = false;
  std::optional<Result<std::string>> removal;
  node_->engine->orders().change_link(LinkOrder::kRemove, {"backup", {}, 0},
                                      [&removal](const Result<std::string>& result) { removal = result; });
  add(limits::kLinksMax);
  ASSERT_EQ(links().size(), limits::kLinksMax);
  answer(EPERM);  // to the removal, which was asked first
  node_->run(kSecond_ns);
  ASSERT_TRUE(removal.has_value());
  ASSERT_FALSE(removal->ok());
  EXPECT_EQ(removal->error().action, "");
  EXPECT_EQ(links().size(), limits::kLinksMax);
}

// It has the links of its file, and perhaps no other one that works: no removal that it has not agreed to parts the two.
TEST_F(LinkOrdersTest, APeerThatBeginsAnewGetsInOverALinkThatWasRemoved) {
  peer_->answers = false;
  give(LinkOrder::kRemove);
  node_->run(10 * kMillisecond_ns);
  lose_peer();
  ASSERT_TRUE(said_.has_value() && said_->ok()) << "it is told again";
  ASSERT_EQ(links().size(), 1u);
  begin_anew();
  peer_->answers = false;
  dial_backup();
  ASSERT_TRUE(stands());
  ASSERT_EQ(links().size(), 2u);
  EXPECT_EQ(links().at(1).name, "backup");
  EXPECT_EQ(links().at(1).state, LinkState::kDisabled);
  EXPECT_EQ(told_, std::vector{wire::LinkChange::kRemove});
  answer(EBUSY);
  peer_->answers = true;
  node_->network.set_faults("main", {});
  for (int i = 0; i < 100 && links().size() > 1; ++i) node_->run(kSecond_ns);
  ASSERT_EQ(links().size(), 1u) << "it has another one, and agrees";
  EXPECT_EQ(links().at(0).state, LinkState::kUp);
  EXPECT_TRUE(stands());
}

TEST_F(LinkOrdersTest, ALinkThatThePeerHasRemovedAsWellIsListenedOnNoMore) {
  ASSERT_TRUE(order_here(LinkOrder::kRemove).ok());
  lose_peer();
  begin_anew();
  peer_->answers = false;
  dial_backup();
  EXPECT_FALSE(stands());
}

// By its own order, too.
TEST_F(LinkOrdersTest, ALinkThatThePeerRemovesIsListenedOnNoMore) {
  ASSERT_EQ(order_there(wire::LinkChange::kRemove, 1), 0u);
  lose_peer();
  begin_anew();
  peer_->answers = false;
  dial_backup();
  EXPECT_FALSE(stands());
}

// Its host gives it that address later than others, or another program ends: nobody has to order it once more.
TEST_F(LinkOrdersTest, APeerThatLacksAnAddressIsToldAgain) {
  ASSERT_NO_FATAL_FAILURE(give_while_parted(LinkOrder::kEnable));
  for (const uint32_t status : {EADDRNOTAVAIL, EADDRINUSE}) {
    const size_t before = told_.size();
    ASSERT_EQ(before, status == EADDRNOTAVAIL ? 1u : 2u);
    answer(status);
    for (int i = 0; i < 100 && told_.size() == before; ++i) node_->run(limits::kListenAgain_ns / 20);
    EXPECT_EQ(node_->engine->status().refused_link_orders.size(), 1u) << "until it can";
  }
  answer(EADDRNOTAVAIL);
  node_->run(limits::kListenAgain_ns / 2);
  ASSERT_EQ(told_.size(), 3u) << "not at every tick";
  for (int i = 0; i < 100 && told_.size() == 3; ++i) node_->run(limits::kListenAgain_ns / 20);
  answer(0);
  node_->run(4 * limits::kListenAgain_ns);
  EXPECT_TRUE(node_->engine->status().refused_link_orders.empty());
  EXPECT_EQ(told_.size(), 4u);
}

// It had no other link that was up; this node has one, and does not count what it has removed.
TEST_F(LinkOrdersTest, APeerThatCouldNotSpareALinkIsToldAgain) {
  ASSERT_NO_FATAL_FAILURE(give_while_parted(LinkOrder::kRemove));
  ASSERT_EQ(links().size(), 1u);
  ASSERT_EQ(told_.size(), 1u);
  answer(EBUSY);
  for (int i = 0; i < 100 && told_.size() < 2; ++i) node_->run(limits::kHeartbeatInterval_ns);
  EXPECT_EQ(told_.size(), 2u);
}

// Else it would keep the link as it knows it, and refuse the other one for ever.
TEST_F(LinkOrdersTest, APeerHearsThatALinkIsGoneBeforeItHearsOfOtherAddresses) {
  config_.encryption = Encryption::kOff;
  lose_peer();
  give(LinkOrder::kRemove);
  give(LinkOrder::kAdd, {"backup", {{"alpha", "10.1.0.1:7999"}, {"beta", "10.1.0.2:7999"}}, 0});
  ASSERT_TRUE(said_.has_value() && said_->ok());
  begin_anew();
  wait_for_session();
  EXPECT_EQ(told_, (std::vector{wire::LinkChange::kRemove, wire::LinkChange::kAdd}));
  lose_peer();
  give(LinkOrder::kDisable);
  begin_anew();
  wait_for_session();
  EXPECT_EQ(told_, (std::vector{wire::LinkChange::kRemove, wire::LinkChange::kDisable}));
  lose_peer();
  give(LinkOrder::kRemove);
  begin_anew();
  wait_for_session();
  EXPECT_EQ(told_, std::vector{wire::LinkChange::kRemove});
}

// "main" was added at run time: a peer that begins anew does not know it, and would find nobody.
TEST_F(LinkOrdersTest, TheLastLinkOfTheFileMakesNoRoomForAnotherBeforeThePeerHasAgreed) {
  config_.encryption = Encryption::kOff;
  const std::vector<LinkConfig> both = config_.links;
  config_.links.erase(config_.links.begin());
  lose_peer();
  give(LinkOrder::kRemove);
  ASSERT_TRUE(said_.has_value() && said_->ok());
  give(LinkOrder::kAdd, {"backup", {{"alpha", "10.1.0.1:7999"}, {"beta", "10.1.0.2:7999"}}, 0});
  ASSERT_TRUE(said_.has_value() && !said_->ok());
  EXPECT_EQ(said_->error().code, EBUSY) << said_->error().what;
  give(LinkOrder::kAdd, both.back());
  EXPECT_TRUE(said_.has_value() && said_->ok()) << "it is the same";
  give(LinkOrder::kRemove);
  config_.links = both;  // the fuzzers' peer has them by number
  begin_anew();
  peer_->answers = false;
  dial_backup();
  EXPECT_TRUE(stands());
}

// A peer with the links of the file found nobody before either.
TEST_F(LinkOrdersTest, ALinkThatTheFileDoesNotHaveMakesRoom) {
  config_.encryption = Encryption::kOff;
  config_.links.erase(config_.links.begin());
  config_.links.front().address = {{"alpha", "10.1.0.1:7701"}, {"beta", "10.1.0.2:7701"}};
  lose_peer();
  give(LinkOrder::kRemove);
  ASSERT_TRUE(said_.has_value() && said_->ok());
  give(LinkOrder::kAdd, {"backup", {{"alpha", "10.1.0.1:7999"}, {"beta", "10.1.0.2:7999"}}, 0});
  EXPECT_TRUE(said_.has_value() && said_->ok());
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

// Who has not heard of the order asks for it.
TEST_F(LinkOrdersTest, ALinkThatIsDisabledIsNotJoinedByThePeer) {
  ASSERT_TRUE(order_here(LinkOrder::kDisable).ok());
  int joins = 0, refusals = 0;
  peer_->hears = [&](const wire::FrameHeader& header) {
    joins += header.type == static_cast<uint8_t>(wire::FrameType::kJoin) ? 1 : 0;
    refusals += header.type == static_cast<uint8_t>(wire::FrameType::kRefuse) ? 1 : 0;
  };
  peer_->dial(1);
  for (int i = 0; i < 100 && joins + refusals == 0; ++i) node_->run(10 * kMillisecond_ns);
  EXPECT_EQ(refusals, 1);
  EXPECT_EQ(joins, 0);
  EXPECT_TRUE(stands());
}

// It carried the session as long as there was no other.
TEST_F(LinkOrdersTest, ALinkThatIsDisabledIsLeftForAnotherOne) {
  ASSERT_TRUE(order_here(LinkOrder::kDisable).ok());
  lose_peer();
  begin_anew();
  peer_->answers = false;  // its agreement ends what goes over the link, too
  dial_backup();
  ASSERT_TRUE(stands());
  node_->network.set_faults("main", {});
  for (int i = 0; i < 100 && links().at(0).state != LinkState::kUp; ++i) node_->run(100 * kMillisecond_ns);
  ASSERT_EQ(links().at(0).state, LinkState::kUp);
  node_->run(100 * kMillisecond_ns);
  const uint64_t in_bytes = links().at(1).in_bytes;
  node_->run(kSecond_ns);
  EXPECT_EQ(links().at(1).in_bytes, in_bytes);
  EXPECT_TRUE(stands());
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
