// An order about a link that is given while the last one is not answered, or that the peer can't follow again and again: an
// engine on virtual parts, and the fuzzers' peer.
#include <gtest/gtest.h>

#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "volume_link_orders_support.h"

namespace twinblock::fuzz {
namespace {

using LinksOrderedAgainTest = LinkOrdersTest;

// What the second would be put back to is what the first has made, and the peer may refuse that one as well.
TEST_F(LinksOrderedAgainTest, AnOrderBeforeTheLastOneIsAnsweredIsRefused) {
  peer_->answers = false;
  std::optional<Result<std::string>> first;
  node_->engine->orders().change_link(LinkOrder::kDisable, {"backup", {}, 0},
                                      [&first](const Result<std::string>& result) { first = result; });
  node_->run(kSecond_ns);
  for (const LinkOrder order : {LinkOrder::kDisable, LinkOrder::kRemove, LinkOrder::kEnable}) {
    give(order);
    ASSERT_TRUE(said_.has_value()) << "at once";
    ASSERT_FALSE(said_->ok());
    EXPECT_EQ(said_->error().code, EBUSY);
    EXPECT_NE(said_->error().what.find("link backup is being told to beta"), std::string::npos) << said_->error().what;
    EXPECT_NE(said_->error().action, "");
  }
  ASSERT_FALSE(first.has_value());
  answer(EPERM);
  node_->run(kSecond_ns);
  ASSERT_TRUE(first.has_value() && !first->ok());
  EXPECT_EQ(first->error().action, "nothing was changed");
  ASSERT_EQ(links().size(), 2u);
  EXPECT_NE(links().at(1).state, LinkState::kDisabled);
  peer_->answers = true;
  EXPECT_TRUE(order_here(LinkOrder::kEnable).ok()) << "the first one has been answered";
  lose_peer();
  begin_anew();
  wait_for_session();
  EXPECT_EQ(told_, std::vector{wire::LinkChange::kEnable});
}

// What is only told again may be overruled.
TEST_F(LinksOrderedAgainTest, AnOrderThatIsToldAgainIsNotWaitedFor) {
  ASSERT_NO_FATAL_FAILURE(give_while_parted(LinkOrder::kDisable));
  ASSERT_EQ(told_.size(), 1u);
  give(LinkOrder::kEnable);
  node_->run(10 * kMillisecond_ns);
  EXPECT_EQ(told_.size(), 2u);
}

// Its operator has taken the other one away while they were parted, say: neither order gets through, for as long as nobody takes
// one back.
TEST_F(LinksOrderedAgainTest, WhatThePeerCanNeverSpareIsToldNowAndThenAndStatusSaysSo) {
  ASSERT_NO_FATAL_FAILURE(give_while_parted(LinkOrder::kDisable));
  ASSERT_EQ(told_.size(), 1u);
  answer(EBUSY);
  node_->run(100 * kMillisecond_ns);
  EXPECT_TRUE(node_->engine->status().refused_link_orders.empty()) << "another link may be about to be up";
  for (int i = 0; i < 100; ++i) {
    node_->run(100 * kMillisecond_ns);
    answer(EBUSY);
  }
  EXPECT_GE(told_.size(), 3u);
  EXPECT_LE(told_.size(), 10u);
  const std::vector<RefusedLinkOrder> refused = node_->engine->status().refused_link_orders;
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused.at(0).link, "backup");
  EXPECT_NE(refused.at(0).reason, "");
  for (int i = 0; i < 100 && !node_->engine->status().refused_link_orders.empty(); ++i) {
    node_->run(100 * kMillisecond_ns);
    answer(0);
  }
  EXPECT_TRUE(node_->engine->status().refused_link_orders.empty()) << "it can by now";
}

}  // namespace
}  // namespace twinblock::fuzz
