#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/checks.h"
#include "base/crc32c.h"
#include "base/lifetime.h"
#include "base/result.h"
#include "base/snapshot_name.h"
#include "base/units.h"

namespace twinblock {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(SnapshotName, LeadsNowhereElse) {
  for (const char* good : {"a", "0", "monday", "2026-11-25T21.30.00", "A_b-c.d", "part"})
    EXPECT_TRUE(is_snapshot_name(good)) << good;
  for (const char* bad : {"", ".", "..", "../x", "a/b", "/a", "-rf", "_a", ".hidden", "a b", "a\nb", "a$b", "x.part", "\xc3\xa4", "a:"})
    EXPECT_FALSE(is_snapshot_name(bad)) << bad;
  EXPECT_FALSE(is_snapshot_name(std::string_view("a\0b", 3)));
  EXPECT_TRUE(is_snapshot_name(std::string(63, 'a')));
  EXPECT_FALSE(is_snapshot_name(std::string(64, 'a')));
}

TEST(Crc32c, GivesThePublishedCheckValue) {
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283u);
  EXPECT_EQ(crc32c({}), 0u);
}

// RFC 3720 appendix B.4.
TEST(Crc32c, GivesTheValuesOfTheIscsiStandard) {
  EXPECT_EQ(crc32c(bytes_of(std::string(32, '\0'))), 0x8A9136AAu);
  EXPECT_EQ(crc32c(bytes_of(std::string(32, '\xff'))), 0x62A8AB43u);
  std::string ascending(32, '\0');
  for (size_t i = 0; i < ascending.size(); ++i) ascending[i] = static_cast<char>(i);
  EXPECT_EQ(crc32c(bytes_of(ascending)), 0x46DD794Eu);
}

TEST(Crc32c, ExtendingByPiecesEqualsTheWhole) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text.push_back(static_cast<char>(i * 31 + i / 7));
  const uint32_t whole = crc32c(bytes_of(text));
  for (const size_t cut : {size_t{0}, size_t{1}, size_t{63}, size_t{4096}, text.size()}) {
    const uint32_t head = crc32c(bytes_of(text).first(cut));
    EXPECT_EQ(crc32c_extend(head, bytes_of(text).subspan(cut)), whole) << cut;
  }
}

TEST(Lifetime, AnEndIsSeenByEachOfNestedCalls) {
  auto object = std::make_unique<Lifetime>();
  const Lifetime::Watch outer(*object);
  {
    const Lifetime::Watch inner(*object);
    EXPECT_FALSE(inner.ended());
  }
  EXPECT_FALSE(outer.ended());
  const Lifetime::Watch second(*object);
  object.reset();
  EXPECT_TRUE(second.ended());
  EXPECT_TRUE(outer.ended());
}

TEST(Units, ReadsBinaryAndDecimalSizes) {
  EXPECT_EQ(parse_size_bytes("4096"), 4096u);
  EXPECT_EQ(parse_size_bytes("512 MiB"), 512 * kMiB);
  EXPECT_EQ(parse_size_bytes(" 10GiB "), 10 * kGiB);
  EXPECT_EQ(parse_size_bytes("1000MB"), 1000'000'000u);
  EXPECT_EQ(parse_size_bytes("64TiB"), 64 * kTiB);
  EXPECT_EQ(parse_size_bytes("7B"), 7u);
  EXPECT_EQ(parse_size_bytes("0"), 0u);
}

TEST(Units, RefusesWhatIsNotASize) {
  for (const char* text : {"", "GiB", "-1", "1.5GiB", "10 gib", "10GiBx", "1 0", "0x10", "1e3",
                           "18446744073709551616", "16777216TiB", "99999999999GiB"})
    EXPECT_EQ(parse_size_bytes(text), std::nullopt) << text;
}

TEST(Units, ReadsDurationsAndRates) {
  EXPECT_EQ(parse_duration_ns("5s"), 5 * kSecond_ns);
  EXPECT_EQ(parse_duration_ns("500ms"), 500 * kMillisecond_ns);
  EXPECT_EQ(parse_duration_ns("1.5 s"), 1500 * kMillisecond_ns);
  EXPECT_EQ(parse_duration_ns("2min"), 120 * kSecond_ns);
  EXPECT_EQ(parse_duration_ns("250us"), 250 * kMicrosecond_ns);
  for (const char* text : {"", "5", "5 seconds", "s", "1.2.3s", "-1s", "1h"})
    EXPECT_EQ(parse_duration_ns(text), std::nullopt) << text;
  EXPECT_EQ(parse_rate_bits_per_s("10Gbit"), 10'000'000'000u);
  EXPECT_EQ(parse_rate_bits_per_s("2.5Gbit"), 2'500'000'000u);
  EXPECT_EQ(parse_rate_bits_per_s("100 Mbit"), 100'000'000u);
  EXPECT_EQ(parse_rate_bits_per_s("10"), std::nullopt);
  EXPECT_EQ(parse_rate_bits_per_s("10784447637050.225Mbit"), std::nullopt) << "more than there is";
}

TEST(Units, WritesSizesAndDurationsForPeople) {
  EXPECT_EQ(format_size(0), "0 B");
  EXPECT_EQ(format_size(1023), "1023 B");
  EXPECT_EQ(format_size(4096), "4 KiB");
  EXPECT_EQ(format_size(1610612736), "1.5 GiB");
  for (const uint64_t bytes : {uint64_t{512}, 4 * kKiB, 20 * kGiB, 20 * kGiB + 4 * kKiB, 3 * kTiB})
    EXPECT_EQ(parse_size_bytes(format_exact_size(bytes)), bytes) << "a file may say so";
  EXPECT_EQ(format_exact_size(20 * kGiB), "20GiB");
  EXPECT_EQ(format_exact_size(1610612736), "1536MiB");
  EXPECT_EQ(format_size(64 * kTiB), "64 TiB");
  EXPECT_EQ(format_duration(250), "0.2 us");
  EXPECT_EQ(format_duration(1500000), "1.50 ms");
  EXPECT_EQ(format_duration(5 * kSecond_ns), "5.00 s");
  EXPECT_EQ(format_duration(150 * kSecond_ns), "2 min 30 s");
}

TEST(Result, HoldsAValueOrAnError) {
  Result<int> good = 7;
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(good.value(), 7);
  const Result<int> bad = system_error(ENOENT, "/srv/r0.img", "create it");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().what, "/srv/r0.img: No such file or directory");
  EXPECT_EQ(bad.error().action, "create it");
  EXPECT_EQ(bad.error().code, ENOENT);
  EXPECT_TRUE(ok_status().ok());
}

TEST(AllZero, FindsTheOneByteThatIsNot) {
  EXPECT_TRUE(all_zero({}));
  std::vector<std::byte> bytes(4097);
  for (const size_t size : {size_t{1}, size_t{2}, size_t{63}, size_t{4096}, bytes.size()}) {
    EXPECT_TRUE(all_zero(std::span(bytes).first(size))) << size;
    for (const size_t at : {size_t{0}, size / 2, size - 1}) {
      bytes[at] = std::byte{0x80};
      EXPECT_FALSE(all_zero(std::span(bytes).first(size))) << size << ", " << at;
      bytes[at] = std::byte{0};
    }
  }
}

TEST(ResultDeathTest, TakingTheWrongSideIsABug) {
  Result<int> good = 7;
  Result<int> bad = Error{"no", "", 0};
  EXPECT_DEATH((void)bad.value(), "value\\(\\) of a failed Result");
  EXPECT_DEATH((void)good.error(), "error\\(\\) of a good Result");
}

TEST(ChecksDeathTest, AFailedCheckNamesThePlaceAndTheReason) {
  EXPECT_DEATH(TB_CHECK(1 + 1 == 3, "arithmetic"), "base_test.cc:.*arithmetic.*1 \\+ 1 == 3");
}

}  // namespace
}  // namespace twinblock
