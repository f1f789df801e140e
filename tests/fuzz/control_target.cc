// Control requests to two nodes of tests/sim, between clients, crashes, faults and the passing of
// time. Each request is answered once, with one line of JSON in the protocol's form; what is
// refused at once has changed nothing; and whatever is asked, both nodes go on.
//
// Input: lines. Those that begin with '!' are directions (see Stage::direct), the others are
// requests, sent as they are.
#include <array>
#include <cerrno>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "clients.h"
#include "control/requests.h"
#include "control/why_words.h"
#include "fuzz_node.h"
#include "input.h"
#include "line_mutator.h"
#include "sim_node.h"

namespace twinblock::fuzz {
namespace {

using nlohmann::json;

constexpr uint64_t kVolumeBytes = 256 * kKiB;
constexpr size_t kLinesMax = 40;
constexpr uint64_t kRunMax_ms = 3000;
// With all faults mended, whatever was asked is answered within this.
constexpr uint64_t kAnswerMax_ns = 40 * kSecond_ns;

const NodeFacts& facts() {
  // As hostile as a path can be.
  static const NodeFacts made{
      "threads", "direct", "nbd+unix:///?socket=/\xff\"\\\n", "/x\x01.ctl", "/a\xc3", "/am", "/etc/r0.toml",
      42};
  return made;
}

bool is_line(const std::string& text) { return text.find('\n') == std::string::npos; }

json checked(const std::string& line) {
  require(is_line(line), "an answer of several lines", line);
  const json answer = json::parse(line, nullptr, false);
  require(answer.is_object() && answer.contains("ok") && answer["ok"].is_boolean(),
          "an answer that is none", line);
  if (answer["ok"].get<bool>()) {
    require(answer.contains("result") && answer["result"].is_object(), "a success without a result",
            line);
  } else {
    require(answer.contains("error") && answer["error"].is_string() && answer["error"] != "",
            "a failure without a reason", line);
    require(answer.contains("action") && answer["action"].is_string(),
            "a failure without an action", line);
  }
  return answer;
}

class Stage {
 public:
  Stage()
      : config_(make_config(kVolumeBytes, "peer_timeout = \"1s\"")),
        network_(scheduler_, sim::Random(1)) {
    for (int host = 0; host < 2; ++host) {
      node(host) = std::make_unique<sim::SimNode>(scheduler_, network_, config_, host, 64 * kKiB,
                                                  sim::Random(static_cast<uint64_t>(host) + 2));
      node(host)->start();
    }
    run(kMillisecond_ns);
  }
  ~Stage() {
    for (auto& each : nodes_) each.reset();
    scheduler_.clear();
  }

  void line(const std::string& text) {
    if (text.starts_with('!'))
      direct(text.substr(1));
    else if (at().running() && !at().paused())
      ask(text);
    run(100 * kMicrosecond_ns);
  }

  // All faults end; what is still owed has to come.
  void end() {
    mend();
    for (int host = 0; host < 2; ++host) {
      if (!node(host)->powered()) node(host)->power_on();
      if (node(host)->paused()) node(host)->resume();
    }
    const uint64_t until = scheduler_.now_ns() + kAnswerMax_ns;
    while (owed() > 0 && scheduler_.now_ns() < until) run(100 * kMillisecond_ns);
    require(owed() == 0, "a request that is never answered");
    for (here_ = 0; here_ < 2; ++here_)
      if (at().running()) look();
    here_ = 0;
  }

 private:
  struct Asked {  // of one life of a node
    size_t waiting = 0;
    bool over = false;
  };

  std::unique_ptr<sim::SimNode>& node(int host) { return nodes_[static_cast<size_t>(host)]; }
  sim::SimNode& at() { return *node(here_); }
  Clients& clients() { return clients_[static_cast<size_t>(here_)]; }
  void run(uint64_t ns) { scheduler_.run_until(scheduler_.now_ns() + ns); }
  [[nodiscard]] size_t owed() const {
    return asked_[0]->waiting + asked_[1]->waiting + clients_[0].outstanding() +
           clients_[1].outstanding();
  }

  json state() { return render_status(at().engine().status(), facts()); }

  void look() {
    const json status = state();
    const uint64_t size_bytes = status["size_bytes"];
    require(status["dirty_bytes"].get<uint64_t>() <= size_bytes, "more is dirty than there is");
    require(status["intents"]["bytes"].get<uint64_t>() <= size_bytes, "more intents than regions");
    const double percent = status["resync"]["percent"];
    require(percent >= 0 && percent <= 100, "more than all of a resync is done");
    require(!status["status"].get_ref<const std::string&>().empty(), "a status without words");
    require(status["role"] == "primary" || status["role"] == "secondary", "a role that is none");
    require(status["links"].is_array() && !status["links"].empty(), "a status without links");
    for (const std::string& reason : why_words(at().engine().status()))
      require(!reason.empty() && is_line(reason), "a reason that is no line", reason);
  }

  void ask(const std::string& request) {
    const json before = state();
    std::shared_ptr<Asked> asked = asked_[static_cast<size_t>(here_)];
    ++asked->waiting;
    // Empty: not answered yet.
    const auto answer = std::make_shared<std::string>();
    handle_control_request(at().engine(), facts(), request, [asked, answer](std::string line) {
      require(!asked->over, "an answer from a node that is no more");
      require(answer->empty(), "a request is answered twice", line);
      *answer = std::move(line);
      --asked->waiting;
      (void)checked(*answer);
    });
    look();
    if (answer->empty() || checked(*answer)["ok"].get<bool>()) return;
    const json changed = json::diff(before, state());
    require(changed.empty(), "what was refused has changed something",
            request + " -> " + *answer + ": " + changed.dump());
  }

  void forget() {
    asked_[static_cast<size_t>(here_)]->over = true;
    asked_[static_cast<size_t>(here_)] = std::make_shared<Asked>();
    clients().abandon();
  }

  void mend() {
    silent_ = {false, false};
    network_.heal();
    for (const auto& each : nodes_)
      for (sim::VirtualDisk* disk : {&each->data(), &each->metadata()}) disk->faults = {};
  }

  // A word, and for some a number:
  //   alpha, beta: who is spoken to; run MILLISECONDS; kill, power (a crash), start, pause, resume:
  //   that node; write, zero, read BLOCK; flush, close: a client there; silence HOST; cut LINK;
  //   reset; mend; full, fail, hang, metafail: its disks.
  void direct(const std::string& text) {
    std::istringstream words(text);
    std::string word;
    uint64_t number = 0;
    words >> word >> number;
    const uint64_t block = number % (kVolumeBytes / limits::kBlockBytes - 4);
    if (word == "alpha") here_ = 0;
    if (word == "beta") here_ = 1;
    if (word == "run") run(std::min(number, kRunMax_ms) * kMillisecond_ns);
    if (word == "silence") silent_[number % 2] = true;
    if (word == "silence") network_.set_silent(silent_);
    if (word == "cut") cut(number);
    if (word == "reset") network_.reset_all();
    if (word == "mend") mend();
    if (word == "start" && !at().running() && at().powered()) at().start();
    if (word == "start" && !at().powered()) at().power_on();
    if (!at().running()) return;
    if (word == "kill") at().kill();
    if (word == "power") at().power_off();
    if (word == "kill" || word == "power") forget();
    if (word == "pause" && !at().paused()) at().pause();
    if (word == "resume" && at().paused()) at().resume();
    disturb(word);
    if (!at().running() || at().paused()) return;
    serve(word, block * limits::kBlockBytes, static_cast<uint8_t>(number / 64));
  }

  void cut(uint64_t number) {
    sim::LinkFaults faults;
    faults.cut = {true, true};
    network_.set_faults(config_.links[number % config_.links.size()].name, faults);
  }

  void disturb(const std::string& word) {
    if (word == "full") at().data().faults.full = true;
    if (word == "fail") at().data().faults.write_error_chance = 1;
    if (word == "metafail") at().metadata().faults.write_error_chance = 1;
    if (word == "hang") at().data().faults.hung_until_ns = scheduler_.now_ns() + 3 * kSecond_ns;
  }

  void serve(const std::string& word, uint64_t offset, uint8_t manner) {
    Engine& engine = at().engine();
    constexpr uint64_t kLength = 2 * limits::kBlockBytes;
    if (word == "write")
      clients().submit(engine, at().clock(), ClientOp::kWrite, offset, kLength, manner);
    if (word == "zero")
      clients().submit(engine, at().clock(), ClientOp::kZero, offset, kLength, manner);
    if (word == "read")
      clients().submit(engine, at().clock(), ClientOp::kRead, offset, kLength, manner);
    if (word == "flush") clients().submit(engine, at().clock(), ClientOp::kFlush, 0, 0, 0);
    if (word == "close") clients().close(engine);
  }

  const Config config_;
  sim::Scheduler scheduler_;
  sim::VirtualNetwork network_;
  std::array<std::shared_ptr<Asked>, 2> asked_{std::make_shared<Asked>(),
                                               std::make_shared<Asked>()};
  std::array<Clients, 2> clients_;
  std::array<std::unique_ptr<sim::SimNode>, 2> nodes_;
  std::array<bool, 2> silent_{};
  int here_ = 0;
};

constexpr const char* kLines[] = {
    R"({"verb":"status","args":{}})",
    R"({"verb":"why"})",
    R"({"verb":"init"})",
    R"({"verb":"init","args":{"force":true}})",
    R"({"verb":"init","args":{"join":true}})",
    R"({"verb":"promote"})",
    R"({"verb":"promote","args":{"peer_is_dead":true}})",
    R"({"verb":"demote"})",
    R"({"verb":"continue"})",
    R"({"verb":"resolve","args":{"keep":"local"}})",
    R"({"verb":"resolve","args":{"keep":"peer","dry_run":true}})",
    R"({"verb":"resolve","args":{"keep":"peer"}})",
    R"({"verb":"resync","args":{"pace":"pause"}})",
    R"({"verb":"resync","args":{"pace":"resume"}})",
    R"({"verb":"resync","args":{"pace":"rate","bytes_per_s":18446744073709551615}})",
    R"({"verb":"resync","args":{"pace":"auto"}})",
    R"({"verb":"verify","args":{"order":"compare"}})",
    R"({"verb":"verify","args":{"order":"repair"}})",
    R"({"verb":"verify","args":{"order":"stop"}})",
    R"({"verb":"link","args":{"action":"list"}})",
    R"({"verb":"link","args":{"action":"add","name":"b","addresses":{"alpha":"10.1.0.1:1","beta":"10.1.0.2:1"},"rate":"1Gbit"}})",
    R"({"verb":"link","args":{"action":"remove","name":"b"}})",
    R"({"verb":"link","args":{"action":"remove","name":"main"}})",
    R"({"verb":"link","args":{"action":"disable","name":"main"}})",
    R"({"verb":"link","args":{"action":"enable","name":"main"}})",
    R"({"verb":"compression","args":{"mode":"auto","level":3}})",
    R"({"verb":"compression","args":{"mode":"off"}})",
    R"({"verb":"compression"})",
    R"({"verb":"latency","args":{"window":"10s"}})",
    R"({"verb":"sample","args":{"every":1}})",
    R"({"verb":"stats"})",
    R"({"verb":"metrics"})",
    R"({"verb":"events"})",
    R"({"verb":"events","args":{"since":5,"wait":true}})",
    R"({"verb":"events","args":{"since":18446744073709551615,"wait":true}})",
    "!alpha",
    "!beta",
    "!run 1",
    "!run 100",
    "!run 3000",
    "!kill",
    "!power",
    "!start",
    "!pause",
    "!resume",
    "!write 1",
    "!write 99",
    "!zero 7",
    "!read 1",
    "!flush",
    "!close",
    "!silence 0",
    "!silence 1",
    "!reset",
    "!cut 0",
    "!cut 1",
    "!mend",
    "!full",
    "!fail",
    "!hang",
    "!metafail",
};

}  // namespace
}  // namespace twinblock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace twinblock::fuzz;
  std::string text(reinterpret_cast<const char*>(data), size);
  Stage stage;
  for (size_t lines = 0; lines < kLinesMax && !text.empty(); ++lines) {
    const size_t end = text.find('\n');
    stage.line(text.substr(0, end));
    text.erase(0, end == std::string::npos ? text.size() : end + 1);
  }
  stage.end();
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  using namespace twinblock::fuzz;
  return mutate_lines(data, size, max_size, seed, kLines);
}
