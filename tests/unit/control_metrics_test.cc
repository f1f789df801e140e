// The text format of Prometheus: families, labels, histograms that are cumulative.
#include "control/metrics.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "telemetry/metrics_text.h"
#include "control_support.h"

namespace twinblock {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(MetricsText, QuotesLabelsAndPutsTheCommonOnesFirst) {
  MetricsText text(MetricsText::Labels{{"volume", "r0"}});
  text.family("a_total", "counter", "Help.");
  text.sample(uint64_t{7}, {{"reason", "a \"b\" \\ c\nd"}});
  text.sample(0.5);
  EXPECT_EQ(text.take(),
            "# HELP a_total Help.\n# TYPE a_total counter\n"
            "a_total{volume=\"r0\",reason=\"a \\\"b\\\" \\\\ c\\nd\"} 7\n"
            "a_total{volume=\"r0\"} 0.5\n");
}

TEST(MetricsText, KeepsLargeNumbersExact) {
  MetricsText text(MetricsText::Labels{});
  text.family("a_total", "counter", "Help.");
  text.sample(uint64_t{18446744073709551615u});
  EXPECT_NE(text.take().find("a_total 18446744073709551615\n"), std::string::npos);
}

TEST(MetricsText, HistogramsAreCumulativeAndInSeconds) {
  Histogram times;
  for (const uint64_t us : {5, 15, 15, 150, 20'000'000}) times.record(us * kMicrosecond_ns);
  MetricsText text(MetricsText::Labels{{"node", "alpha"}});
  text.family("w_seconds", "histogram", "Help.");
  text.histogram(distribution_of(times), {{"size", "4K"}});
  const std::vector<std::string> lines = lines_of(text.take());
  ASSERT_EQ(lines.size(), 2 + kMetricBounds_ns.size() + 3);
  EXPECT_EQ(lines[2], "w_seconds_bucket{node=\"alpha\",size=\"4K\",le=\"1e-05\"} 1");
  EXPECT_EQ(lines[3], "w_seconds_bucket{node=\"alpha\",size=\"4K\",le=\"2e-05\"} 3");
  EXPECT_EQ(lines[6], "w_seconds_bucket{node=\"alpha\",size=\"4K\",le=\"0.0002\"} 4");
  EXPECT_EQ(lines[lines.size() - 4], "w_seconds_bucket{node=\"alpha\",size=\"4K\",le=\"5\"} 4");
  EXPECT_EQ(lines[lines.size() - 3], "w_seconds_bucket{node=\"alpha\",size=\"4K\",le=\"+Inf\"} 5");
  EXPECT_EQ(lines[lines.size() - 2], "w_seconds_sum{node=\"alpha\",size=\"4K\"} 20.000185");
  EXPECT_EQ(lines[lines.size() - 1], "w_seconds_count{node=\"alpha\",size=\"4K\"} 5");
}

class MetricsTest : public ControlTest {
 protected:
  // Name and labels of each sample, and its value.
  std::map<std::string, std::string> samples() {
    std::map<std::string, std::string> all;
    for (const std::string& line : lines_of(render_metrics(*engine_))) {
      if (line.starts_with("#")) continue;
      const size_t space = line.rfind(' ');
      EXPECT_TRUE(all.emplace(line.substr(0, space), line.substr(space + 1)).second)
          << "twice: " << line;
    }
    return all;
  }
};

TEST_F(MetricsTest, EverySampleBelongsToAFamilyThatIsExplained) {
  std::set<std::string> families;
  std::string family;
  for (const std::string& line : lines_of(render_metrics(*engine_))) {
    std::istringstream words(line);
    std::string hash, kind, name, rest;
    if (line.starts_with("# HELP ")) {
      words >> hash >> kind >> family >> rest;
      EXPECT_TRUE(families.insert(family).second) << "twice: " << family;
      EXPECT_TRUE(family.starts_with("twinblock_")) << family;
      EXPECT_NE(rest, "");
    } else if (line.starts_with("# TYPE ")) {
      words >> hash >> kind >> name >> rest;
      EXPECT_EQ(name, family);
      EXPECT_EQ(rest == "counter", name.ends_with("_total")) << name;
    } else {
      EXPECT_TRUE(line.starts_with(family)) << line;
      EXPECT_NE(line.find("{volume=\"r0\",node=\"alpha\""), std::string::npos) << line;
    }
  }
  EXPECT_GT(families.size(), 40u);
}

TEST_F(MetricsTest, TellTheStateAsOneOfAll) {
  auto all = samples();
  EXPECT_EQ(all["twinblock_state{volume=\"r0\",node=\"alpha\",state=\"blank\"}"], "1");
  EXPECT_EQ(all["twinblock_state{volume=\"r0\",node=\"alpha\",state=\"duplex\"}"], "0");
  EXPECT_EQ(all["twinblock_state{volume=\"r0\",node=\"alpha\",state=\"failed\"}"], "0");
  EXPECT_EQ(all["twinblock_role{volume=\"r0\",node=\"alpha\",role=\"secondary\"}"], "1");
  EXPECT_EQ(all["twinblock_data{volume=\"r0\",node=\"alpha\",data=\"blank\"}"], "1");
  EXPECT_EQ(all["twinblock_peer_connected{volume=\"r0\",node=\"alpha\",peer=\"beta\"}"], "0");
  EXPECT_EQ(all["twinblock_link_up{volume=\"r0\",node=\"alpha\",peer=\"beta\",link=\"main\"}"],
            "0");
}

TEST_F(MetricsTest, CountAndTimeWhatTheEngineTells) {
  StatusView view = engine_->status();
  view.writes = 12;
  view.write_bytes = 49152;
  view.simplex_ns = 1'500'000'000;
  view.resync.active = true;
  view.resync.total_bytes = 100;
  view.resync.done_bytes = 30;
  LatencyView latency = engine_->figures().latency(Window::kStart);
  LatencyView::Class sized;
  sized.size_class = 1;
  Histogram times;
  times.record(30 * kMicrosecond_ns);
  sized.total = distribution_of(times);
  sized.stages[static_cast<size_t>(Stage::kWire)] = sized.total;
  latency.classes.push_back(sized);
  const std::string text = render_metrics(view, latency, 99);
  for (const char* line :
       {"twinblock_writes_total{volume=\"r0\",node=\"alpha\"} 12\n",
        "twinblock_write_bytes_total{volume=\"r0\",node=\"alpha\"} 49152\n",
        "twinblock_simplex_seconds_total{volume=\"r0\",node=\"alpha\"} 1.5\n",
        "twinblock_resync_remaining_bytes{volume=\"r0\",node=\"alpha\"} 70\n",
        "twinblock_events_total{volume=\"r0\",node=\"alpha\"} 99\n",
        "twinblock_write_duration_seconds_count{volume=\"r0\",node=\"alpha\",size=\"8K\"} 1\n",
        "twinblock_write_stage_duration_seconds_sum{volume=\"r0\",node=\"alpha\",stage=\"wire\","
        "size=\"8K\"} 3e-05\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line;
}

// Each figure of the view in its own sample, by its own value.
TEST_F(MetricsTest, EachFigureIsItsOwn) {
  StatusView view = engine_->status();
  view.disk_ok = true;  // the last replica's disk is used on, with its errors
  view.disk_error = "the local disk failed";
  view.stalled_ns = 2 * kSecond_ns;
  view.read_errors = 3;
  view.size_bytes = 4;
  view.dirty_bytes = 5;
  view.intent_bytes = 6;
  view.clients = 7;
  view.uptime_ns = 8 * kSecond_ns;
  view.reads = 9;
  view.read_bytes = 10;
  view.flushes = 11;
  view.zeroes = 12;
  view.simplex_times = 13;
  view.peer_losses = 14;
  view.resync.unreadable_bytes = 15;
  view.resync_bytes = 16;
  view.intent_commits = 17;
  view.intent_waits = 18;
  view.record_writes = 19;
  view.cache.emplace();
  view.cache->hits = 20;
  view.cache->misses = 21;
  view.cache->equal_hits = 22;
  view.cache->shared_blocks = 2;
  view.cache->memory_bytes = 23;
  view.cache->size_bytes = 24;
  view.cache->places = 25;
  view.compression.writes_compressed = 26;
  view.compression.writes_raw = 27;
  view.compression.raw_bytes = 28;
  view.compression.sent_bytes = 29;
  view.compression.incompressible_bytes = 30;
  view.compression.compress_ns = 31 * kSecond_ns;
  view.compression.decompress_ns = 32 * kSecond_ns;
  ASSERT_EQ(view.links.size(), 1u);
  StatusView::Link& link = view.links[0];
  link.out_bytes = 41;
  link.in_bytes = 42;
  link.cipher_ns = 43 * kSecond_ns;
  link.in_flight_bytes = 44;
  link.failovers = 45;
  link.round_trip_ns = 46 * kSecond_ns;
  link.nominal_bits_per_s = 8 * 47;
  const std::string text = render_metrics(view, engine_->figures().latency(Window::kStart), 0);
  const std::map<std::string, std::string> of_the_link{
      {"sent_bytes_total", "41"},    {"received_bytes_total", "42"}, {"cipher_seconds_total", "43"},
      {"in_flight_bytes", "44"},     {"failovers_total", "45"},      {"round_trip_seconds", "46"},
      {"nominal_bytes_per_second", "47"}};
  for (const auto& [name, value] : of_the_link) {
    const std::string line =
        "\ntwinblock_link_" + name + "{volume=\"r0\",node=\"alpha\",peer=\"beta\",link=\"main\"} " + value + "\n";
    EXPECT_NE(text.find(line), std::string::npos) << line;
  }
  const std::map<std::string, std::string> wanted{
      {"disk_failed", "1"},
      {"disk_stalled_seconds", "2"},
      {"disk_read_errors_total", "3"},
      {"size_bytes", "4"},
      {"dirty_bytes", "5"},
      {"intent_bytes", "6"},
      {"clients", "7"},
      {"uptime_seconds", "8"},
      {"reads_total", "9"},
      {"read_bytes_total", "10"},
      {"flushes_total", "11"},
      {"zeroes_total", "12"},
      {"simplex_periods_total", "13"},
      {"peer_losses_total", "14"},
      {"resync_unreadable_bytes", "15"},
      {"resync_bytes_total", "16"},
      {"metadata_intent_commits_total", "17"},
      {"metadata_intent_waits_total", "18"},
      {"metadata_record_writes_total", "19"},
      {"cache_hits_total", "20"},
      {"cache_misses_total", "21"},
      {"cache_equal_hits_total", "22"},
      {"cache_shared_bytes_total", "8192"},
      {"cache_memory_bytes", "23"},
      {"cache_size_bytes", "24"},
      {"cache_places", "25"},
      {"compression_in_bytes_total", "28"},
      {"compression_out_bytes_total", "29"},
      {"compression_incompressible_bytes_total", "30"},
      {"compress_cpu_seconds_total", "31"},
      {"decompress_cpu_seconds_total", "32"}};
  for (const auto& [name, value] : wanted) {
    const std::string line = "\ntwinblock_" + name + "{volume=\"r0\",node=\"alpha\"} " + value + "\n";
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
  EXPECT_NE(text.find(",sent=\"compressed\"} 26\n"), std::string::npos) << text;
  EXPECT_NE(text.find(",sent=\"raw\"} 27\n"), std::string::npos) << text;
}

TEST_F(MetricsTest, AreAVerb) {
  EXPECT_EQ(ask(R"({"verb":"metrics"})")["result"]["text"], render_metrics(*engine_));
}

}  // namespace
}  // namespace twinblock
