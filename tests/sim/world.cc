#include "world.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "report.h"

namespace twinblock::sim {
namespace {

// With faults stopped, the pair is in duplex again within this.
constexpr uint64_t kHealingMax_ns = 60 * kSecond_ns;
constexpr uint64_t kAnswerMax_ns = 30 * kSecond_ns;

Config make_config(const Options& options) {
  Config config;
  config.path = "sim.toml";
  config.volume = "r0";
  config.size_bytes = options.volume_bytes;
  config.nodes = {{"alpha", "/alpha.img", "/alpha.meta", "/run"},
                  {"beta", "/beta.img", "/beta.meta", "/run"}};
  config.links.push_back({"main", {{"alpha", "10.0.0.1:7700"}, {"beta", "10.0.0.2:7700"}}, 0});
  config.peer_timeout_ns = options.peer_timeout_ns;
  config.disk_timeout_ns = options.disk_timeout_ns;
  config.on_peer_loss = options.freeze ? OnPeerLoss::kFreeze : OnPeerLoss::kContinue;
  return config;
}

}  // namespace

World::World(uint64_t seed, const Options& options)
    : random_(seed),
      options_(options),
      config_(make_config(options_)),
      network_(scheduler_, random_.fork()),
      history_(options_.volume_bytes),
      workload_(
          scheduler_, history_, options_, random_.fork(),
          [this](SimNode& at, const Workload::Request& request) { check_answer(at, request); }) {
  for (int host = 0; host < 2; ++host)
    nodes_[static_cast<size_t>(host)] =
        std::make_unique<SimNode>(scheduler_, network_, config_, host, random_.fork());
}

World::~World() {
  for (auto& each : nodes_) each.reset();
  workload_.abandon();
  scheduler_.clear();
}

std::string World::describe() {
  std::string text;
  for (int host = 0; host < 2; ++host) {
    text += "\n  " + node(host).name() + ": ";
    if (!node(host).running()) {
      text += "not running";
      continue;
    }
    const StatusView view = node(host).engine().status();
    text += view.role + ", " + state_name(view.state) + ", data " + data_state_name(view.data) +
            ", dirty " + std::to_string(view.dirty_bytes) + ", generation " +
            view.generation_current + " base " + view.generation_base + ", link " +
            view.link.state + " (" + view.link.last_error + "). " + view.status;
  }
  return text;
}

void World::wait(uint64_t at_most_ns, const std::function<bool()>& until, const char* for_what) {
  const uint64_t end = scheduler_.now_ns() + at_most_ns;
  while (!until()) {
    if (scheduler_.now_ns() >= end)
      Report::violation("waited " + std::to_string(at_most_ns / kSecond_ns) + " s for " + for_what +
                        describe());
    scheduler_.run_until(std::min(end, scheduler_.now_ns() + 20 * kMillisecond_ns));
  }
}

bool World::both_duplex() {
  for (const auto& each : nodes_)
    if (!each->running() || each->paused() || each->engine().status().state != VolumeState::kDuplex)
      return false;
  return true;
}

bool World::settled() {
  return primary_ >= 0 && procedure_ == Procedure::kNone && workload_.is_open() && both_duplex();
}

void World::run() {
  for (const auto& each : nodes_) each->start();
  bool initialised = false;
  node(0).engine().init(false, false, [&](const Result<std::string>& result) {
    if (!result) Report::violation("init: " + result.error().what);
    initialised = true;
  });
  wait(
      kHealingMax_ns, [&] { return initialised; }, "init");
  current_[0] = true;
  operator_turn();
  wait(
      kHealingMax_ns, [&] { return primary_ == 0; }, "the first promotion");

  faults_on_ = true;
  fault_turn();
  scheduler_.run_until(scheduler_.now_ns() + options_.faulty_ns);
  wait(
      kHealingMax_ns, [this] { return dead_disk_host_ < 0; }, "the disk's replacement");
  faults_on_ = false;
  heal();
  // With writes going on.
  wait(
      kHealingMax_ns, [this] { return settled(); }, "duplex");
  workload_.stop();
  wait(
      kAnswerMax_ns, [this] { return workload_.idle(); }, "answers to all requests");
  wait(
      kHealingMax_ns, [this] { return both_duplex(); }, "duplex without writes");
  check_identical("at the end");
  if (random_.chance(0.3)) {
    workload_.flush_all();
    wait(
        kAnswerMax_ns, [this] { return workload_.idle(); }, "a flush");
    for (int host = 0; host < 2; ++host) power_off(host);
    for (int host = 0; host < 2; ++host) restart(host);
    wait(
        kHealingMax_ns, [this] { return settled(); }, "duplex after a power failure");
    workload_.stop();
    wait(
        kAnswerMax_ns, [this] { return workload_.idle(); }, "answers to all requests");
    check_identical("after a power failure of both");
  }
  workload_.read_all();
  wait(
      kAnswerMax_ns, [this] { return workload_.idle(); }, "a read of the whole volume");
}

void World::check_identical(const char* when) {
  const auto a = node(0).data().contents();
  const auto b = node(1).data().contents();
  for (size_t at = 0; at < a.size(); at += kSectorBytes) {
    if (std::memcmp(a.data() + at, b.data() + at, kSectorBytes) == 0) continue;
    const size_t sector = at / kSectorBytes;
    Report::violation(std::string("the replicas differ ") + when + ": sector " +
                      std::to_string(sector) + " is of " +
                      history_.describe(history_.number_of(sector, a.subspan(at, kSectorBytes))) +
                      " at alpha, of " +
                      history_.describe(history_.number_of(sector, b.subspan(at, kSectorBytes))) +
                      " at beta" + describe());
  }
}

void World::check_answer(SimNode& at, const Workload::Request& request) {
  const ClientRequest& client = request.client;
  if (client.error != 0)
    Report::violation(
        "the client of " + at.name() + " got error " + std::to_string(client.error) + " for " +
        (request.number != 0 ? history_.describe(request.number) : "a read or flush") + describe());
  check_wait(at, request);
  if (client.op == ClientOp::kWrite || client.op == ClientOp::kZero) check_on_both(request);
}

// Nothing waits for a silent peer longer than the peer timeout, nor for a peer whose disk hangs
// longer than the disk timeout; each trouble may cost that once.
void World::check_wait(SimNode& at, const Workload::Request& request) {
  if (options_.freeze || slow_disks_ || at.pauses_total() != request.pauses || at.paused() ||
      hung_until_ns_[static_cast<size_t>(at.host())] > request.began_ns)
    return;
  const uint64_t waited = scheduler_.now_ns() - request.began_ns;
  const uint64_t troubles = workload_.troubles() - request.troubles + 1;
  uint64_t timeout_ns = options_.peer_timeout_ns;
  if (options_.faults.hang_disk > 0) timeout_ns = std::max(timeout_ns, options_.disk_timeout_ns);
  const uint64_t bound = troubles * (timeout_ns + 500 * kMillisecond_ns) +
                         kSecond_ns;  // the disks of this simulation at their slowest
  if (waited > bound)
    Report::violation("a request waited " + std::to_string(waited / kMillisecond_ns) +
                      " ms, with " + std::to_string(troubles) + " troubles meanwhile" + describe());
}

// In duplex, an acknowledged write is in both page caches at that instant.
void World::check_on_both(const Workload::Request& request) {
  if (!both_duplex() || node(0).started_ns() > request.began_ns ||
      node(1).started_ns() > request.began_ns)
    return;
  for (int host = 0; host < 2; ++host) {
    if (!node(host).engine().status().disk_error.empty()) continue;
    const auto found = node(host).data().contents();
    const bool zero = request.client.op == ClientOp::kZero || request.client.all_zero;
    for (uint64_t at = 0; at < request.client.length_bytes; at += kSectorBytes) {
      const uint64_t offset = request.client.offset_bytes + at;
      const uint64_t number =
          history_.number_of(offset / kSectorBytes, found.subspan(offset, kSectorBytes));
      if (number == (zero ? 0 : request.number)) continue;
      Report::violation("acknowledged in duplex, " + history_.describe(request.number) +
                        " is not on " + node(host).name() + "'s disk: sector " +
                        std::to_string(offset / kSectorBytes) + " is of " +
                        history_.describe(number) + describe());
    }
  }
}

}  // namespace twinblock::sim
