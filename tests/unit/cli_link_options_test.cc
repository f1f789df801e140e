// What `link` and `compression` take, and what they say of what they do not take.
#include <gtest/gtest.h>

#include "twinblock/command_line.h"

namespace twinblock {
namespace {

using Words = std::vector<std::string>;

const std::string kHere = "alpha=10.20.0.1:7700";
const std::string kThere = "beta=10.20.0.2:7700";

Options parsed(const Words& words) {
  const Result<CommandLine> line = parse_command_line(words, "1.2.3");
  EXPECT_TRUE(line.ok()) << words.back() << ": " << line.error().what;
  return line.ok() ? line.value().options : Options{};
}

std::string refusal(const Words& words) {
  const Result<CommandLine> line = parse_command_line(words, "1.2.3");
  EXPECT_FALSE(line.ok()) << words.back();
  if (line.ok()) return {};
  EXPECT_EQ(line.error().code, kExitUsage);
  return line.error().what + "\n" + line.error().action;
}

bool says(const std::string& text, const std::string& word) {
  return text.find(word) != std::string::npos;
}

TEST(LinkOptions, ListTakesAVolumeOrNone) {
  EXPECT_EQ(parsed({"link", "list", "r0", "--json"}).node.volume, "r0");
  EXPECT_EQ(parsed({"link", "list"}).node.volume, "");
  EXPECT_EQ(parsed({"link", "list"}).link.action, "list");
  EXPECT_EQ(parsed({"link", "list", "list"}).node.volume, "list") << "a volume may be called so";
}

TEST(LinkOptions, AddTakesANameAndBothEndsInAnyOrder) {
  for (const Words& words : {Words{"link", "add", "r0", "b", kHere, kThere, "--rate", "1Gbit"},
                             Words{"link", "--rate", "1Gbit", "add", kThere, "r0", kHere, "b"}}) {
    const Options options = parsed(words);
    EXPECT_EQ(options.node.volume, "r0");
    EXPECT_EQ(options.link.action, "add");
    EXPECT_EQ(options.link.names, Words{"b"});
    EXPECT_EQ(options.link.addresses.at("alpha"), "10.20.0.1:7700");
    EXPECT_EQ(options.link.addresses.at("beta"), "10.20.0.2:7700");
    EXPECT_EQ(options.link.rate, "1Gbit");
  }
  const Options named = parsed({"link", "add", "b"});
  EXPECT_EQ(named.node.volume, "");
  EXPECT_EQ(named.link.names, Words{"b"});
  EXPECT_TRUE(named.link.addresses.empty() && named.link.rate.empty());
  EXPECT_EQ(parsed({"link", "add", "b", "alpha=[FD00::0:1]:1", "beta=[fd00::2]:1"})
                .link.addresses.at("alpha"),
            "[fd00::1]:1");
}

TEST(LinkOptions, TheOtherActionsTakeSeveralNamesAfterTheVolume) {
  for (const std::string action : {"remove", "enable", "disable"}) {
    const Options one = parsed({"link", action, "b"});
    EXPECT_EQ(one.link.action, action);
    EXPECT_EQ(one.node.volume, "");
    EXPECT_EQ(one.link.names, Words{"b"});
    const Options several = parsed({"link", action, "r0", "b", "c"});
    EXPECT_EQ(several.node.volume, "r0");
    EXPECT_EQ(several.link.names, (Words{"b", "c"}));
  }
}

TEST(LinkOptions, WhatIsWrongIsNamedAndHowToWriteItSaid) {
  const std::vector<std::pair<Words, std::string>> wrong{
      {{"link"}, "no action"},
      {{"link", "r0", "list"}, "'r0' is not an action"},
      {{"link", "cut", "r0", "b"}, "'cut' is not an action"},
      {{"link", "list", "r0", "b"}, "'b' is too much"},
      {{"link", "list", "r0", kHere}, "goes with add only"},
      {{"link", "add", "r0", "b", "c"}, "'c' is too much"},
      {{"link", "add"}, "add needs a link's name"},
      {{"link", "remove"}, "remove needs a link's name"},
      {{"link", "add", "b", kHere}, "two ends"},
      {{"link", "add", "b", kHere, kHere}, "two addresses for node 'alpha'"},
      {{"link", "add", "b", kHere, "beta=host:1"}, "'host:1'"},
      {{"link", "add", "b", kHere, "beta="}, "has no port"},
      {{"link", "add", "r0", "a/b"}, "'a/b' can't be the name of a link"},
      {{"link", "remove", "r0", "b", kHere}, "goes with add only"},
      {{"link", "remove", "r0", "b", "--rate", "1Gbit"}, "--rate goes with add only"},
      {{"link", "add", "b", "--rate", "fast"}, "--rate: 'fast'"},
      {{"link", "add", "b", "--rate"}, "--rate"}};
  for (const auto& [words, part] : wrong) EXPECT_TRUE(says(refusal(words), part)) << refusal(words);
  EXPECT_TRUE(says(refusal({"link"}), "twinblock link list VOLUME"));
}

TEST(CompressionOptions, TakeAModeALevelBothOrNone) {
  EXPECT_EQ(parsed({"compression"}).compression.mode, "");
  EXPECT_EQ(parsed({"compression"}).compression.level, 0);
  EXPECT_EQ(parsed({"compression", "r0"}).node.volume, "r0");
  for (const std::string mode : {"off", "on", "auto"}) {
    EXPECT_EQ(parsed({"compression", mode}).compression.mode, mode);
    EXPECT_EQ(parsed({"compression", mode}).node.volume, "");
    EXPECT_EQ(parsed({"compression", mode, mode}).node.volume, mode) << "a volume may be called so";
  }
  const Options both = parsed({"compression", "r0", "auto", "--level", "19", "--json"});
  EXPECT_EQ(both.compression.mode, "auto");
  EXPECT_EQ(both.compression.level, 19);
  EXPECT_EQ(both.node.volume, "r0");
  EXPECT_EQ(parsed({"compression", "r0", "--level", "1"}).compression.level, 1);
}

TEST(CompressionOptions, WhatIsWrongIsNamed) {
  EXPECT_TRUE(says(refusal({"compression", "r0", "yes"}), "'yes' is not a mode"));
  EXPECT_TRUE(says(refusal({"compression", "r0", "r1", "on"}), "'r1' is too much"));
  for (const char* level : {"0", "20", "-1", "fast", "1.5"})
    EXPECT_TRUE(says(refusal({"compression", "r0", "on", "--level", level}), "--level")) << level;
}

}  // namespace
}  // namespace twinblock
