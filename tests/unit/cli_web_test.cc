// What the page's server answers and refuses, what it remembers, and how the texts of several nodes become one.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/units.h"
#include "scripted_node.h"
#include "temporary_directory.h"
#include "twinblock/process.h"
#include "twinblock/web_content.h"
#include "twinblock/web_files.h"
#include "twinblock/web_gather.h"
#include "twinblock/web_history.h"

namespace twinblock {
namespace {

using nlohmann::json;

WebAnswer get(const std::string& path, const std::string& host = "127.0.0.1:7780",
              const std::vector<std::string>& names = {}) {
  return web_answer({"GET", path, host}, {"[1]", "[2]", "three"}, names);
}

TEST(WebContent, HandsOutFiguresAndFiles) {
  EXPECT_EQ(get("/api/volumes").body, "[1]");
  EXPECT_EQ(get("/api/history").body, "[2]");
  EXPECT_EQ(get("/metrics").body, "three");
  for (const WebFile& file : web_files()) {
    EXPECT_EQ(get(file.path).body, file.content) << file.path;
    EXPECT_EQ(get(file.path).type, file.type);
    EXPECT_FALSE(file.content.empty()) << file.path;
  }
  EXPECT_EQ(web_answer({"HEAD", "/", "localhost"}, {}, {}).status, 200u);
}

TEST(WebContent, NothingInThePageComesFromElsewhere) {
  for (const WebFile& file : web_files()) {
    std::string content(file.content);
    // The name of a language, which no browser fetches.
    if (const size_t at = content.find("http://www.w3.org/2000/svg"); at != std::string::npos) content.erase(at, 26);
    EXPECT_EQ(content.find("http:"), std::string::npos) << file.path;
    EXPECT_EQ(content.find("https:"), std::string::npos) << file.path;
    EXPECT_EQ(content.find("innerHTML"), std::string::npos) << file.path;
    EXPECT_EQ(content.find("onclick"), std::string::npos) << file.path;
  }
}

TEST(WebContent, RefusesWhatItDoesNotHaveAndDoesNotDo) {
  for (const char* path : {"", "/..", "/page.js/", "/../etc/passwd", "//", "/api"})
    EXPECT_EQ(get(path).status, 404u) << path;
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", ""})
    EXPECT_EQ(web_answer({method, "/", "localhost"}, {}, {}).status, 405u) << method;
}

TEST(WebContent, IsKnownByAddressesAndByTheNamesThatItWasGiven) {
  for (const char* host : {"localhost", "LOCALHOST:7780", "127.0.0.1", "10.0.0.1:80", "[::1]:7780", "[fd00::1]"})
    EXPECT_EQ(get("/", host).status, 200u) << host;
  for (const char* host : {"", ":7780", "evil.example", "evil.example:7780", "127.0.0.1.evil.example", "localhost.evil",
                           "1.2.3", "[", "[]", "127.0.0.1@evil"}) {
    EXPECT_EQ(get("/", host).status, 403u) << host;
    EXPECT_EQ(get("/metrics", host).status, 403u) << host;
  }
  EXPECT_EQ(get("/", "Alpha.example:7780", {"alpha.example"}).status, 200u);
  EXPECT_EQ(get("/", "alpha.example.evil:7780", {"alpha.example"}).status, 403u);
}

TEST(WebMetrics, EachFamilyIsThereOnceWithTheSamplesOfAll) {
  const std::string one = "# HELP a Of a.\n# TYPE a gauge\na{volume=\"r0\"} 1\n# HELP b Of b.\n# TYPE b histogram\n"
                          "b_bucket{volume=\"r0\",le=\"1\"} 2\nb_sum{volume=\"r0\"} 3\n";
  const std::string two = "# HELP a Of a.\n# TYPE a gauge\na{volume=\"r1\"} 4\n# HELP c Of c.\n# TYPE c counter\nc 5\n";
  EXPECT_EQ(joined_metrics({one, two}),
            "# HELP a Of a.\n# TYPE a gauge\na{volume=\"r0\"} 1\na{volume=\"r1\"} 4\n"
            "# HELP b Of b.\n# TYPE b histogram\nb_bucket{volume=\"r0\",le=\"1\"} 2\nb_sum{volume=\"r0\"} 3\n"
            "# HELP c Of c.\n# TYPE c counter\nc 5\n");
  EXPECT_EQ(joined_metrics({one}), one);
  EXPECT_EQ(joined_metrics({}), "");
}

TEST(WebMetrics, ANodeThatDoesNotAnswerIsThereAsSuch) {
  EXPECT_EQ(answers_metric({}), "");
  EXPECT_EQ(answers_metric({{"r0", true}, {"r1", false}, {"a\"b\\c\nd", true}}),
            "# HELP twinblock_node_answers Whether this host's node of the volume answers.\n"
            "# TYPE twinblock_node_answers gauge\n"
            "twinblock_node_answers{volume=\"a\\\"b\\\\c\\nd\"} 1\n"
            "twinblock_node_answers{volume=\"r0\"} 1\ntwinblock_node_answers{volume=\"r1\"} 0\n");
}

json status_of(uint64_t written, double uptime_s) {
  return {{"uptime_s", uptime_s}, {"counters", {{"write_bytes", written}, {"read_bytes", 2 * written}}}};
}

json latency_of(uint64_t p50_ns) {
  return {{"classes", json::array({{{"writes", 3}, {"total", {{"p50_ns", 1}, {"p99_ns", 2}}}},
                                   {{"writes", 9}, {"total", {{"p50_ns", p50_ns}, {"p99_ns", 2 * p50_ns}}}}})}};
}

TEST(WebHistory, HasAPointEveryFewSecondsForAnHour) {
  WebHistory history;
  for (uint64_t second = 1; second <= 2 * 3600; ++second)
    history.add("r0", status_of(second * 1000, static_cast<double>(second)), latency_of(50), second * 1000);
  const json points = history.shown()["volumes"]["r0"];
  ASSERT_EQ(points.size(), WebHistory::kPointsMax);
  for (const json& point : points) {
    EXPECT_EQ(point["write_bytes_per_s"], 1000);
    EXPECT_EQ(point["read_bytes_per_s"], 2000);
    EXPECT_EQ(point["p50_ns"], 50) << "of the size that was written most";
    EXPECT_EQ(point["p99_ns"], 100);
  }
  EXPECT_EQ(points[1]["time_ms"].get<uint64_t>() - points[0]["time_ms"].get<uint64_t>(), WebHistory::kStep_ms);
  EXPECT_GE(points.back()["time_ms"], 7'195'000);
}

TEST(WebHistory, ANodeThatBeganAnewWroteNothingNegative) {
  WebHistory history;
  history.add("r0", status_of(1'000'000, 100), json::object(), 10'000);
  history.add("r0", status_of(500, 1), json::object(), 15'000);
  EXPECT_TRUE(history.shown()["volumes"]["r0"].empty());
  history.add("r0", status_of(5'500, 6), json::object(), 20'000);
  ASSERT_EQ(history.shown()["volumes"]["r0"].size(), 1u);
  EXPECT_EQ(history.shown()["volumes"]["r0"][0]["write_bytes_per_s"], 1000);
  EXPECT_TRUE(history.shown()["volumes"]["r0"][0]["p50_ns"].is_null());
}

// A host's clock is set when it has found the time, and services run before that.
TEST(WebHistory, BeginsAnewWhenTheClockIsSetBack) {
  WebHistory history;
  history.add("r0", status_of(1'000, 100), json::object(), 7'200'000);
  history.add("r0", status_of(2'000, 105), json::object(), 7'205'000);
  history.add("r0", status_of(3'000, 110), json::object(), 10'000);
  EXPECT_TRUE(history.shown()["volumes"]["r0"].empty());
  history.add("r0", status_of(8'000, 115), json::object(), 15'000);
  ASSERT_EQ(history.shown()["volumes"]["r0"].size(), 1u);
  EXPECT_EQ(history.shown()["volumes"]["r0"][0]["write_bytes_per_s"], 1000);
}

// A host with the volume r1.
class WebGathers : public testing::Test {
 protected:
  void write_file(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
  void begin_node(const std::string& config) {
    node_.emplace(socket_, [config](const std::string& verb, const json&) -> std::optional<std::string> {
      if (verb == "status")
        return ScriptedNode::good({{"volume", "r1"}, {"node", "alpha"}, {"pid", 1}, {"config", config}});
      if (verb == "metrics") return ScriptedNode::good({{"text", "# TYPE a gauge\na{volume=\"r1\"} 1\n"}});
      return ScriptedNode::good(json::object());
    });
  }
  // What is told of r1, where it is told of.
  std::optional<json> told(const std::vector<std::string>& sockets) {
    const WebFigures figures = gather_.ask(sockets, ++now_ms_);
    const json volumes = json::parse(figures.volumes)["volumes"];
    const std::string answers = "twinblock_node_answers{volume=\"r1\"} ";
    EXPECT_EQ(figures.metrics.find(answers) != std::string::npos, !volumes.empty()) << figures.metrics;
    history_ = json::parse(figures.history)["volumes"].contains("r1");
    return volumes.empty() ? std::nullopt : std::optional(volumes[0]);
  }
  void expect_that_it_is_missed(const std::vector<std::string>& sockets) {
    const std::optional<json> volume = told(sockets);
    ASSERT_TRUE(volume.has_value());
    EXPECT_EQ((*volume)["answers"], false);
    EXPECT_EQ((*volume)["error"], "no node of r1 runs here");
  }

  const TemporaryDirectory directory_;
  const std::string socket_ = directory_ / "r1.ctl";
  std::optional<ScriptedNode> node_;
  WebGather gather_{directory_.path()};
  uint64_t now_ms_ = 1000;
  bool history_ = false;  // whether there is one of r1
};

TEST_F(WebGathers, AVolumeIsToldUntilItsFileIsGone) {
  const std::string config = directory_ / "of_r1.toml";
  write_file(config, "volume = \"r1\"\n");
  begin_node(config);
  std::optional<json> volume;
  const uint64_t until_ns = steady_now_ns() + 60 * kSecond_ns;  // a busy machine may keep it from answering in time
  do volume = told({socket_});
  while (volume && (*volume)["answers"] != true && steady_now_ns() < until_ns);
  ASSERT_TRUE(volume.has_value());
  EXPECT_EQ((*volume)["answers"], true) << *volume;
  node_.reset();
  expect_that_it_is_missed({});
  write_file(config, "nothing that can be parsed");
  expect_that_it_is_missed({});
  EXPECT_TRUE(history_);
  std::filesystem::remove(config);
  expect_that_it_is_missed({socket_});
  EXPECT_EQ(told({}), std::nullopt);
  EXPECT_FALSE(history_);
}

// Nor did it say where its file is.
TEST_F(WebGathers, AVolumeWhoseNodeNeverAnsweredIsToldUntilItsFileIsGone) {
  write_file(directory_ / "r1.toml", "volume = \"r1\"\n");
  expect_that_it_is_missed({socket_});
  write_file(directory_ / "r1.toml", "nothing that can be parsed");
  expect_that_it_is_missed({});
  std::filesystem::remove(directory_ / "r1.toml");
  EXPECT_EQ(told({}), std::nullopt);
}

}  // namespace
}  // namespace twinblock
