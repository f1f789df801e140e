// [copies] of the file.
#include <gtest/gtest.h>

#include <string>

#include "base/units.h"
#include "config_support.h"

namespace twinblock {
namespace {

Config parsed(const std::string& copies) {
  const Result<Config> config = parse_config(minimal_file(copies), "r0.toml");
  EXPECT_TRUE(config.ok()) << config.error().what;
  return config.ok() ? config.value() : Config{};
}

void expect_refused(const std::string& copies, int line, const std::vector<std::string>& parts) {
  expect_refused_at(minimal_file(copies), line, parts);
}

const CopyWay kReflink{.reflink = true, .command = {}};

TEST(CopiesTable, WithoutItNoWayBackIsKeptAndSnapshotsAreReflinks) {
  const Config config = parsed("");
  EXPECT_TRUE(config.copies.before_resync.none());
  EXPECT_TRUE(config.copies.after_resync.none());
  EXPECT_TRUE(config.copies.rollback.none());
  EXPECT_EQ(config.copies.snapshot, kReflink);
  EXPECT_EQ(config.copies.timeout_ns, 30 * kSecond_ns);
  EXPECT_EQ(config.on_no_way_back, OnNoWayBack::kGoOn);
}

TEST(CopiesTable, WhatAReflinkKeepsAReflinkBringsBackAndRemoves) {
  const Config config = parsed("[copies]\nbefore_resync = \"reflink\"\ntimeout = \"2s\"\non_failure = \"wait\"\n");
  EXPECT_EQ(config.copies.before_resync, kReflink);
  EXPECT_EQ(config.copies.after_resync, kReflink);
  EXPECT_EQ(config.copies.rollback, kReflink);
  EXPECT_EQ(config.copies.timeout_ns, 2 * kSecond_ns);
  EXPECT_EQ(config.on_no_way_back, OnNoWayBack::kWait);
}

TEST(CopiesTable, CommandsAreNamedByTheirPaths) {
  const Config config = parsed(
      "[copies]\nbefore_resync = \"/etc/a\"\nrollback = \"/etc/b\"\nafter_resync = \"/etc/c\"\nsnapshot = \"/etc/d\"\n");
  EXPECT_EQ(config.copies.before_resync.command, "/etc/a");
  EXPECT_EQ(config.copies.rollback.command, "/etc/b");
  EXPECT_EQ(config.copies.after_resync.command, "/etc/c");
  EXPECT_EQ(config.copies.snapshot.command, "/etc/d");
  EXPECT_TRUE(parsed("[copies]\nbefore_resync = \"/etc/a\"\nrollback = \"/etc/a\"\n").copies.after_resync.none());
}

TEST(CopiesTable, WhatItDoesNotSayStaysAsItIsWithoutIt) {
  const Config by_command = parsed("[copies]\nbefore_resync = \"/etc/a\"\nrollback = \"/etc/a\"\n");
  EXPECT_EQ(by_command.copies.snapshot, kReflink);
  EXPECT_EQ(by_command.copies.timeout_ns, 30 * kSecond_ns);
  EXPECT_EQ(by_command.on_no_way_back, OnNoWayBack::kGoOn);
  const Config by_reflink = parsed("[copies]\nbefore_resync = \"reflink\"\n");
  EXPECT_EQ(by_reflink.copies.snapshot, kReflink);
  EXPECT_EQ(by_reflink.copies.timeout_ns, 30 * kSecond_ns);
  EXPECT_EQ(by_reflink.on_no_way_back, OnNoWayBack::kGoOn);
}

TEST(CopiesTable, WhatIsWrongIsToldWithItsLine) {
  expect_refused("[copies]\nbefore_resync = \"snapshot\"\n", 13, {"no way to copy a backing", "\"reflink\""});
  expect_refused("[copies]\nbefore_resync = \"/etc/a\"\n", 13, {"needs a command that brings it back", "rollback = "});
  expect_refused("[copies]\nrollback = \"/etc/a\"\n", 13, {"belongs to a before_resync that is a command"});
  expect_refused("[copies]\nbefore_resync = \"reflink\"\nafter_resync = \"/etc/a\"\n", 14,
                 {"belongs to a before_resync that is a command"});
  expect_refused("[copies]\non_failure = \"wait\"\n", 13, {"before_resync, which is missing"});
  expect_refused("[copies]\nbefore_resync = \"reflink\"\non_failure = \"stop\"\n", 14, {"on_failure"});
  expect_refused("[copies]\nbefore_resync = \"reflink\"\ntimeout = \"2h\"\n", 14, {"timeout"});
  expect_refused("[copies]\nbefore_resync = true\n", 13, {"before_resync"});
  expect_refused("[copies]\nbefore = \"reflink\"\n", 13, {"before"});
}

}  // namespace
}  // namespace twinblock
