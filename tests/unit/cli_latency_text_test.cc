// Where the time of writes goes, as tables, bars and sentences; and what is drawn again and again.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "twinblock/latency_bar.h"
#include "twinblock/latency_text.h"
#include "twinblock/latency_verdict.h"
#include "twinblock/text_format.h"
#include "twinblock/watch.h"

namespace twinblock {
namespace {

using nlohmann::json;
using Sums = std::map<std::string, uint64_t>;

json times(uint64_t count, uint64_t mean_ns) {
  return {{"count", count},        {"sum_ns", count * mean_ns}, {"p50_ns", mean_ns},
          {"p90_ns", 2 * mean_ns}, {"p99_ns", 3 * mean_ns},     {"max_ns", 4 * mean_ns}};
}

// A class whose stages have these means; the total is their sum.
json write_class(const std::string& name, json bytes_max, uint64_t writes, const Sums& means_ns) {
  json stages = json::object();
  uint64_t total_ns = 0;
  for (const char* stage : {"prepare", "compression", "queue", "intent", "send", "crypto", "link-queue",
                            "wire", "stack", "peer-queue", "peer-disk", "local-disk", "completion"}) {
    const auto found = means_ns.find(stage);
    const uint64_t mean_ns = found == means_ns.end() ? 0 : found->second;
    stages[stage] = times(writes, mean_ns);
    total_ns += mean_ns;
  }
  return {{"class", name},
          {"bytes_max", bytes_max},
          {"writes", writes},
          {"total", times(writes, total_ns)},
          {"stages", stages}};
}

json latency_of(std::vector<json> classes, uint64_t samples = 17) {
  json parts;
  for (const char* part :
       {"wire", "send-stack", "send-qdisc", "peer-receive", "peer-send", "receive", "tcp-ack"})
    parts[part] = times(samples, 7000);
  return {{"volume", "r0"},
          {"node", "alpha"},
          {"window", "10s"},
          {"sample_every", 64},
          {"classes", classes},
          {"links",
           {{{"name", "main"},
             {"rate_bits_per_s", 1'000'000'000},
             {"samples", samples},
             {"alone_share", 1.0},
             {"parts", parts}}}}};
}

json mostly_wire() {
  return write_class(
      "4K", 4096, 123,
      {{"wire", 61'000}, {"stack", 20'000}, {"peer-disk", 11'000}, {"queue", 20'000}});
}

std::string all_of(const std::vector<std::string>& sentences) {
  std::string text;
  for (const std::string& each : sentences) text += each + "\n";
  return text;
}

bool says(const std::string& text, const std::string& word) {
  return text.find(word) != std::string::npos;
}

size_t widest(const std::string& text) {
  size_t widest = 0;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    widest = std::max(widest, end - begin);
    begin = end + 1;
  }
  return widest;
}

TEST(LatencyBar, IsAsLongAsItShouldBeAndSharedOutByTime) {
  const std::string bar = latency_bar(mostly_wire(), 56, false);
  EXPECT_EQ(bar.size(), 56u);
  EXPECT_EQ(std::count(bar.begin(), bar.end(), 'W'), 30) << "61 of 112 us";
  EXPECT_EQ(std::count(bar.begin(), bar.end(), 'S'), 11);
  EXPECT_EQ(std::count(bar.begin(), bar.end(), 'D'), 5);
  EXPECT_EQ(std::count(bar.begin(), bar.end(), 'Q'), 10);
  EXPECT_TRUE(bar.starts_with(std::string(30, 'W') + std::string(11, 'S'))) << "in one piece";
}

TEST(LatencyBar, HoldsEveryStageWhateverTheirShares) {
  for (uint64_t odd = 1; odd < 40; ++odd) {
    const json each = write_class("8K", 8192, odd,
                                  {{"wire", odd * 7},
                                   {"stack", odd * odd},
                                   {"send", 13},
                                   {"prepare", 3},
                                   {"completion", odd},
                                   {"intent", 1},
                                   {"local-disk", 29},
                                   {"compression", odd * 3}});
    EXPECT_EQ(latency_bar(each, 56, false).size(), 56u) << odd;
  }
  // Only one: it fills the bar.
  for (const auto& [stage, letter] : std::map<std::string, char>{{"wire", 'W'},
                                                                 {"link-queue", 'F'},
                                                                 {"stack", 'S'},
                                                                 {"peer-queue", 'P'},
                                                                 {"peer-disk", 'D'},
                                                                 {"local-disk", 'L'},
                                                                 {"intent", 'I'},
                                                                 {"prepare", 'Q'},
                                                                 {"queue", 'Q'},
                                                                 {"send", 'Q'},
                                                                 {"completion", 'Q'},
                                                                 {"compression", 'C'},
                                                                 {"crypto", 'E'}}) {
    const json each = write_class("4K", 4096, 1, {{stage, 5}});
    EXPECT_EQ(latency_bar(each, 20, false), std::string(20, letter)) << stage;
    EXPECT_TRUE(says(latency_legend(false), std::string("  ") + letter + " "));
  }
  EXPECT_EQ(latency_bar(write_class("4K", 4096, 0, {}), 20, false), "");
  EXPECT_EQ(latency_bar(json(), 20, false), "");
}

TEST(LatencyBar, HasColoursOnlyWhereTheyAreWanted) {
  EXPECT_FALSE(says(latency_bar(mostly_wire(), 56, false), "\033"));
  EXPECT_FALSE(says(latency_legend(false), "\033"));
  EXPECT_TRUE(says(latency_bar(mostly_wire(), 56, true), "\033[97;44mWWW"));
  EXPECT_TRUE(says(latency_legend(true), "\033[97;44mW\033[0m wire"));
  EXPECT_LE(widest(latency_legend(false)), 80u);
}

TEST(LatencyVerdict, SaysHowMuchAFasterLinkCouldSave) {
  const std::string text = all_of(latency_verdict(latency_of({mostly_wire()})));
  EXPECT_TRUE(says(text, "Of a 4K write's 112 us, 61 us (54%) are wire")) << text;
  EXPECT_TRUE(says(text, "a link twice as fast would save at most 30.5 us (27%)")) << text;
  EXPECT_TRUE(says(text, "The largest other part is queue, 20 us (18%)")) << text;
  EXPECT_TRUE(says(text, "4 KiB are on the line for 32.8 us")) << text;
}

// Eight writers of 128 KiB at 200 Mbit/s: 42 ms, and 21.5 ms less at 400, measured.
TEST(LatencyVerdict, OfAFullLinkTwiceTheRateSavesHalf) {
  json full = latency_of({write_class("larger", nullptr, 500,
                                      {{"queue", 900'000}, {"wire", 40'600'000}, {"stack", 500'000}})});
  full["links"][0]["alone_share"] = 0.02;
  const std::string text = latency_verdict(full).front();
  EXPECT_TRUE(says(text, "save at most 21 ms (50%), as writes wait for each other")) << text;
  // The peer's disk is nearly as slow: what is left when nobody waits for the link any more.
  json both = latency_of({write_class("4K", 4096, 500, {{"wire", 20'000}, {"peer-disk", 20'000}})});
  both["links"][0]["alone_share"] = 0.0;
  EXPECT_TRUE(says(latency_verdict(both).front(), "at most 20 us (50%), as")) << "it may all go";
  both["links"][0]["alone_share"] = 0.99;
  EXPECT_TRUE(says(latency_verdict(both).front(), "at most 10 us (25%).")) << "nobody waits";
  both["links"][0].erase("alone_share");
  EXPECT_TRUE(says(latency_verdict(both).front(), "at most 20 us (50%).")) << "not known";
}

TEST(LatencyVerdict, SaysWhenAFasterLinkWouldNotHelp) {
  const json disk = write_class("4K", 4096, 9, {{"wire", 5'000}, {"peer-disk", 95'000}});
  std::string text = all_of(latency_verdict(latency_of({disk})));
  EXPECT_TRUE(says(text, "5 us (5%) are wire: a faster link would hardly help")) << text;
  EXPECT_TRUE(says(text, "Most is peer-disk, 95 us (95%)")) << text;
  const json alone = write_class("4K", 4096, 9, {{"local-disk", 30'000}});
  text = all_of(latency_verdict(latency_of({alone})));
  EXPECT_TRUE(says(text, "A faster link would not help")) << text;
  EXPECT_FALSE(says(text, "on the line"));
}

TEST(LatencyVerdict, SpeaksOfTheLineOnlyWhereTheWireTakesAsLong) {
  const json bursts = write_class("4K", 4096, 9, {{"wire", 20'000}, {"stack", 20'000}});
  EXPECT_FALSE(says(all_of(latency_verdict(latency_of({bursts}))), "on the line"));
  const json large = write_class("64K", 65536, 3, {{"wire", 900'000}, {"stack", 20'000}});
  const std::string text = all_of(latency_verdict(latency_of({bursts, large})));
  EXPECT_TRUE(says(text, "64 KiB are on the line for 524 us")) << text;
}

TEST(LatencyVerdict, SpeaksOfTheMostWritesAndOfTheMostWire) {
  const json large = write_class("larger", nullptr, 3, {{"wire", 900'000}, {"stack", 100'000}});
  const std::vector<std::string> both = latency_verdict(latency_of({mostly_wire(), large}));
  ASSERT_GE(both.size(), 2u);
  EXPECT_TRUE(says(both[0], "Of a 4K write's"));
  EXPECT_TRUE(says(both[1], "Of a write of more than 64K's 1 ms, 900 us (90%)")) << both[1];
  EXPECT_TRUE(latency_verdict(latency_of({})).empty());
  EXPECT_TRUE(latency_verdict(json()).empty());
}

TEST(LatencyVerdict, DoubtsWhatNoSampleHasTold) {
  EXPECT_EQ(latency_doubt(latency_of({mostly_wire()})), "");
  const std::string doubt = latency_doubt(latency_of({mostly_wire()}, 0));
  EXPECT_TRUE(says(doubt, "twinblock latency r0 --sample 8")) << doubt;
}

TEST(LatencyText, HasATableForEachClassWithTheStagesThatTookTime) {
  const std::string text = latency_text(latency_of({mostly_wire()}), {true, true}, false);
  EXPECT_TRUE(says(text, "r0 on alpha, the last 10 s, 1 write of 64 is sampled\n")) << text;
  EXPECT_TRUE(says(text, "4K (up to 4 KiB): 123 writes\n"));
  EXPECT_TRUE(
      says(text, R"(  STAGE               p50        p90        p99        max       mean   share
  queue             20 us      40 us      60 us      80 us      20 us   17.9%
  wire              61 us     122 us     183 us     244 us      61 us   54.5%
  stack             20 us      40 us      60 us      80 us      20 us   17.9%
  peer-disk         11 us      22 us      33 us      44 us      11 us    9.8%
  total            112 us     224 us     336 us     448 us     112 us  100.0%
)")) << text;
  EXPECT_FALSE(says(text, "local-disk  "));
  EXPECT_TRUE(says(text, "Link main, 1 Gbit/s nominal, 17 round trips sampled\n"));
  EXPECT_TRUE(says(text, "send-qdisc"));
  EXPECT_LE(widest(text), 80u) << text;
}

// The sentence, the bars and one table, on a screen of 30 lines; the rest when it is asked for.
TEST(LatencyText, IsShortUnlessMoreIsAskedFor) {
  json classes;
  for (const char* name : {"4K", "8K", "16K", "32K", "64K", "larger"}) {
    json each = mostly_wire();
    each["class"] = name;
    classes.push_back(each);
  }
  json latency = latency_of(classes, 0);
  latency["window"] = "60s";
  latency["load"]["simplex_writes"] = 300;
  const std::string mixed = latency_text(latency, {}, false);
  EXPECT_TRUE(says(mixed, "in simplex, without the peer")) << mixed;
  EXPECT_LE(std::count(mixed.begin(), mixed.end(), '\n'), 30) << mixed;
  latency.erase("load");
  const std::string text = latency_text(latency, {}, false);
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 30) << text;
  EXPECT_LE(widest(text), 80u) << text;
  EXPECT_TRUE(says(text, R"(
  SIZE       writes       p50       p90       p99       max   mostly
  4K            123    112 us    224 us    336 us    448 us   wire 54%
)")) << text;
  EXPECT_TRUE(says(text, "--sizes") && says(text, "--links")) << "where the rest is";
  EXPECT_FALSE(says(text, "STAGE") || says(text, "PART"));
  const std::string sizes = latency_text(latency_of(classes), {true, false}, false);
  EXPECT_TRUE(says(sizes, "STAGE") && !says(sizes, "PART"));
  const std::string links = latency_text(latency_of(classes), {false, true}, false);
  EXPECT_TRUE(!says(links, "STAGE") && says(links, "PART"));
}

TEST(LatencyText, SaysWhatToDoWithoutWrites) {
  const std::string text = latency_text(latency_of({}), {}, false);
  EXPECT_TRUE(says(text, "No writes in the last 10 s"));
  EXPECT_TRUE(says(text, "--window start"));
  json since_start = latency_of({});
  since_start["window"] = "start";
  EXPECT_TRUE(says(latency_text(since_start, {}, false), "No writes yet"));
  EXPECT_TRUE(says(latency_text(since_start, {}, false), "status r0")) << "what to do";
  EXPECT_FALSE(latency_text(json(), {}, false).empty());
}

TEST(LatencyFrame, ShowsWhatMattersMostOnASmallScreen) {
  const json latency = latency_of({mostly_wire()});
  const std::string all = first_lines(latency_text(latency, {true, true}, false), 0);
  EXPECT_TRUE(says(all, "STAGE") && says(all, "PART"));
  const std::string cut = first_lines(latency_text(latency, {true, true}, false), 12);
  EXPECT_EQ(std::count(cut.begin(), cut.end(), '\n'), 12);
  EXPECT_TRUE(says(cut, "WWWW") && says(cut, "54%")) << cut;
  EXPECT_EQ(first_lines(latency_text(latency, {true, true}, false), 1000), all);
}

TEST(Redraw, GoesOverTheLastPictureWithoutClearingTheScreen) {
  const std::string first = redraw("a\nb\n", true);
  EXPECT_TRUE(first.starts_with("\033[2J\033[H"));
  const std::string next = redraw("a\nb\n", false);
  EXPECT_FALSE(says(next, "\033[2J")) << "that would flicker";
  EXPECT_TRUE(next.starts_with("\033[H"));
  EXPECT_TRUE(says(next, "a\033[K\nb\033[K\n")) << "a longer line before leaves nothing";
  EXPECT_TRUE(next.ends_with("\033[J")) << "nor do more lines";
}

}  // namespace
}  // namespace twinblock
