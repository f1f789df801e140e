#include "world.h"

#include <algorithm>
#include <array>
#include <utility>

#include "pair_config.h"
#include "report.h"

namespace twinblock::sim {
namespace {

Config make_config(const Options& options) {
  Config config = pair_config(options.volume_bytes);
  constexpr std::array<const char*, 3> kLinkNames{"main", "backup", "third"};
  for (size_t i = 0; i < options.links; ++i) {
    const std::string net = "10.0." + std::to_string(i);
    config.links.push_back(
        {kLinkNames.at(i), {{"alpha", net + ".1:7700"}, {"beta", net + ".2:7700"}}, 0});
  }
  config.peer_timeout_ns = options.peer_timeout_ns;
  config.link_timeout_ns = options.link_timeout_ns;
  config.disk_timeout_ns = options.disk_timeout_ns;
  config.cache_bytes = options.cache_bytes;
  config.compression = options.compressed_share > 0 ? Compression::kOn : Compression::kOff;
  config.on_restart = options.resume ? OnRestart::kResume : OnRestart::kSecondary;
  config.on_peer_loss = options.freeze ? OnPeerLoss::kFreeze : OnPeerLoss::kContinue;
  return config;
}

}  // namespace

World::World(uint64_t seed, const Options& options)
    : random_(seed),
      renewals_(~seed),
      options_(options),
      config_(make_config(options_)),
      network_(scheduler_, random_.fork()),
      side_(std::make_unique<Side>(*this, History(options_.volume_bytes), random_.fork())),
      check_random_(random_.fork()) {
  for (int host = 0; host < 2; ++host)
    nodes_[static_cast<size_t>(host)] = std::make_unique<SimNode>(
        scheduler_, network_, config_, host, options_.region_bytes, random_.fork());
  make_lanes();
  // A firewall. (Drawn apart, so that runs without one stay what they were; and in a part of all runs to which none of the
  // seeds belongs that known-bad engines are caught by.)
  Random apart = renewals_;
  Random chances = apart.fork();
  const double drawn = chances.unit();
  if (options_.faults.link_order > 0 && drawn >= 0.1 && drawn < 0.2)
    network_.block_dials_of(static_cast<int>(chances.below(2)));
}

World::~World() {
  for (auto& each : nodes_) each.reset();
  workload().abandon();
  if (other_side_) other_side_->workload.abandon();
  scheduler_.clear();
}

World::Side::Side(World& world, History past, Random random)
    : history(std::move(past)),
      workload(world.scheduler_, history, world.options_, random,
               [&world](SimNode& at, const Workload::Request& request) {
                 world.check_answer(at, request);
                 return !world.answers_alone_with_a_dead_disk(at.host());
               }) {}

std::string World::describe() { return node(0).describe() + node(1).describe(); }

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
    if (!each->running() || each->paused() || each->engine().volume_state() != VolumeState::kDuplex)
      return false;
  return true;
}

bool World::settled() {
  return primary_ >= 0 && procedure_ == Procedure::kNone && workload().is_open() && both_duplex();
}

void World::run() {
  begin();
  if (options_.session_lasts) watch_session();
  if (options_.late_max_ns > 0) begin_to_be_late();
  faults_on_ = true;
  if (options_.renew_ns > 0) renew_turn();
  fault_turn();
  scheduler_.run_until(scheduler_.now_ns() + options_.faulty_ns);
  wait(
      kHealingMax_ns, [this] { return dead_disk_host_ < 0; }, "the disk's replacement");
  faults_on_ = false;
  if (options_.late_max_ns > 0) check_late_loops();
  heal();
  // With writes going on.
  wait(
      kHealingMax_ns, [this] { return settled(); }, "duplex");
  check_links_return();
  check_parting();
  session_watched_ = false;
  if (options_.quick_return) quick_return();
  if (options_.demotion_in_resync) demotion_in_resync();
  if (options_.silence_in_steps) silence_in_steps();
  if (options_.fraying_links) fraying_links();
  if (options_.promotions) promotions();
  if (options_.goes_on) goes_on_beside_a_slow_peer();
  if (options_.word_and_kill) killed_when_promoted_by_word();
  if (options_.full_source) full_source();
  if (options_.both_full) both_full();
  if (options_.unreadable_source) unreadable_source();
  if (options_.failed_flushes) failed_flushes();
  if (options_.failed_demotion) failed_demotion();
  if (options_.old_disk) old_disk();
  if (options_.slow_disk) slow_disk();
  if (options_.split_brains) split_brain();
  if (options_.orders) orders();
  if (options_.corruption) verification();
  quiesce();
  check_latency();
  check_identical("at the end");
  if (random_.chance(0.3)) power_failure();
  if (check_random_.chance(0.15)) joint_power_cut();
  workload().read_all();
  wait(
      kAnswerMax_ns, [this] { return workload().idle(); }, "a read of the whole volume");
}

void World::begin() {
  for (const auto& each : nodes_) each->start();
  node(0).engine().orders().init(false, false, [&](const Result<std::string>& result) {
    if (!result) Report::violation("init: " + result.error().what);
    initialised_ = true;
  });
  wait(
      kHealingMax_ns, [&] { return initialised_; }, "init");
  current_[0] = true;
  operator_turn();
  wait(
      kHealingMax_ns, [&] { return primary_ == 0; }, "the first promotion");
  check_turn();
}

// No more requests, and the answers to all.
void World::quiesce() {
  workload().stop();
  wait(
      kAnswerMax_ns, [this] { return workload().idle(); }, "answers to all requests");
  wait(
      kHealingMax_ns, [this] { return both_duplex(); }, "duplex without writes");
}

void World::wait_for_two_secondaries() {
  wait(
      kHealingMax_ns,
      [this] {
        return std::all_of(nodes_.begin(), nodes_.end(), [](const auto& each) {
          return each->running() && each->engine().volume_state() == VolumeState::kConnected;
        });
      },
      "a session of two secondaries");
}

// Of both nodes at once, while clients write: the one that was primary is the source (design,
// section 6), as what was acknowledged and not flushed may be on its disk only.
void World::joint_power_cut() {
  const int last = primary_;
  const uint64_t writes = workload().writes_total();
  workload().go_on();
  wait(
      kHealingMax_ns, [&] { return workload().writes_total() > writes + 5; }, "writes");
  operator_rests_ = true;
  for (const int host : {last, 1 - last}) cut_power(host);
  const auto left = node(last).data().contents();
  const std::vector<std::byte> before(left.begin(), left.end());
  for (int host = 0; host < 2; ++host) restart(host);
  wait_for_two_secondaries();
  check_identical("after a power cut of both");
  if (!std::ranges::equal(node(last).data().contents(), before))
    Report::violation("both lost power, and " + node(last).name() +
                      ", which was primary, was not the source" + describe());
  operator_rests_ = false;
  wait(
      kHealingMax_ns, [this] { return settled(); }, "duplex after a power cut");
  quiesce();
}

// Of both nodes at once, of what is flushed.
void World::power_failure() {
  workload().flush_all();
  wait(
      kAnswerMax_ns, [this] { return workload().idle(); }, "a flush");
  for (int host = 0; host < 2; ++host) power_off(host);
  for (int host = 0; host < 2; ++host) restart(host);
  wait(
      kHealingMax_ns, [this] { return settled(); }, "duplex after a power failure");
  quiesce();
  check_identical("after a power failure of both");
}

}  // namespace twinblock::sim
