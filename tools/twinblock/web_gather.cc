#include "twinblock/web_gather.h"

#include <filesystem>
#include <future>
#include <set>

#include "base/units.h"
#include "twinblock/control_client.h"
#include "twinblock/json_fields.h"
#include "twinblock/latency_verdict.h"
#include "twinblock/plan.h"
#include "twinblock/probe.h"

namespace twinblock {
namespace {

using nlohmann::json;

constexpr uint64_t kTimeout_ns = 2 * kSecond_ns;
constexpr size_t kEventsMax = 50;

// "r0" of "…/r0.ctl".
std::string volume_of(const std::string& socket) { return std::filesystem::path(socket).stem(); }

// What happened last. An answer has the first ones after a number, and what the last one's is.
json latest_events(const std::string& socket) {
  uint64_t since = 0;
  for (int i = 0; i < 2; ++i) {
    const Result<json> answer = control_request(socket, "events", {{"since", since}}, kTimeout_ns);
    if (!answer) break;
    const uint64_t last = count_at(answer.value(), "last");
    if (i == 0 && last > kEventsMax) {
      since = last - kEventsMax;
      continue;
    }
    return array_at(answer.value(), "events");
  }
  return json::array();
}

}  // namespace

// One that still runs, or failed, leaves what is known.
void WebGather::ask_probe(const std::string& socket, uint64_t known, Told& told) {
  told.probe_number = known;
  const Result<json> answer =
      control_request(socket, "probe", {{"action", "result"}, {"known", known}}, kTimeout_ns);
  const json probe = answer ? object_at(answer.value(), "probe") : json();
  if (text_at(probe, "stage") != "done") return;
  told.probe_number = count_at(probe, "number");
  told.probe = probe_json(probe, text_at(told.status, "node"), text_at(object_at(told.status, "peer"), "name"));
}

WebGather::Told WebGather::ask_node(const std::string& socket, uint64_t known, uint64_t pid) {
  Told told;
  const auto ask = [&](const char* verb, const json& args, json& into) {
    const Result<json> answer = control_request(socket, verb, args, kTimeout_ns);
    if (answer) {
      into = answer.value();
      return true;
    }
    told.error = answer.error().what;
    told.action = answer.error().action;
    return false;
  };
  json metrics;
  told.answers = ask("status", json::object(), told.status) && ask("latency", {{"window", "10s"}}, told.latency) &&
                 ask("metrics", json::object(), metrics);
  if (!told.answers) return told;
  told.latency["verdict"] = latency_verdict(told.latency);
  told.events = latest_events(socket);
  told.metrics = text_at(metrics, "text");
  ask_probe(socket, count_at(told.status, "pid") == pid ? known : 0, told);
  return told;
}

// Where the node said that it is; of one that never answered, where systemd's unit looks for it. What can't be looked
// at may be there.
bool WebGather::has_a_file(const std::string& volume, const Told& node) const {
  const std::string said = text_at(node.status, "config");
  std::error_code error;
  return std::filesystem::exists(said.empty() ? config_dir_ + "/" + volume + ".toml" : said, error) || error;
}

// Neither a socket nor a file is left of it: it is not to be started again. A file that can't be parsed, of which no
// socket is expected, is somebody's mistake, and the volume is to be told of all the same.
void WebGather::forget_what_was_taken_away(const std::vector<std::string>& sockets) {
  std::set<std::string> expected;
  for (const std::string& socket : sockets) expected.insert(volume_of(socket));
  std::erase_if(nodes_, [&](const auto& node) {
    const std::string& volume = node.first;
    const bool gone = !expected.contains(volume) && !has_a_file(volume, node.second);
    if (gone) history_.forget(volume);
    return gone;
  });
}

WebFigures WebGather::ask(const std::vector<std::string>& sockets, uint64_t now_ms) {
  forget_what_was_taken_away(sockets);
  std::map<std::string, std::future<Told>> asked;
  for (const std::string& socket : sockets) {
    const Told& before = nodes_[volume_of(socket)];
    std::error_code error;
    if (!std::filesystem::exists(socket, error) && !error) continue;  // it is not there, or has gone
    asked.emplace(volume_of(socket),
                  std::async(std::launch::async, [socket, known = before.probe_number,
                                                  pid = count_at(before.status, "pid")] {
                    return ask_node(socket, known, pid);
                  }));
  }
  for (auto& [volume, node] : nodes_) {
    if (asked.count(volume) != 0) continue;
    node.answers = false;
    node.error = "no node of " + volume + " runs here";
    node.action = "start it: systemctl start twinblock@" + volume;
  }
  for (auto& [volume, answer] : asked) {
    Told fresh = answer.get();
    Told& node = nodes_[volume];
    if (fresh.answers) {
      if (fresh.probe.is_null()) fresh.probe = std::move(node.probe);
      node = std::move(fresh);
      node.told_ms = now_ms;
      history_.add(volume, node.status, node.latency, now_ms);
    } else {  // what it said last is still worth something
      node.answers = false;
      node.error = fresh.error;
      node.action = fresh.action;
    }
  }
  WebFigures figures;
  json volumes = json::array();
  std::vector<std::string> metrics;
  std::map<std::string, bool> answers;
  for (const auto& [volume, node] : nodes_) {
    json shown{{"volume", volume},
               {"answers", node.answers},
               {"error", node.error},
               {"action", node.action},
               {"told_ms", node.told_ms},
               {"status", node.status},
               {"latency", node.latency},
               {"events", node.events},
               {"probe", node.probe}};
    if (const Result<json> plan = plan_of(node.latency, node.status, {}); plan) shown["plan"] = plan.value();
    volumes.push_back(std::move(shown));
    answers[volume] = node.answers;
    if (node.answers) metrics.push_back(node.metrics);
  }
  figures.volumes = json_text(versioned({{"now_ms", now_ms}, {"volumes", std::move(volumes)}}));
  figures.history = json_text(versioned(history_.shown()));
  figures.metrics = answers_metric(answers) + joined_metrics(metrics);
  return figures;
}

}  // namespace twinblock
