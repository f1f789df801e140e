// [cache] of the file.
#include <gtest/gtest.h>

#include <string>

#include "base/units.h"
#include "config/config.h"

namespace twinblock {
namespace {

std::string file(const std::string& cache) {
  return R"(volume = "r0"
size = "1GiB"
[node.alpha]
backing = "/a/r0.img"
metadata = "/a/r0.meta"
[node.beta]
backing = "/b/r0.img"
metadata = "/b/r0.meta"
[link.main]
alpha = "10.0.0.1:7700"
beta = "10.0.0.2:7700"
)" + cache;
}

uint64_t parsed(const std::string& cache) {
  const Result<Config> config = parse_config(file(cache), "r0.toml");
  EXPECT_TRUE(config.ok()) << config.error().what;
  return config.ok() ? config.value().cache_bytes : ~uint64_t{0};
}

// The error names the line, and has `part`.
void expect_refused(const std::string& cache, int line, const std::string& part) {
  const Result<Config> config = parse_config(file(cache), "r0.toml");
  ASSERT_FALSE(config.ok()) << cache;
  const std::string& error = config.error().what;
  EXPECT_TRUE(error.starts_with("r0.toml:" + std::to_string(line) + ": ")) << error;
  EXPECT_NE(error.find(part), std::string::npos) << error;
}

TEST(CacheTable, ThereIsNoneUnlessTheFileSaysSo) { EXPECT_EQ(parsed(""), 0u); }

TEST(CacheTable, ItsSizeIsRead) {
  EXPECT_EQ(parsed("[cache]\nsize = \"2GiB\"\n"), 2 * kGiB);
  EXPECT_EQ(parsed("[cache]\nsize = \"16MiB\"\n"), 16 * kMiB);
  EXPECT_EQ(parsed("[cache]\nsize = \"1TiB\"\n"), kTiB);
}

TEST(CacheTable, WhatIsWrongIsToldWithItsLine) {
  expect_refused("[cache]\n", 12, "size");
  expect_refused("[cache]\nsize = \"much\"\n", 13, "'much' is not a size");
  expect_refused("[cache]\nsize = 2\n", 13, "size");
  expect_refused("[cache]\nsize = \"15MiB\"\n", 13, "out of range");
  expect_refused("[cache]\nsize = \"2TiB\"\n", 13, "out of range");
  expect_refused("[cache]\nsize = \"2GiB\"\nsizes = \"2GiB\"\n", 14, "sizes");
  expect_refused("cache = \"2GiB\"\n", 12, "");
}

}  // namespace
}  // namespace twinblock
