#include "twinblock/status_text.h"

#include <gtest/gtest.h>

namespace twinblock {
namespace {

using nlohmann::json;

json verification() {
  return json::parse(R"({
    "active": true, "repair": false, "ended": "", "bytes_done": 268435456,
    "bytes_total": 1073741824, "differing_bytes": 0, "repaired_bytes": 0,
    "rate_bytes_per_s": 67108864, "eta_s": 12, "differences": []})");
}

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
       "round_trip_us": 42, "in_bytes_per_s": 1258291, "out_bytes_per_s": 851443712,
       "in_flight_bytes": 4194304, "failovers": 2, "last_error": "", "retry_in_ms": 0,
       "encryption": "TLS 1.3, AES-128-GCM, key 9f86-d081-884c-7d65"},
      {"name": "backup", "state": "down", "local": "[fd00::1]:7700", "peer": "[fd00::2]:7700",
       "round_trip_us": null, "failovers": 0, "last_error": "connection refused",
       "retry_in_ms": 1500}],
    "encryption": {"mode": "tls", "key": "9f86-d081-884c-7d65"},
    "compression": {"mode": "auto", "level": 1, "writes_compressed": 30, "writes_raw": 12,
                    "raw_bytes": 3145728, "sent_bytes": 1048576, "decision": ""},
    "resync": {"active": true, "direction": "source", "bytes_done": 52428800,
               "bytes_total": 104857600, "percent": 50.0, "rate_bytes_per_s": 10485760,
               "average_bytes_per_s": 9437184, "eta_s": 5, "pace": "auto",
               "reason": "beta was away while the volume was written.",
               "sent": {"data_bytes": 41943040, "zero_bytes": 1048576, "compared_bytes": 0}},
    "last_resync": null, "verify": null,
    "intents": {"bytes": 12582912, "commits": 3, "waits": 40},
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
    resync: to the peer: 50.0%, 50 MiB of 100 MiB, 10 MiB/s now, 9 MiB/s on average, 0:05 left
      pace: auto: what clients leave
    reason: beta was away while the volume was written.
      sent: 40 MiB sent as data, 1 MiB as zeroes
     dirty: 100 MiB that the peer misses
   intents: 12 MiB written lately; after a crash here that is compared with the peer's
 encrypted: TLS 1.3, AES-128-GCM, key 9f86-d081-884c-7d65, proven by the peer
  compress: auto, level 1: 3 MiB sent as 1 MiB (3.0:1), 30 of 42 writes compressed
    writes: 1000 (3.9 MiB), p50 75.0 us, p99 410.0 us, max 5.00 ms
     reads: 5 (20 KiB), flushes 7, zeroes and trims 1, peer losses 1
      disk: /srv/r0.img, io_uring
   clients: 1 at nbd+unix:///?socket=/run/twinblock/r0.nbd
   process: 4711, up 1:02:05

  LINK    STATE  RTT    OUT        IN          IN FLIGHT  FAILOVERS
  main    up     42 us  812 MiB/s  1.20 MiB/s  4 MiB      2
  backup  down   -      -          -           -          0
    backup, [fd00::1]:7700 to [fd00::2]:7700: connection refused, tried
    again in 1.50 s
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

size_t times_said(const std::string& text, const std::string& words) {
  // As one line: where it is wrapped does not matter.
  std::string line;
  for (const char c : text)
    if (c == '\n' || c == ' ') {
      if (!line.empty() && line.back() != ' ') line += ' ';
    } else {
      line += c;
    }
  size_t count = 0;
  for (size_t at = line.find(words); at != std::string::npos; at = line.find(words, at + 1))
    ++count;
  return count;
}

TEST(StatusText, ACauseIsSaidOnce) {
  json status = resyncing();
  const std::string refusal = "beta refuses: the volume is called r1 there, not r0";
  const std::string advice = "give both hosts the same file";
  status["status"] = refusal + ".";
  status["action"] = advice + ".";
  status["links"][1]["last_error"] = refusal + "; " + advice;
  const std::string refused = status_text(status);
  EXPECT_EQ(times_said(refused, refusal), 1u) << refused;
  EXPECT_EQ(times_said(refused, advice), 1u) << refused;
  EXPECT_EQ(times_said(refused, "tried again in 1.50 s"), 1u) << "the rest stays\n" << refused;
  status["links"][1]["last_error"] = refusal + "; and more";
  EXPECT_EQ(times_said(status_text(status), "and more"), 1u);
  status["status"] = "the local disk failed: Input/output error. The peer had: No space left.";
  status["disk"]["error"] = "the local disk failed: Input/output error";
  status["peer"]["error"] = "The peer had: No space left";
  const std::string broken = status_text(status);
  EXPECT_EQ(times_said(broken, "Input/output error"), 1u) << broken;
  EXPECT_EQ(times_said(broken, "ERROR, see above"), 1u) << broken;
  EXPECT_EQ(times_said(broken, "No space left"), 1u) << broken;
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

TEST(StatusText, SaysWhatHoldsAResyncBack) {
  json status = resyncing();
  status["resync"]["pace"] = "paused";
  EXPECT_NE(status_text(status).find(
                "pace: paused by an operator; go on with: twinblock resync r0 resume\n"),
            std::string::npos)
      << status_text(status);
  status["resync"]["pace"] = "50 MiB/s";
  EXPECT_NE(status_text(status).find("pace: limited to 50 MiB/s"), std::string::npos);
  status["resync"]["direction"] = "target";
  status["resync"]["pace"] = "";
  EXPECT_EQ(status_text(status).find("pace:"), std::string::npos) << "the source knows it";
}

TEST(StatusText, TellsOfIntentsOnAPrimaryOnly) {
  json status = resyncing();
  status["role"] = "secondary";
  EXPECT_EQ(status_text(status).find("intents:"), std::string::npos);
  status["role"] = "primary";
  status["intents"]["bytes"] = 0;
  EXPECT_EQ(status_text(status).find("intents:"), std::string::npos);
}

TEST(StatusText, ShowsAVerificationThatRunsAndOneThatEnded) {
  json status = resyncing();
  status["verify"] = verification();
  EXPECT_NE(
      status_text(status).find("    verify: 25.0%, 256 MiB of 1 GiB, 64 MiB/s now, 0:12 left; "
                               "no difference so far\n"),
      std::string::npos)
      << status_text(status);
  status["verify"]["active"] = false;
  status["verify"]["ended"] = "complete";
  status["verify"]["bytes_done"] = 1073741824;
  EXPECT_NE(status_text(status).find("verify: 1 GiB compared: the replicas are identical\n"),
            std::string::npos)
      << status_text(status);
}

TEST(StatusList, HasALineForEachVolumeAndSaysWhatIsToDo) {
  json waiting = resyncing();
  waiting["volume"] = "r1";
  waiting["state"] = "waiting";
  waiting["peer"]["connected"] = false;
  waiting["status"] = "Nobody serves it.";
  waiting["action"] = "start twinblockd on beta";
  json fine = resyncing();
  fine["action"] = "";
  const json away{{"volume", "r2"}, {"error", "no node answers at /run/r2.ctl"}, {"action", "start it"}};
  EXPECT_EQ(status_list({{"volumes", {fine, waiting, away}}}),
            R"(VOLUME          NODE        ROLE       STATE         DATA          PEER
r0              alpha       primary    resync        current       beta
r1              alpha       primary    waiting       current       beta, not connected
r2                                     no answer

r1: Nobody serves it. To do: start twinblockd on beta
r2: no node answers at /run/r2.ctl To do: start it
)");
  EXPECT_FALSE(status_list(json()).empty());
}

}  // namespace
}  // namespace twinblock
