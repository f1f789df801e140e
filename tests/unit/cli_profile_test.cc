// Recordings of other tools: what is read of them, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>

#include "plan_support.h"
#include "twinblock/plan.h"
#include "twinblock/plan_load.h"
#include "twinblock/plan_text.h"
#include "twinblock/plan_zones.h"
#include "twinblock/profile.h"

namespace twinblock {
namespace {

const std::string kIostat =
    "Linux 6.1 (vm) \t11/25/26 \t_x86_64_\t(2 CPU)\n\n"
    "11/25/26 08:00:00\navg-cpu:  %user   %idle\n  1.00   99.00\n\n"
    "Device   r/s  w/s  wkB/s\nsda  1.00 900.00 9000.00\n\n"
    "11/25/26 08:00:10\navg-cpu:  %user   %idle\n  1.00   99.00\n\n"
    "Device   r/s  w/s  wkB/s\nsda  1.00 10.00 80.00\nsda1  1.00 10.00 80.00\ndm-0  1.00 10.00 "
    "80.00\nvdb 0.00 2.00 16.00\n\n"
    "11/25/26 08:00:20\navg-cpu:  %user   %idle\n  1.00   99.00\n\n"
    "Device   r/s  w/s  wkB/s\nsda  1.00 20.00 320.00\n\n";

Profile read(const std::string& text, const ProfileDevices& devices = {}) {
  const Result<Profile> profile = parse_profile(text, devices);
  EXPECT_TRUE(profile.ok()) << (profile.ok() ? "" : profile.error().what);
  return profile ? profile.value() : Profile{};
}

std::string refusal(const std::string& text, const ProfileDevices& devices = {}) {
  const Result<Profile> profile = parse_profile(text, devices);
  return profile.ok() ? "read" : profile.error().what;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string utf16(const std::string& text) {
  std::string out = "\xff\xfe";
  for (const char each : text) out += {each, '\0'};
  return out;
}

TEST(ProfileIostat, CountsEachByteOnceAndNotWhatCameBefore) {
  const Profile profile = read(kIostat);
  EXPECT_EQ(profile.devices, (std::vector<std::string>{"sda", "vdb"}));
  EXPECT_EQ(profile.left_out, (std::vector<std::string>{"dm-0", "sda1"}));
  ASSERT_EQ(profile.samples.size(), 2U);
  EXPECT_DOUBLE_EQ(profile.samples[0].bytes_per_s, 96 * 1024);
  EXPECT_DOUBLE_EQ(profile.samples[0].writes_per_s, 12);
  EXPECT_DOUBLE_EQ(profile.samples[0].interval_s, 10);
  EXPECT_DOUBLE_EQ(profile.samples[1].bytes_per_s, 320 * 1024);
  EXPECT_DOUBLE_EQ(read(kIostat, {"dm-0"}).samples[0].bytes_per_s, 80 * 1024);
  EXPECT_EQ(refusal(kIostat, {"sdz"}), "it has no device 'sdz'");
}

TEST(ProfileIostat, SaysThatAnArraysDisksMayMirror) {
  const std::string raid = replaced(kIostat, "\ndm-0  1.00", "\nmd0  1.00");
  const auto told = [](const Profile& profile) {
    return std::any_of(profile.notes.begin(), profile.notes.end(), [](const std::string& note) {
      return note.find("with --device md0 once") != std::string::npos;
    });
  };
  EXPECT_TRUE(told(read(raid)));
  EXPECT_FALSE(told(read(raid, {"md0"})));
  EXPECT_FALSE(told(read(kIostat)));
}

TEST(ProfileIostat, SaysWhatIsTooLargeAsSuch) {
  EXPECT_EQ(refusal(replaced(kIostat, "20.00 320.00", "20.00 2e15")),
            "line 25: column 4: '2e15' is more than any disk writes");
}

// Older versions count sectors of 512 bytes; -m has others tell megabytes.
TEST(ProfileIostat, KnowsWhatAUnitIsInBytes) {
  const auto bytes_per_s = [](const std::string& unit, const std::string& figure) {
    const std::string table = "\nDevice  w/s  " + unit + "\nsda  1.00  " + figure + "\n\n";
    return read("Linux 6.1 (vm) \t11/25/26\n\n11/25/26 08:00:00" + table + "11/25/26 08:00:10" + table)
        .samples.at(0)
        .bytes_per_s;
  };
  EXPECT_DOUBLE_EQ(bytes_per_s("wsec/s", "2048.00"), 1024 * 1024);
  EXPECT_DOUBLE_EQ(bytes_per_s("wMB/s", "1.00"), 1024 * 1024);
}

TEST(ProfileIostat, SaysThatADeviceStandsTwiceInAReport) {
  EXPECT_EQ(refusal(replaced(kIostat, "dm-0  1.00", "sda  1.00")),
            "line 17: device 'sda' stands twice in one report");
}

std::string fio_job(const std::string& name, int group, double begin_ms) {
  return "{\"jobname\": \"" + name + "\", \"groupid\": " + std::to_string(group) +
         (begin_ms > 0 ? ", \"job_start\": " + std::to_string(begin_ms) : std::string()) +
         ", \"write\": {\"io_bytes\": 2097152, \"total_ios\": 128, \"runtime\": 2000}}";
}

TEST(ProfileFio, JobsThatWaitForOthersDoNotAddUp) {
  const auto jobs = [](const std::string& a, const std::string& b) {
    return read("{\"fio version\": \"3\", \"timestamp\": 1000,\n\"jobs\": [" + a + "," + b + "]}");
  };
  const Profile together = jobs(fio_job("a", 0, 0), fio_job("b", 0, 0));
  ASSERT_EQ(together.samples.size(), 1U);
  EXPECT_DOUBLE_EQ(together.samples[0].bytes_per_s, 2097152);
  const Profile later = jobs(fio_job("a", 0, 0), fio_job("b", 1, 0));
  ASSERT_EQ(later.samples.size(), 2U);
  EXPECT_DOUBLE_EQ(later.samples[0].bytes_per_s, 1048576);
  EXPECT_DOUBLE_EQ(later.samples[0].end_s, 998);
  EXPECT_DOUBLE_EQ(later.samples[1].interval_s, 2);
  // A group of its own that did not wait (new_group), where fio says when each began.
  EXPECT_EQ(jobs(fio_job("a", 0, 5000), fio_job("b", 1, 5010)).samples.size(), 1U);
  EXPECT_EQ(jobs(fio_job("a", 0, 5000), fio_job("b", 1, 7010)).samples.size(), 2U);
}

TEST(ProfileIostat, SaysInWhichLineItIsDamaged) {
  EXPECT_EQ(refusal(replaced(kIostat, "20.00 320.00", "20.00 x20.00")),
            "line 25: column 4: 'x20.00' is not a number of 0 or more");
  EXPECT_EQ(refusal(replaced(kIostat, "20.00 320.00", "20.00 -320.00")),
            "line 25: column 4: '-320.00' is not a number of 0 or more");
  EXPECT_EQ(refusal(replaced(kIostat, "20.00 320.00", "20.00")),
            "line 25: there are 3 columns where the table has 4");
  EXPECT_EQ(refusal(replaced(kIostat, "w/s  wkB/s", "q/s  wkB/s")),
            "line 7: there is no column w/s, the writes a second");
  EXPECT_EQ(
      refusal(kIostat + replaced(kIostat, "wkB/s", "wMB/s")),
      "line 33: the bytes are in wMB/s here, and in wkB/s before: two recordings in one file");
}

const std::string kPerfmon =
    "\"(PDH-CSV 4.0) (W. Europe Standard Time)(-60)\",\"\\\\H\\System\\File Write Bytes/sec\","
    "\"\\\\H\\System\\File Write Operations/sec\"\r\n"
    "\"11/25/2026 08:00:00.000\",\" \",\" \"\r\n"
    "\"11/25/2026 08:00:10.000\",\"8192.5\",\"1\"\r\n"
    "\"11/25/2026 08:00:20.000\",\" \",\"\"\r\n"
    "\"11/25/2026 08:00:30.000\",\"24575.5\",\"3\"\r\n";

TEST(ProfilePerfmon, UnderstandsBothLocalesMarksAndGaps) {
  std::string german = kPerfmon;
  for (size_t at = 0; (at = german.find("\",\"", at)) != std::string::npos;) german[at + 1] = ';';
  german = replaced(replaced(german, "8192.5", "8192,5"), "24575.5", "24575,5");
  for (const std::string& text : {kPerfmon, german, "\xef\xbb\xbf" + kPerfmon, utf16(german)}) {
    const Profile profile = read(text);
    EXPECT_EQ(profile.devices, std::vector<std::string>{"System"});
    ASSERT_EQ(profile.samples.size(), 2U);
    EXPECT_EQ(profile.gap_ends_s.size(), 1U);
    EXPECT_DOUBLE_EQ(profile.samples[0].bytes_per_s + profile.samples[1].bytes_per_s, 32768);
    EXPECT_DOUBLE_EQ(profile.samples[1].writes_per_s, 3);
    EXPECT_DOUBLE_EQ(profile.samples[1].interval_s, 10);
  }
  EXPECT_EQ(refusal(replaced(kPerfmon, "8192.5", "8k")),
            "line 3: column 2: '8k' is not a number of 0 or more");
  EXPECT_EQ(refusal(replaced(kPerfmon, "File Write Operations", "File Read Operations")),
            "line 1: there is no column of the number of writes of 'System'");
}

// Two Performance Monitors' figures can't be told apart by their disks' names.
TEST(ProfilePerfmon, SaysThatTwoHostsAreInOneFile) {
  EXPECT_EQ(refusal("\"(PDH-CSV 4.0) (W. Europe Standard Time)(-60)\",\"\\\\H\\System\\File Write Bytes/sec\","
                    "\"\\\\H\\System\\File Write Operations/sec\",\"\\\\K\\System\\File Write Bytes/sec\","
                    "\"\\\\K\\System\\File Write Operations/sec\"\r\n"
                    "\"11/25/2026 08:00:00.000\",\"8192\",\"1\",\"16384\",\"2\"\r\n"
                    "\"11/25/2026 08:00:10.000\",\"8192\",\"1\",\"16384\",\"2\"\r\n"),
            "line 1: '\\\\K\\System\\File Write Bytes/sec' stands twice: two hosts in one file");
}

TEST(ProfileSar, TakesTheWritesShareOfTransfersAndGoesOverMidnight) {
  const Profile profile = read(
      "Linux 6.1 (vm) \t11/25/26 \t_x86_64_\t(2 CPU)\n\n"
      "23:59:50  DEV  tps  rkB/s  wkB/s  dkB/s\n00:00:00  sda  10.00  10.00  30.00  0.00\n\n"
      "00:00:00  DEV  tps  rkB/s  wkB/s  dkB/s\n00:00:10  sda  10.00  0.00  80.00  0.00\n\n"
      "Average:  DEV  tps  rkB/s  wkB/s  dkB/s\nAverage:  sda  10.00  5.00  55.00  0.00\n");
  ASSERT_EQ(profile.samples.size(), 2U);
  EXPECT_DOUBLE_EQ(profile.samples[0].writes_per_s, 7.5);
  EXPECT_DOUBLE_EQ(profile.samples[0].interval_s, 10);
  EXPECT_DOUBLE_EQ(profile.samples[1].bytes_per_s, 80 * 1024);
  EXPECT_DOUBLE_EQ(profile.samples[1].end_s - profile.samples[0].end_s, 10);
  EXPECT_TRUE(profile.writes_estimated);
}

TEST(ProfileSar, KnowsTheSectorsOfOlderVersions) {
  const Profile profile = read(
      "Linux 2.6 (vm) \t11/25/26\n\n"
      "08:00:00  DEV  tps  rd_sec/s  wr_sec/s\n08:00:10  sda  10.00  0.00  2048.00\n");
  ASSERT_EQ(profile.samples.size(), 1U);
  EXPECT_DOUBLE_EQ(profile.samples[0].bytes_per_s, 1024 * 1024);
}

std::string sadf(const std::string& reports) {
  return R"({"sysstat":{"hosts":[{"statistics":[)" + reports + "]}]}}";
}

TEST(ProfileSar, OfJsonTakesTheWritesShareOfTransfersInKibibytes) {
  const Profile profile = read(sadf(
      R"({"timestamp":{"date":"2026-11-25","time":"08:00:10","interval":10},"disk":[)"
      R"({"disk-device":"sda","tps":10.0,"rkB":10.0,"wkB":30.0,"dkB":0.0}]},)"
      R"({"timestamp":{"date":"2026-11-25","time":"08:00:20","interval":10},"disk":[)"
      R"({"disk-device":"sda","tps":10.0,"rkB":10.0,"wkB":10.0,"dkB":20.0}]},)"
      // An older version's.
      R"({"timestamp":{"date":"2026-11-25","time":"08:00:30","interval":10},"disk":[)"
      R"({"disk-device":"sda","tps":8.0,"rkB":0.0,"wkB":4.0}]})"));
  EXPECT_EQ(profile.format, "sar (JSON)");
  EXPECT_EQ(profile.devices, std::vector<std::string>{"sda"});
  ASSERT_EQ(profile.samples.size(), 3U);
  EXPECT_DOUBLE_EQ(profile.samples[0].bytes_per_s, 30 * 1024);
  EXPECT_DOUBLE_EQ(profile.samples[0].writes_per_s, 7.5);
  EXPECT_DOUBLE_EQ(profile.samples[0].interval_s, 10);
  EXPECT_DOUBLE_EQ(profile.samples[1].bytes_per_s, 10 * 1024);
  EXPECT_DOUBLE_EQ(profile.samples[1].writes_per_s, 2.5);
  EXPECT_DOUBLE_EQ(profile.samples[1].end_s - profile.samples[0].end_s, 10);
  EXPECT_DOUBLE_EQ(profile.samples[2].bytes_per_s, 4 * 1024);
  EXPECT_DOUBLE_EQ(profile.samples[2].writes_per_s, 8);
  EXPECT_TRUE(profile.writes_estimated);
}

TEST(Profile, RefusesWhatIsNoRecording) {
  EXPECT_EQ(refusal(""), "it is empty");
  EXPECT_EQ(refusal("\n \n"), "it is empty");
  EXPECT_EQ(refusal(std::string("\x7f"
                                "ELF\0\1\2",
                                7)),
            "line 1: this is no text");
  EXPECT_EQ(refusal("a\n" + std::string(2 << 20, 'x')), "line 2: it is longer than 1 MiB");
  EXPECT_EQ(refusal("{\"sysstat\": {\n\"hosts\": [\n"), "line 3: the JSON ends too early");
  EXPECT_EQ(refusal("{\"sysstat\": 1}"), "line 1: there is no list \"hosts\" in \"sysstat\"");
  EXPECT_EQ(refusal("{\"jobs\": [\n{\"jobname\": \"a\", \"read\": {}}]}"),
            "line 2: job 1: the job has no \"write\"");
}

std::string iostat_at(const std::vector<std::string>& clocks) {
  std::string text = "Linux 6.1 (vm) \t03/29/26 \t_x86_64_\t(2 CPU)\n\n";
  for (const std::string& clock : clocks)
    text += "03/29/26 " + clock + "\nDevice   w/s  wkB/s\nsda  1.00 8.00\n\n";
  return text;
}

std::string sar_at(const std::vector<std::string>& clocks) {
  std::string text = "Linux 6.1 (vm) \t10/25/26 \t_x86_64_\t(2 CPU)\n\n" + clocks.front() +
                     "  DEV  tps  rkB/s  wkB/s\n";
  for (size_t i = 1; i < clocks.size(); ++i) text += clocks[i] + "  sda  1.00  0.00  8.00\n";
  return text;
}

std::string perfmon_at(const std::vector<std::string>& clocks) {
  std::string text = kPerfmon.substr(0, kPerfmon.find('\n') + 1);
  for (const std::string& clock : clocks) text += "\"10/25/2026 " + clock + "\",\"8192\",\"1\"\n";
  return text;
}

void expect_even(const Profile& profile, size_t samples, size_t gaps, double interval_s) {
  ASSERT_EQ(profile.samples.size(), samples);
  EXPECT_EQ(profile.gap_ends_s.size(), gaps);
  for (const ProfileSample& sample : profile.samples) EXPECT_DOUBLE_EQ(sample.interval_s, interval_s);
  for (size_t i = 1; i < samples; ++i)
    EXPECT_GE(profile.samples[i].end_s, profile.samples[i - 1].end_s + interval_s);
}

TEST(ProfileTimes, AHoleOrAClockPutForwardWeighsOneUsualInterval) {
  expect_even(read(iostat_at({"01:59:30", "01:59:40", "01:59:50", "03:00:00", "03:00:10"})), 4, 1, 10);
  expect_even(read(sar_at({"01:00:00", "01:10:00", "01:20:00", "09:00:00", "09:10:00"})), 4, 1, 600);
  expect_even(read(perfmon_at({"01:00:00", "01:00:10", "01:00:20", "08:30:00", "08:30:10"})), 5, 1, 10);
  // The hole is the first interval.
  expect_even(read(iostat_at({"01:00:00", "02:00:00", "02:00:10"})), 2, 1, 10);
}

// Each recording begins with what was since the boot, also one that was appended.
TEST(ProfileTimes, WhatWasSinceBootIsNoSampleInTheMiddleOfAFileEither) {
  const std::string appended = replaced(iostat_at({"02:00:00", "02:00:10"}), "1.00 8.00", "1.00 9e9");
  const Profile profile = read(iostat_at({"01:00:00", "01:00:10"}) + appended);
  expect_even(profile, 2, 0, 10);
  for (const ProfileSample& sample : profile.samples) EXPECT_DOUBLE_EQ(sample.bytes_per_s, 8 * 1024);
}

TEST(ProfileTimes, TwelveIsMidnightInTheMorningAndNoonAfterwards) {
  expect_even(read(sar_at({"11:59:40 PM", "11:59:50 PM", "12:00:00 AM", "12:00:10 AM"})), 3, 0, 10);
  expect_even(read(sar_at({"11:59:40 AM", "11:59:50 AM", "12:00:00 PM", "12:00:10 PM", "12:59:50 PM", "01:00:00 PM"})),
              5, 1, 10);
}

TEST(ProfileTimes, AClockSetBackIsAGapAndNoMidnight) {
  expect_even(read(iostat_at({"02:59:40", "02:59:50", "02:00:00", "02:00:10"})), 3, 1, 10);
  expect_even(read(sar_at({"02:40:00", "02:50:00", "02:00:00", "02:10:00"})), 3, 1, 600);
  expect_even(read(sar_at({"23:50:00", "00:00:00", "23:10:00", "23:20:00", "00:00:00"})), 4, 2, 600);
  expect_even(read(perfmon_at({"02:59:40", "02:59:50", "02:00:00", "02:00:10"})), 4, 1, 10);
  EXPECT_EQ(read(perfmon_at({"02:59:40", "02:59:50", "02:59:50"})).samples.size(), 2U);
}

Profile profile_from(double begin_s, const std::vector<double>& rates) {
  Profile profile;
  for (const double rate : rates) profile.samples.push_back({begin_s += 10, 10, rate, rate / 8192});
  return profile;
}

TEST(PlanLoad, AddsByTimeWhereRecordingsOverlapElseByPeaks) {
  const Load together = add_up({profile_from(0, {1e6, 3e6}), profile_from(0, {4e6, 0})}, 2);
  EXPECT_TRUE(together.by_time);
  EXPECT_DOUBLE_EQ(together.bytes_per_s.average, 8e6);
  EXPECT_DOUBLE_EQ(together.bytes_per_s.peak, 10e6);
  EXPECT_DOUBLE_EQ(*together.write_size_bytes, 8192);
  EXPECT_DOUBLE_EQ(*share_above_rate(together, 8e6), 0.5);
  const Load apart = add_up({profile_from(0, {1e6, 3e6}), profile_from(1000, {4e6, 0})}, 1);
  EXPECT_FALSE(apart.by_time);
  EXPECT_DOUBLE_EQ(apart.bytes_per_s.average, 4e6);
  EXPECT_DOUBLE_EQ(apart.bytes_per_s.peak, 7e6);
  EXPECT_FALSE(share_above_rate(apart, 8e6).has_value());
}

// Ten hours of which three are busy, and ten minutes of another machine in the quiet part.
TEST(PlanLoad, AShortRecordingHidesNothingOfALongOne) {
  std::vector<double> day(3600, 1e6);
  std::fill(day.begin(), day.begin() + 1000, 92e6);
  const Load load = add_up({profile_from(0, day), profile_from(20000, std::vector<double>(60, 1e6))}, 1);
  EXPECT_FALSE(load.by_time);
  EXPECT_DOUBLE_EQ(load.bytes_per_s.peak, 93e6);
  EXPECT_NE(recommendation(load, paper_limits()).find("Take a faster link"), std::string::npos);
  EXPECT_NE(confidence(load).find("3660 samples over 10 min to 10.0 h"), std::string::npos)
      << confidence(load);
}

// What lies a little outside of the common time keeps its weight in the verdict, and out of the count.
TEST(PlanLoad, CountsOnlySamplesThatWereUsedAndIsNeverBelowOneMachine) {
  std::vector<double> busy(100, 1e6);
  std::fill(busy.begin(), busy.begin() + 10, 60e6);
  Profile quiet = profile_from(100, std::vector<double>(100, 2e6));
  quiet.gap_ends_s = {500, 1090};
  const Load load = add_up({profile_from(0, busy), quiet}, 1);
  ASSERT_TRUE(load.by_time);
  EXPECT_EQ(load.sample_count, 180U);
  EXPECT_EQ(load.gaps, 1U);
  EXPECT_DOUBLE_EQ(load.span_s, 900);
  EXPECT_DOUBLE_EQ(load.bytes_per_s.peak, 60e6);
  EXPECT_DOUBLE_EQ(load.bytes_per_s.p95, 60e6);
}

TEST(PlanZones, TakeHolesAFewSamplesAndLongIntervalsForLessSure) {
  const auto word = [](const auto& change) {
    Profile day = profile_from(0, std::vector<double>(3600, 1e6));
    change(day);
    return std::string(confidence_word(add_up({day}, 1)));
  };
  const auto holes = [](size_t count) {
    return [count](Profile& day) {
      for (size_t i = 0; i < count; ++i) day.gap_ends_s.push_back(day.samples[10 * i].end_s);
    };
  };
  EXPECT_EQ(word(holes(0)), "sure");
  EXPECT_EQ(word(holes(180)), "sure");
  EXPECT_EQ(word(holes(181)), "little sure");
  Load load = add_up({profile_from(0, std::vector<double>(3600, 1e6))}, 1);
  load.sample_count = 1000;
  EXPECT_STREQ(confidence_word(load), "sure");
  load.sample_count = 999;
  EXPECT_STREQ(confidence_word(load), "fairly sure");
  load.sample_count = 3600;
  load.interval_s = 15;
  EXPECT_STREQ(confidence_word(load), "sure");
  load.interval_s = 16;
  EXPECT_STREQ(confidence_word(load), "fairly sure");
}

TEST(PlanZones, HaveThePapersLimits) {
  const Limits limits = paper_limits();
  EXPECT_EQ(rate_zone(34.9e6, limits), Zone::kGreen);
  EXPECT_EQ(rate_zone(35e6, limits), Zone::kYellow);
  EXPECT_EQ(rate_zone(50e6, limits), Zone::kYellow);
  EXPECT_EQ(rate_zone(50.1e6, limits), Zone::kRed);
  EXPECT_EQ(size_zone(8192, limits), Zone::kGreen);
  EXPECT_EQ(size_zone(16384, limits), Zone::kYellow);
  EXPECT_EQ(size_zone(16385, limits), Zone::kRed);
}

TEST(PlanZones, OnlyPeaksThatALinkDoesNotCarryAreTold) {
  std::vector<double> rates(99, 1e6);
  rates.push_back(92e6);
  const std::string said = recommendation(add_up({profile_from(0, rates)}, 1), paper_limits());
  EXPECT_NE(said.find("One gigabit link does for all but peaks: these reach 92.0 MB/s"), std::string::npos) << said;
}

// A mirror between hosts that take 100 us of a write of 64 KiB beside what its link takes of it.
nlohmann::json mirror_over(double bits_per_s, double carried_bytes_per_s = 0) {
  Clients lone{.rate_bits_per_s = whole(bits_per_s), .carried_bytes_per_s = whole(carried_bytes_per_s)};
  lone.wire_ns = whole(line_ns(lone, bits_per_s));
  return latency_of(lone);
}

// What they are told by speaks of one gigabit link.
TEST(PlanZones, AreOfOneGigabitLinkWhateverTheMirrorHereHas) {
  const auto told = [](double bits_per_s, double load_bytes_per_s) {
    const std::vector<double> rates(100, load_bytes_per_s);
    return recorded_plan_json({}, add_up({profile_from(0, rates)}, 1), 1, measured_limits(mirror_over(bits_per_s)));
  };
  const nlohmann::json much = told(10 * kGbit, 300e6);
  EXPECT_EQ(much["limits_used"], "measured");
  EXPECT_EQ(much["zones"]["write_bytes_per_s"]["p95"], "red");
  EXPECT_EQ(much["share_above"]["write_bytes_per_s"]["red"], 1);
  EXPECT_NE(much["recommendation"].get<std::string>().find("one gigabit link is too slow"), std::string::npos) << much;
  const nlohmann::json little = told(0.1 * kGbit, 20e6);
  EXPECT_EQ(little["zones"]["write_bytes_per_s"]["p95"], "green");
  EXPECT_EQ(little["recommendation"].get<std::string>().find("Take a faster link"), std::string::npos) << little;
}

TEST(PlanZones, AreOfTheseHostsWhereAMirrorRuns) {
  const double line = payload_bytes_per_s(kGbit);
  for (const double gigabits : {0.1, 1.0, 10.0}) {
    const Limits limits = measured_limits(mirror_over(gigabits * kGbit)).value();
    EXPECT_NEAR(limits.yellow_bytes_per_s, 0.7 * line, 1) << gigabits;
    EXPECT_NEAR(limits.red_bytes_per_s, 0.9 * line, 1) << gigabits;
    // It carries so much in the 100 us.
    EXPECT_NEAR(limits.red_size_bytes, line / 10'000, 1) << gigabits;
    EXPECT_NEAR(limits.yellow_size_bytes, line / 30'000, 1) << gigabits;
  }
  // A link that might carry a gigabit has carried less.
  for (const double gigabits : {1.0, 10.0})
    EXPECT_NEAR(measured_limits(mirror_over(gigabits * kGbit, 60e6))->red_bytes_per_s, 54e6, 1) << gigabits;
  EXPECT_NEAR(measured_limits(mirror_over(10 * kGbit, 900e6))->red_bytes_per_s, 0.9 * line, 1);
  // One of 100 Mbit does not show what a gigabit carries.
  EXPECT_NEAR(measured_limits(mirror_over(0.1 * kGbit, 10e6))->red_bytes_per_s, 0.9 * line, 1);
  nlohmann::json down = mirror_over(kGbit, 60e6);
  down["links"].push_back(down["links"][0]);
  down["links"][0]["up"] = false;
  down["links"][1]["rate_bits_per_s"] = 100'000'000;
  EXPECT_NEAR(measured_limits(down)->red_bytes_per_s, 0.9 * line, 1);
}

}  // namespace
}  // namespace twinblock
