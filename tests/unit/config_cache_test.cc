// [cache] of the file.
#include <gtest/gtest.h>

#include <string>

#include "base/units.h"
#include "config_support.h"

namespace twinblock {
namespace {

uint64_t parsed(const std::string& cache) {
  const Result<Config> config = parse_config(minimal_file(cache), "r0.toml");
  EXPECT_TRUE(config.ok()) << config.error().what;
  return config.ok() ? config.value().cache_bytes : ~uint64_t{0};
}

void expect_refused(const std::string& cache, int line, const std::string& part) {
  expect_refused_at(minimal_file(cache), line, {part});
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
