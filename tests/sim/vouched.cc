#include "vouched.h"

#include <array>
#include <string>
#include <utility>

#include "pair_config.h"
#include "report.h"

namespace twinblock::sim {
namespace {

constexpr uint64_t kVolumeBytes = 512 * kKiB;
constexpr size_t kBlocks = kVolumeBytes / limits::kBlockBytes;
constexpr uint64_t kPatience_ns = 60 * kSecond_ns;
// In which a node that can reach its witness has told it.
constexpr uint64_t kTold_ns = 30 * kSecond_ns;

Config make_config(Random& random) {
  Config config =
      quick_pair_config(kVolumeBytes, random.chance(0.5) ? OnRestart::kResume : OnRestart::kSecondary);
  config.witness.kind = WitnessKind::kEtcd;
  return config;
}

}  // namespace

Vouched::Vouched(uint64_t seed) : NodePair(seed, make_config), register_(scheduler_, random_.fork()) {
  make_nodes([this](SimNode& made) {
    SimNode::Outside outside;
    outside.witness = [this, host = made.host()](const ProcessPtr& process) { return register_.port(host, process); };
    made.set_outside(std::move(outside));
  });
}

Vouched::~Vouched() { end_nodes(); }

void Vouched::run() {
  begin_together();
  lose_the_peer();
  give_the_word();
  for (uint64_t steps = random_.between(1, 4); steps > 0; --steps) {
    if (random_.chance(0.3)) see_the_peer();
    if (random_.chance(0.7)) end_and_begin();
    if (random_.chance(0.3)) give_the_word();
    run_for(random_.spread(kMillisecond_ns, 10 * kSecond_ns));
  }
  come_apart();
  network_.set_silent({false, false});
  if (!comes_true(2 * kPatience_ns, [this] { return at_one() && (is_primary(0) || is_primary(1)); }))
    Report::violation("when all was mended, the two did not come together by themselves" + describe());
}

void Vouched::write(int host) {
  const uint64_t number = writes_.size() + 1;
  writes_.push_back(std::make_unique<NumberedWrite>());
  NumberedWrite& write = *writes_.back();
  write.fill(number % kBlocks, number, node(host).clock().now_ns());
  write.client.done = [this, host](ClientRequest& done) {
    if (done.error == 0) ++acknowledged_[static_cast<size_t>(host)];
  };
  node(host).engine().clients().submit(write.client);
}

void Vouched::promoter_turn(int host) {
  scheduler_.after(random_.spread(100 * kMillisecond_ns, kSecond_ns), node(host).process(), [this, host] {
    promoter_turn(host);
    const StatusView view = node(host).engine().status();
    if (view.role != Role::kSecondary || view.peer.role == PeerRole::kPrimary) return;
    node(host).engine().orders().promote({}, [](const Result<std::string>&) {});
  });
}

void Vouched::begin_together() {
  begin();
  run_for(3 * kSecond_ns);
  node(0).engine().orders().promote({}, [](const Result<std::string>&) {});
  const auto settled = [this] {
    return is_primary(0) && at_one() && register_.entry() && register_.entry()->holder.empty();
  };
  if (!comes_true(kPatience_ns, settled)) Report::violation("a primary and its peer do not come together" + describe());
}

// The witness first, so that it knows nothing of that.
void Vouched::lose_the_peer() {
  register_.up = false;
  run_for(random_.spread(kMillisecond_ns, 3 * kSecond_ns));
  node(1).kill();
  run_for(random_.spread(kMillisecond_ns, 3 * kSecond_ns));
}

// Until a write is acknowledged, if the witness is not asked meanwhile.
void Vouched::give_the_word() {
  if (lives(1)) return;
  if (Report::verbose()) Report::trace("operator", "vouches");
  const uint64_t before = acknowledged_[0];
  const auto goes_on = [&] { return acknowledged_[0] > before; };
  for (int times = 0; times < 20 && !goes_on(); ++times) {
    if (is_primary(0)) {
      write(0);
      node(0).engine().orders().go_on_alone(true, [](const Result<std::string>&) {});
    } else {
      node(0).engine().orders().promote({true, true}, [](const Result<std::string>&) {});
    }
    (void)comes_true(kSecond_ns, goes_on);
  }
  if (!goes_on()) Report::violation("a node does not go on by the operator's word" + describe());
}

void Vouched::end_and_begin() {
  if (Report::verbose()) Report::trace("alpha", "-- is killed, and begins anew");
  node(0).kill();
  run_for(random_.spread(kMillisecond_ns, kSecond_ns));
  start(0);
}

// Its process is there for a moment, and lost again, before it has everything or after.
void Vouched::see_the_peer() {
  start(1);
  run_for(random_.spread(kMillisecond_ns, 5 * kSecond_ns));
  node(1).kill();
}

// Each for itself, and the witness is there: who has what was acknowledged goes on, and the other one does not.
void Vouched::come_apart() {
  network_.set_silent({true, true});
  promoter_turn(0);
  register_.up = true;
  run_for(kTold_ns);
  start(1);
  promoter_turn(1);
  if (!comes_true(kPatience_ns, [this] { return is_primary(0) || is_primary(1); }))
    Report::violation("nobody goes on, though the witness is there" + describe());
  run_for(kTold_ns);
  const std::array<uint64_t, 2> before = acknowledged_;
  for (const int host : {0, 1})
    if (is_primary(host)) write(host);
  run_for(3 * kSecond_ns);
  const auto serves = [&](size_t host) { return acknowledged_[host] > before[host]; };
  if (serves(0) && serves(1)) Report::violation("both go on" + describe());
  for (const int host : {0, 1})
    if (serves(static_cast<size_t>(host)) &&
        (!register_.entry() ||
         register_.entry()->generation != node(host).engine().status().mine.generations.current))
      Report::violation(node(host).name() + " goes on in a generation that the witness does not name" + describe());
}

}  // namespace twinblock::sim
