// What `twinblock key` does with the file of the keys and the node that reads it.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "io/posix/link_key.h"
#include "scripted_node.h"
#include "temporary_directory.h"
#include "twinblock/actions.h"

namespace twinblock {
namespace {

using nlohmann::json;

// A node that proves itself by the second key of its file at once, on its only link.
class KeyRenewal : public testing::Test {
 protected:
  KeyRenewal() {
    EXPECT_TRUE(write_link_keys(key_file_, "r0", {old_, next_}).ok());
    std::ofstream(config_) << "volume = \"r0\"\nsize = \"1GiB\"\nkey = \"" << key_file_ << "\"\n"
                           << "[node.alpha]\nbacking = \"/a/i\"\nmetadata = \"/a/m\"\n"
                           << "[node.beta]\nbacking = \"/b/i\"\nmetadata = \"/b/m\"\n"
                           << "[link.main]\nalpha = \"192.0.2.1:7\"\nbeta = \"192.0.2.2:7\"\n";
  }
  // `meanwhile` when the new key is in use, and its file has not been written yet.
  Result<Output> renew(const std::function<void()>& meanwhile) { return order("renew", meanwhile); }
  Result<Output> order(const char* action, const std::function<void()>& meanwhile) {
    const std::string socket = dir_ / "r0.ctl";
    const ScriptedNode node(socket, [&](const std::string& verb, const json& args) -> std::optional<std::string> {
      if (verb == "key") {
        orders_.push_back(args["action"].get<std::string>());
        if (args["action"] == "renew") meanwhile();
        with_the_old_key_ = lost_at_ == args["action"].get<std::string>();
        return ScriptedNode::good({{"key", next_.fingerprint}});
      }
      if (dies_at_ > 0 && std::ranges::count(orders_, "renew") == dies_at_)
        return ScriptedNode::refusal("it is about to stop", "");
      const std::string& key = with_the_old_key_ ? old_.fingerprint : next_.fingerprint;
      json links{{{"name", "main"}, {"state", link_state_}, {"encryption", "TLS 1.3, key " + key}}};
      if (far_is_late_for_ > 0) {
        --far_is_late_for_;
        EXPECT_EQ(in_the_file(), (std::vector{old_.fingerprint, next_.fingerprint})) << "the old one is in use";
        links.push_back({{"name", "far"}, {"state", "up"}, {"encryption", "TLS 1.3, key " + old_.fingerprint}});
      }
      const json peer{{"name", "beta"}, {"silent_ms", silent_ms_}};
      return ScriptedNode::good({{"volume", "r0"}, {"config", config_}, {"links", links}, {"peer", peer}});
    });
    Options options;
    options.node.socket = socket;
    options.key.action = action;
    return run_key(options, "");
  }
  static std::vector<std::string> fingerprints(const LinkKeys& keys) {
    std::vector<std::string> all;
    for (const LinkKey& key : keys) all.push_back(key.fingerprint);
    return all;
  }
  [[nodiscard]] std::vector<std::string> in_the_file() const {
    const Result<LinkKeys> keys = read_link_keys(key_file_);
    return keys ? fingerprints(keys.value()) : std::vector<std::string>{keys.error().what};
  }

  const TemporaryDirectory dir_;
  const std::string key_file_ = dir_ / "r0.key";
  const std::string config_ = dir_ / "r0.toml";
  const LinkKey old_ = make_link_key();
  const LinkKey next_ = make_link_key();
  std::string link_state_ = "up";
  std::string lost_at_;             // the order during which the link is lost, and comes back with the key of before
  bool with_the_old_key_ = false;
  int silent_ms_ = 20;              // for so long nothing has come from the peer
  int dies_at_ = 0;          // during this renewal: it answers no questions from then on; 0: never
  int far_is_late_for_ = 0;  // so many answers have another link, which rests on the old key
  std::vector<std::string> orders_;  // what the node was told to do with its keys
};

TEST_F(KeyRenewal, TheNewKeyIsTheOnlyOneThen) {
  const Result<Output> done = renew([] {});
  ASSERT_TRUE(done.ok()) << done.error().what;
  EXPECT_EQ(in_the_file(), std::vector{next_.fingerprint});
  EXPECT_EQ(orders_, (std::vector<std::string>{"renew", "reload"}));
}

// It may have come back before the node knew that the old one is none any more.
TEST_F(KeyRenewal, ALinkThatIsBackWithTheOldKeyIsRenewedOnceMore) {
  lost_at_ = "reload";
  const Result<Output> done = renew([] {});
  ASSERT_TRUE(done.ok()) << done.error().what;
  EXPECT_EQ(orders_, (std::vector<std::string>{"renew", "reload", "renew"}));
}

// It still rests on the old key, which is in no file any more.
TEST_F(KeyRenewal, WhatThatComesToIsWaitedFor) {
  lost_at_ = "reload";
  dies_at_ = 2;
  const Result<Output> done = renew([] {});
  ASSERT_FALSE(done.ok()) << done.value().text;
  EXPECT_EQ(done.error().what, "it is about to stop");
  EXPECT_EQ(orders_, (std::vector<std::string>{"renew", "reload", "renew"}));
}

TEST_F(KeyRenewal, EachLinkIsWaitedFor) {
  far_is_late_for_ = 5;
  const Result<Output> done = renew([] {});
  ASSERT_TRUE(done.ok()) << done.error().what;
  EXPECT_EQ(far_is_late_for_, 0);
  EXPECT_EQ(in_the_file(), std::vector{next_.fingerprint});
}

// Of what was put there nobody knows whether the other host has it: no link would come up again with that alone.
TEST_F(KeyRenewal, AFileThatWasChangedMeanwhileStaysAsItIs) {
  const LinkKey other = make_link_key();
  for (const LinkKeys& theirs : {LinkKeys{old_, other}, LinkKeys{old_}, LinkKeys{next_, other}}) {
    orders_.clear();
    ASSERT_TRUE(replace_link_keys(key_file_, "r0", {old_, next_}).ok());
    const Result<Output> refused =
        renew([&] { EXPECT_TRUE(replace_link_keys(key_file_, "r0", theirs).ok()); });
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().what, key_file_ + " was changed meanwhile");
    EXPECT_EQ(in_the_file(), fingerprints(theirs));
    EXPECT_EQ(orders_, std::vector<std::string>{"renew"});
  }
}

// Whether the other host has the new key nobody knows then. It may also have dropped the old one, which this file would
// bring back, copied there.
TEST_F(KeyRenewal, WithoutALinkTheOldKeyStays) {
  link_state_ = "connecting";
  const Result<Output> refused = renew([] {});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().what.find("no link is up"), std::string::npos) << refused.error().what;
  EXPECT_EQ(refused.error().action, "wait until a link is up, and run `twinblock key renew r0` again");
  EXPECT_EQ(in_the_file(), fingerprints({old_, next_}));
  EXPECT_EQ(orders_, (std::vector<std::string>{"renew", "reload"}));
}

// It stands still, and its link is up for a while yet: whatever its file holds, it takes no new connection.
TEST_F(KeyRenewal, BesideASilentPeerNothingIsToBeDoneToItsFile) {
  lost_at_ = "renew";
  silent_ms_ = 25000;
  const Result<Output> refused = renew([] {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().action, "wait until beta is heard, and run `twinblock key renew r0` again");
  EXPECT_EQ(in_the_file(), fingerprints({old_, next_}));
}

// What was connected with a key that was taken out stays so until it is renewed: who reloads is to know.
TEST_F(KeyRenewal, AReloadNamesTheLinksOfADroppedKey) {
  const Result<Output> both = order("reload", [] {});
  ASSERT_TRUE(both.ok()) << both.error().what;
  EXPECT_EQ(both.value().text.find("link main"), std::string::npos) << both.value().text;
  ASSERT_TRUE(replace_link_keys(key_file_, "r0", {old_}).ok());
  const Result<Output> dropped = order("reload", [] {});
  ASSERT_TRUE(dropped.ok()) << dropped.error().what;
  EXPECT_NE(dropped.value().text.find("link main keeps the connection that was made with key " + next_.fingerprint),
            std::string::npos)
      << dropped.value().text;
  EXPECT_NE(dropped.value().text.find("twinblock key renew r0"), std::string::npos);
}

}  // namespace
}  // namespace twinblock
