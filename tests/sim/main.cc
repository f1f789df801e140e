// twinblock_sim: runs two unmodified engines in a virtual world, one seed after the other.
#include <malloc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <new>
#include <string>
#include <vector>

#include "base/steps.h"
#include "base/strict_checks.h"
#include "confirmed.h"
#include "far_apart.h"
#include "grown.h"
#include "lineage.h"
#include "rolled_back.h"
#include "snapshotted.h"
#include "sole_copy.h"
#include "unread.h"
#include "vouched.h"
#include "witnessed.h"
#include "report.h"
#include "sim_node.h"
#include "world.h"

namespace {

using twinblock::sim::Report;

struct Arguments {
  uint64_t seeds = 100;
  uint64_t first = 1;
  uint64_t seed = 0;
  unsigned jobs = 1;
  bool verbose = false;
  bool soak = false;
  bool all_steps = false;
  std::string mode = "mixed";
  std::string program;
};

// What the jobs share.
struct Shared {
  std::atomic<uint64_t> next{0};  // the seed that nobody has begun yet, counted from the first
  std::atomic<uint64_t> trajectory{0};
  std::array<std::atomic<uint16_t>, twinblock::kPhases> phases{};  // SimNode::phases_seen()
  std::array<std::atomic<uint16_t>, twinblock::kChannelPhases> channel_phases{};  // … channel_phases_seen()
};

uint64_t run_seed(const Arguments& arguments, uint64_t seed, Shared& shared) {
  const auto ended = [&shared, seed](const twinblock::sim::Scheduler& scheduler) {
    // Whatever order the seeds end in.
    shared.trajectory.fetch_add(scheduler.trajectory() * (2 * seed + 1));
    return scheduler.events_total();
  };
  twinblock::sim::Random random(seed);
  twinblock::sim::Options options;
  if (!make_options(arguments.mode, random, options)) return 0;
  Report::begin_run(
      arguments.program + " --seed " + std::to_string(seed) + " --mode " + arguments.mode,
      arguments.verbose);
  const auto run = [&ended](auto&& world) {
    world.run();
    return ended(world.scheduler());
  };
  if (options.lineage) return run(twinblock::sim::Lineage(random.next()));
  if (options.witness) return run(twinblock::sim::Witnessed(random.next()));
  if (options.grow) return run(twinblock::sim::Grown(random.next()));
  if (options.rollback) return run(twinblock::sim::RolledBack(random.next()));
  if (options.snapshot) return run(twinblock::sim::Snapshotted(random.next()));
  if (options.unread) return run(twinblock::sim::Unread(random.next()));
  if (options.sole) return run(twinblock::sim::SoleCopy(random.next()));
  if (options.confirmed) return run(twinblock::sim::Confirmed(random.next()));
  if (options.vouched) return run(twinblock::sim::Vouched(random.next()));
  if (options.far) return run(twinblock::sim::FarApart(random.next()));
  return run(twinblock::sim::World(random.next(), options));
}

// The jobs draw the seeds from one row, so that one that gets little processor does not keep the
// others waiting.
int run_share(const Arguments& arguments, unsigned job, Shared& shared) {
  uint64_t events = 0;
  const auto began = std::chrono::steady_clock::now();
  const auto seconds = [&began] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  double told = 0;
  uint64_t runs = 0;
  for (uint64_t i; (i = shared.next.fetch_add(1)) < arguments.seeds || arguments.soak; ++runs) {
    events += run_seed(arguments, arguments.first + i, shared);
    if (!arguments.soak || job != 0 || seconds() < told + 10) continue;
    told = seconds();
    std::printf("%8.0f s: about %llu seeds from %llu on, no violation\n", told,
                static_cast<unsigned long long>(i + 1),
                static_cast<unsigned long long>(arguments.first));
    std::fflush(stdout);
  }
  std::printf("job %u: %llu seeds, no violation, %.1f million events in %.1f s\n", job,
              static_cast<unsigned long long>(runs), static_cast<double>(events) / 1e6, seconds());
  for (size_t from = 0; from < shared.phases.size(); ++from)
    shared.phases[from] |= twinblock::sim::SimNode::phases_seen()[from];
  for (size_t from = 0; from < shared.channel_phases.size(); ++from)
    shared.channel_phases[from] |= twinblock::sim::SimNode::channel_phases_seen()[from];
  return 0;
}

// For changes that may not change what happens: the same of the same seeds, however many jobs.
void say_trajectory(const Shared& shared) {
  std::printf("trajectory %016llx\n", static_cast<unsigned long long>(shared.trajectory.load()));
}

// A step that none of enough seeds takes is one that the simulator does not test. `counts(from, to)`: of the table's.
// Whether all were taken.
template <typename Phase, typename Seen, typename Counts>
bool say_steps(const char* what, const Seen& seen, const Counts& counts, const char* (*name)(Phase)) {
  unsigned known = 0;
  std::string never;
  for (size_t from = 0; from < seen.size(); ++from)
    for (size_t to = 0; to < seen.size(); ++to) {
      const auto a = static_cast<Phase>(from), b = static_cast<Phase>(to);
      if (!counts(a, b)) continue;
      ++known;
      if ((seen[from] & twinblock::any_of(b)) == 0)
        never += std::string(never.empty() ? "" : ", ") + name(a) + " to " + name(b);
    }
  std::printf("%u steps %s; never taken: %s\n", known, what, never.empty() ? "none" : never.c_str());
  return never.empty();
}

bool say_phases(const Shared& shared) {
  using twinblock::Phase;
  const auto counts = [](Phase from, Phase to) { return from != to && twinblock::may_follow(from, to); };
  return say_steps<Phase>("between phases", shared.phases, counts, twinblock::phase_name);
}

// … but for the end, which may come at any time.
bool say_channel_phases(const Shared& shared) {
  using twinblock::ChannelPhase;
  const auto counts = [](ChannelPhase from, ChannelPhase to) {
    return to != ChannelPhase::kClosed && twinblock::may_follow(from, to);
  };
  return say_steps<ChannelPhase>("of connections", shared.channel_phases, counts, twinblock::channel_phase_name);
}

// What all seeds did together, when none has found anything; the program's exit code.
int conclude(const Arguments& arguments, const Shared& shared) {
  const bool all = say_phases(shared);
  (void)say_channel_phases(shared);
  say_trajectory(shared);
  if (all || !arguments.all_steps) return 0;
  std::fprintf(stderr, "twinblock_sim: steps between phases were never taken; --all-steps forbids that\n");
  return 1;
}

int run_all(const Arguments& arguments) {
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("twinblock_sim: mmap");
    return 1;
  }
  auto& shared = *new (memory) Shared;
  // The first one that finds something ends them all.
  std::vector<pid_t> children;
  for (unsigned job = 0; job < arguments.jobs; ++job) {
    const pid_t child = fork();
    if (child == 0) {
      (void)prctl(PR_SET_PDEATHSIG, SIGKILL);  // it does not go on for nobody
      const int result = run_share(arguments, job, shared);
      std::fflush(stdout);
      _exit(result);
    }
    if (child > 0) children.push_back(child);
  }
  int result = children.size() == arguments.jobs ? 0 : 1;
  for (size_t left = children.size(); left > 0;) {
    int status = 0;
    const pid_t child = wait(&status);
    if (child < 0) return 1;
    --left;
    std::erase(children, child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    if (result == 0)
      for (const pid_t other : children) kill(other, SIGTERM);
    result = 1;
  }
  return result == 0 ? conclude(arguments, shared) : result;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  arguments.program = argv[0];
  CLI::App app("Runs two twinblock engines in a virtual world and checks what they promise.");
  app.add_option("--seeds", arguments.seeds, "how many seeds to run")->capture_default_str();
  app.add_option("--first", arguments.first, "the first of them")->capture_default_str();
  auto* one = app.add_option("--seed", arguments.seed, "run this one only");
  app.add_option("--jobs", arguments.jobs, "processes")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  app.add_option("--mode", arguments.mode, std::string("one of: ") + twinblock::sim::kModes)
      ->capture_default_str();
  auto* soak = app.add_flag("--soak", arguments.soak,
                            "fresh seeds without end, until one finds a violation");
  app.add_flag("--all-steps", arguments.all_steps, "fail where they never take a step that the table of phases has");
  app.add_flag("--verbose", arguments.verbose, "print the trace of events");
  CLI11_PARSE(app, argc, argv);
  twinblock::strict_checks = true;
  // Others than those of the tests, and others each time.
  if (*soak && arguments.first == 1)
    arguments.first = static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch() /
                                            std::chrono::milliseconds(1));
  if (*one) {
    arguments.first = arguments.seed;
    arguments.seeds = 1;
  }
  twinblock::sim::Random probe(1);
  twinblock::sim::Options options;
  if (!make_options(arguments.mode, probe, options)) {
    std::fprintf(stderr, "twinblock_sim: no mode '%s'; there are: %s\n", arguments.mode.c_str(),
                 twinblock::sim::kModes);
    return 2;
  }
  // Images of disks come and go: the memory is kept.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  Report::install_crash_handler();
  if (arguments.jobs > 1) return run_all(arguments);
  Shared shared;
  const int result = run_share(arguments, 0, shared);
  return result == 0 ? conclude(arguments, shared) : result;
}
