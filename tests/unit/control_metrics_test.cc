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

TEST_F(MetricsTest, AreAVerb) {
  EXPECT_EQ(ask(R"({"verb":"metrics"})")["result"]["text"], render_metrics(*engine_));
}

}  // namespace
}  // namespace twinblock
