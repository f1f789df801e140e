// What the file says of encryption, and which links may be without.
#include <gtest/gtest.h>

#include "config/config.h"
#include "config/link_protection.h"

namespace twinblock {
namespace {

std::string file(const std::string& above, const std::string& alpha = "10.10.0.1:7700",
                 const std::string& beta = "10.10.0.2:7700") {
  return "volume = \"r0\"\nsize = \"1GiB\"\n" + above +
         "[node.alpha]\nbacking = \"/a\"\nmetadata = \"/am\"\nruntime = \"/run/a\"\n"
         "[node.beta]\nbacking = \"/b\"\nmetadata = \"/bm\"\nruntime = \"/run/b\"\n"
         "[link.near]\nalpha = \"127.0.0.1:1\"\nbeta = \"127.0.0.1:2\"\n"
         "[link.main]\nalpha = \"" +
         alpha + "\"\nbeta = \"" + beta + "\"\n";
}

Config parsed(const std::string& text) {
  const Result<Config> config = parse_config(text, "r0.toml");
  EXPECT_TRUE(config.ok()) << config.error().what;
  return config.ok() ? config.value() : Config{};
}

std::string refused(const std::string& text) {
  const Result<Config> config = parse_config(text, "r0.toml");
  EXPECT_FALSE(config.ok());
  return config.ok() ? "" : config.error().what;
}

TEST(Protection, AKeyEncryptsUnlessTheFileSaysOff) {
  EXPECT_FALSE(parsed(file("")).encrypted());
  EXPECT_EQ(parsed(file("key = \"/etc//twinblock/r0.key\"\n")).key, "/etc/twinblock/r0.key");
  EXPECT_TRUE(parsed(file("key = \"/k\"\n")).encrypted());
  EXPECT_TRUE(parsed(file("key = \"/k\"\nencryption = \"tls\"\n")).encrypted());
  EXPECT_FALSE(parsed(file("key = \"/k\"\nencryption = \"off\"\n")).encrypted());
}

TEST(Protection, WhatIsWrongIsNamedWithItsLine) {
  EXPECT_NE(refused(file("key = \"r0.key\"\n")).find("r0.toml:3: key: 'r0.key' is not an absolute path"),
            std::string::npos);
  EXPECT_NE(refused(file("encryption = \"on\"\n")).find("r0.toml:3"), std::string::npos);
  const std::string without = refused(file("encryption = \"tls\"\n"));
  EXPECT_NE(without.find("r0.toml:3: encryption needs a key"), std::string::npos) << without;
}

TEST(Protection, ALinkThatLeavesTheHostNeedsAKeyOrAWord) {
  const Status refusal = links_may_be_used(parsed(file("")));
  ASSERT_FALSE(refusal.ok());
  EXPECT_EQ(refusal.error().what.find("link main leaves this host, and has no key"), 0u)
      << refusal.error().what;
  for (const char* way : {"key = \"/etc/twinblock/r0.key\"", "twinblock key new r0",
                          "encryption = \"off\"", "r0.toml"})
    EXPECT_NE(refusal.error().action.find(way), std::string::npos) << way;
  EXPECT_TRUE(links_may_be_used(parsed(file("key = \"/k\"\n"))).ok());
  EXPECT_TRUE(links_may_be_used(parsed(file("encryption = \"off\"\n"))).ok());
}

TEST(Protection, LoopbackIsWithinTheHost) {
  const auto may = [](const char* alpha, const char* beta) {
    return links_may_be_used(parsed(file("", alpha, beta))).ok();
  };
  EXPECT_TRUE(may("127.0.0.1:7700", "127.0.0.2:7700"));
  EXPECT_TRUE(may("[::1]:7700", "[::1]:7701"));
  EXPECT_FALSE(may("127.0.0.1:7700", "10.0.0.2:7700")) << "one end is enough";
  EXPECT_FALSE(may("10.0.0.1:7700", "10.0.0.1:7701")) << "others can reach that";
  EXPECT_FALSE(may("[fd00::1]:7700", "[fd00::2]:7700"));
}

}  // namespace
}  // namespace twinblock
