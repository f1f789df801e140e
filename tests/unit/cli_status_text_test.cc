#include "twinblock/status_text.h"

#include <gtest/gtest.h>

#include "twinblock/progress.h"
#include "twinblock/text_wrap.h"

namespace twinblock {
namespace {

using nlohmann::json;

json resyncing() {
  return json::parse(R"({
    "volume": "r0", "node": "alpha", "role": "primary", "state": "resync",
    "size_bytes": 1073741824, "data": "current",
    "status": "The peer is being brought up to date. Writes go on, to both nodes where they can.",
    "action": "Wait: twinblock wait r0 --progress",
    "peer": {"name": "beta", "connected": true, "role": "secondary", "data": "inconsistent",
             "error": ""},
    "dirty_bytes": 104857600,
    "links": [
      {"name": "main", "state": "up", "local": "10.0.0.1:7700", "peer": "10.0.0.2:7700",
       "rtt_us": 42, "last_error": ""},
      {"name": "backup", "state": "down", "local": "[fd00::1]:7700", "peer": "[fd00::2]:7700",
       "rtt_us": null, "last_error": "connection refused"}],
    "resync": {"active": true, "direction": "source", "bytes_done": 52428800,
               "bytes_total": 104857600, "percent": 50.0, "rate_bytes_per_s": 10485760, "eta_s": 5},
    "last_resync": null,
    "disk": {"engine": "io_uring", "error": ""},
    "clients": 1,
    "counters": {"writes": 1000, "write_bytes": 4096000, "reads": 5, "read_bytes": 20480,
                 "flushes": 7, "zeroes": 1, "resync_bytes": 0, "peer_losses": 1},
    "latency": {"write_p50_us": 75, "write_p99_us": 410, "write_max_us": 5000},
    "nbd": "nbd+unix:///?socket=/run/twinblock/r0.nbd", "backing": "/srv/r0.img",
    "pid": 4711, "uptime_s": 3725})");
}

TEST(StatusText, ShowsAResyncWhole) {
  EXPECT_EQ(status_text(resyncing()),
            R"(    volume: r0, 1 GiB
      node: alpha
      role: primary
     state: resync
      data: current
    status: The peer is being brought up to date. Writes go on, to both nodes where they can.
    action: Wait: twinblock wait r0 --progress
      peer: beta (connected, secondary, data inconsistent)
    resync: to the peer: 50.0%, 50 MiB of 100 MiB, 10 MiB/s, 0:05 left
     dirty: 100 MiB that the peer misses
    writes: 1000 (3.9 MiB), p50 75.0 us, p99 410.0 us, max 5.00 ms
     reads: 5 (20 KiB), flushes 7, zeroes and trims 1, peer losses 1
      disk: /srv/r0.img, io_uring
   clients: 1 at nbd+unix:///?socket=/run/twinblock/r0.nbd
   process: 4711, up 1:02:05

  LINK    STATE  LOCAL           PEER            RTT
  main    up     10.0.0.1:7700   10.0.0.2:7700   42.0 us
  backup  down   [fd00::1]:7700  [fd00::2]:7700  -
  backup: connection refused
)");
}

TEST(StatusText, LeavesOutWhatThereIsNot) {
  json status = resyncing();
  status["state"] = "duplex";
  status["action"] = "";
  status["dirty_bytes"] = 0;
  status["resync"] = {{"active", false}};
  status["last_resync"] = {{"bytes", 104857600}, {"duration_s", 1.5}};
  const std::string text = status_text(status);
  EXPECT_EQ(text.find("action:"), std::string::npos);
  EXPECT_EQ(text.find("dirty:"), std::string::npos);
  EXPECT_NE(text.find("resync: the last one took 1.50 s for 100 MiB\n"), std::string::npos) << text;
}

TEST(StatusText, ShowsErrorsOfPeerAndDisk) {
  json status = resyncing();
  status["peer"] = {{"name", "beta"}, {"connected", false}, {"error", "no space left on device"}};
  status["disk"]["error"] = "write at 4096: Input/output error";
  const std::string text = status_text(status);
  EXPECT_NE(text.find("peer: beta (not connected): no space left on device\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("ERROR: write at 4096: Input/output error"), std::string::npos) << text;
}

TEST(StatusText, SurvivesMissingAndOddlyTypedMembers) {
  EXPECT_FALSE(status_text(json::object()).empty());
  EXPECT_FALSE(status_text(json()).empty());
  const json whole = resyncing();
  for (const auto& [key, value] : whole.items()) {
    for (const json& odd : {json(), json(7), json("x"), json::array({1, "x"}), json::object()}) {
      json status = resyncing();
      status[key] = odd;
      EXPECT_FALSE(status_text(status).empty()) << key;
    }
  }
}

TEST(ResyncLine, LeavesOutRateAndEtaUntilTheyAreKnown) {
  const json resync{{"percent", 12.34},
                    {"bytes_done", 4096},
                    {"bytes_total", 8192},
                    {"rate_bytes_per_s", 0},
                    {"eta_s", nullptr}};
  EXPECT_EQ(resync_line(resync), "12.3%, 4 KiB of 8 KiB");
}

TEST(ClockTime, HasHoursWhenThereAreAny) {
  EXPECT_EQ(clock_time(0), "0:00");
  EXPECT_EQ(clock_time(187), "3:07");
  EXPECT_EQ(clock_time(3725), "1:02:05");
  EXPECT_EQ(clock_time(360000), "100:00:00");
}

TEST(ProgressBar, IsAsFullAsTheResync) {
  const auto bar = [](double percent) {
    return progress_bar(json{{"percent", percent}}, 10).substr(0, 12);
  };
  EXPECT_EQ(bar(0), "[----------]");
  EXPECT_EQ(bar(39.9), "[###-------]");
  EXPECT_EQ(bar(100), "[##########]");
  EXPECT_EQ(bar(250), "[##########]");
}

// What a display writes into a file for a run of statuses.
std::string shown(const std::vector<json>& statuses, bool terminal) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* out = open_memstream(&text, &size);
  ProgressDisplay display(out, terminal);
  for (const json& status : statuses) display.show(status);
  display.finish(statuses.back());
  std::fclose(out);
  std::string result(text, size);
  std::free(text);
  return result;
}

TEST(ProgressDisplay, WritesALineATenthWhereThereIsNoTerminal) {
  json one = resyncing();
  json two = resyncing();
  two["resync"]["percent"] = 55.0;
  json three = resyncing();
  three["resync"]["percent"] = 60.0;
  json done = resyncing();
  done["state"] = "duplex";
  done["resync"]["active"] = false;
  done["last_resync"] = {{"bytes", 4096}, {"duration_s", 2}};
  const std::string text = shown({one, two, three, done}, false);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4) << text;
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_NE(text.find("resync done: the last one took 2.00 s for 4 KiB\n"), std::string::npos);
}

TEST(ProgressDisplay, TellsOfAResyncThatWasTooShortToBeSeen) {
  json before = resyncing();
  before["resync"]["active"] = false;
  before["state"] = "simplex";
  json after = before;
  after["state"] = "duplex";
  EXPECT_EQ(shown({before, after}, false), "state: simplex\nstate: duplex\n");
  after["last_resync"] = {{"bytes", 4096}, {"duration_s", 0.25}};
  EXPECT_EQ(shown({before, after}, false),
            "state: simplex\nstate: duplex\nresync done: the last one took 250.00 ms for 4 KiB\n");
}

TEST(ProgressDisplay, DrawsOneLineOverOnATerminal) {
  const std::string text = shown({resyncing(), resyncing()}, true);
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  EXPECT_NE(text.find("\r\033[Kresync [###############---------------] 50.0%"), std::string::npos);
}

TEST(Wrapped, BreaksAtSpacesAndIndents) {
  EXPECT_EQ(wrapped("one two three", 7, 2), "one two\n  three");
  EXPECT_EQ(wrapped("alongword x", 4, 0), "alongword\nx");
  EXPECT_EQ(wrapped("a\nb c", 10, 1), "a\n b c");
  EXPECT_EQ(wrapped("", 10, 0), "");
}

}  // namespace
}  // namespace twinblock
