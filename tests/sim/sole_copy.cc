#include "sole_copy.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "pair_config.h"
#include "report.h"

namespace twinblock::sim {
namespace {

constexpr uint64_t kVolumeBytes = 128 * kKiB;
constexpr size_t kBlocks = kVolumeBytes / limits::kBlockBytes;
constexpr uint64_t kPatience_ns = 60 * kSecond_ns;
constexpr uint64_t kNeverBack_ns = 1000 * kSecond_ns;
// What the nodes, the links and a witness that does not answer take, beside a disk.
constexpr uint64_t kBeside_ns = 4 * kSecond_ns;

Config make_config(Random& random) {
  Config config = quick_pair_config(kVolumeBytes, random.chance(0.7) ? OnRestart::kResume : OnRestart::kSecondary);
  if (random.chance(0.5)) config.witness.kind = WitnessKind::kEtcd;
  return config;
}

}  // namespace

SoleCopy::SoleCopy(uint64_t seed)
    : NodePair(seed, make_config),
      register_(scheduler_, random_.fork()),
      metadata_(std::array{Metadata::kWell, Metadata::kSlow, Metadata::kHangs, Metadata::kFailed,
                           Metadata::kFailsSoon}
                    .at(random_.below(5))),
      witness_is_away_(random_.chance(0.2)),
      // By a copy of the chances: the other runs stay what they were.
      intent_hangs_((metadata_ == Metadata::kWell || metadata_ == Metadata::kFailed) &&
                    Random(random_).fork().chance(0.5)),
      acknowledged_(kBlocks),
      asked_(kBlocks) {
  make_nodes([this](SimNode& made) {
    SimNode::Outside outside;
    outside.witness = [this, host = made.host()](const ProcessPtr& process) {
      return register_.port(host, process);
    };
    made.set_outside(std::move(outside));
  });
}

SoleCopy::~SoleCopy() { end_nodes(); }

void SoleCopy::run() {
  come_to_duplex();
  if (intent_hangs_) leave_an_intent_waiting();
  lose_disk();
  if (intent_hangs_) write(kBlocks - 1);
  const uint64_t shortest_ns = intent_hangs_ ? config_.disk_timeout_ns + kBeside_ns + kSecond_ns : 0;
  write_for(std::max(shortest_ns, random_.spread(kMillisecond_ns, 12 * kSecond_ns)));
  end_both();
  back_alone();
  if (node(0).engine().is_primary()) return;  // nothing was acknowledged that it lacks
  both_are_back();
}

void SoleCopy::come_to_duplex() {
  begin();
  run_for(3 * kSecond_ns);
  node(0).engine().orders().promote(false, [](const Result<std::string>&) {});
  const auto duplex = [this] {
    return node(0).engine().volume_state() == VolumeState::kDuplex &&
           (!witnessed() || (register_.entry() && register_.entry()->generation ==
                                                      node(0).engine().status().mine.generations.current));
  };
  if (!comes_true(kPatience_ns, duplex) || !node(0).engine().clients().opened())
    Report::violation("a primary does not serve" + describe());
  write_for(random_.spread(10 * kMillisecond_ns, 3 * kSecond_ns));
  // What waits for a region's first record waits for the disk: there is none such later.
  for (const size_t block : {size_t{0}, kBlocks - 1}) write(block);
  if (!comes_true(kPatience_ns, [this] { return asked_ == acknowledged_; }))
    Report::violation("writes are not answered" + describe());
}

// The metadata disk has the first block's region in its memory, and does not get on with the flush. The last block's
// region is on record: by a write there the node learns that its other disk fails.
void SoleCopy::leave_an_intent_waiting() {
  const auto none_set = [this] { return node(0).engine().status().intent_bytes == 0; };
  if (!comes_true(kPatience_ns, none_set, kSecond_ns))
    Report::violation("regions that nobody writes stay on record" + describe());
  write(kBlocks - 1);
  if (!comes_true(kPatience_ns, [this] { return asked_ == acknowledged_; }))
    Report::violation("a write is not answered" + describe());
  node(0).metadata().hold_next_flush();
  write(0);
  if (!comes_true(kPatience_ns, [this] { return node(0).metadata().holds_flush(); }))
    Report::violation("a write to a region that was idle is not recorded first" + describe());
}

void SoleCopy::write(size_t block) {
  if (asked_[block] != acknowledged_[block]) return;  // one at a time
  writes_.push_back(std::make_unique<Write>());
  Write& write = *writes_.back();
  write.fill(block, writes_.size(), node(0).clock().now_ns());
  write.began_ns = scheduler_.now_ns();
  asked_[block] = write.number;
  write.client.done = [this, &write](ClientRequest& client) {
    write.answered = true;
    if (client.error != 0)
      Report::violation("a client gets error " + std::to_string(client.error) + describe());
    acknowledged_[write.block] = write.number;
  };
  node(0).engine().clients().submit(write.client);
}

void SoleCopy::write_for(uint64_t ns) {
  const uint64_t end = scheduler_.now_ns() + ns;
  while (scheduler_.now_ns() < end) {
    write(random_.below(kBlocks));
    scheduler_.run_until(std::min(end, scheduler_.now_ns() + random_.spread(kMillisecond_ns, 200 * kMillisecond_ns)));
    check_waits();
  }
}

void SoleCopy::check_waits() {
  for (const auto& write : writes_)
    if (!write->answered && scheduler_.now_ns() - write->began_ns > config_.disk_timeout_ns + kBeside_ns)
      Report::violation("a client waits for a disk that is dead" + describe());
}

void SoleCopy::lose_disk() {
  if (witness_is_away_) register_.reached[0] = false;
  node(0).data().faults.write_error_chance = node(0).data().faults.read_error_chance = 1;
  DiskFaults& faults = node(0).metadata().faults;
  switch (metadata_) {
    case Metadata::kWell:
      break;
    case Metadata::kSlow:
      faults.extra_delay_ns = random_.spread(10 * kMillisecond_ns, 600 * kMillisecond_ns);
      break;
    case Metadata::kHangs:
      faults.hung_until_ns = scheduler_.now_ns() + kNeverBack_ns;
      break;
    case Metadata::kFailed:
      faults.write_error_chance = 1;
      break;
    case Metadata::kFailsSoon:
      scheduler_.after(random_.spread(kMicrosecond_ns, 20 * kMillisecond_ns), node(0).process(),
                       [&faults] { faults.write_error_chance = 1; });
      break;
  }
}

void SoleCopy::end_both() {
  if (random_.chance(0.2))
    node(0).power_off();
  else
    node(0).kill();
  for (auto& write : writes_) write->answered = true;  // nobody will
  if (random_.chance(0.5))
    node(1).kill();
  else
    network_.set_silent({true, true});
}

void SoleCopy::back_alone() {
  node(0).data().faults = node(0).metadata().faults = DiskFaults{};
  register_.reached[0] = true;
  run_for(random_.spread(kMillisecond_ns, 2 * kSecond_ns));
  start(0);
  const uint64_t end = scheduler_.now_ns() + random_.spread(kSecond_ns, 15 * kSecond_ns);
  while (scheduler_.now_ns() < end) {
    node(0).engine().orders().promote(false, [](const Result<std::string>&) {});
    run_for(200 * kMillisecond_ns);
    const auto lacking = node(0).engine().is_primary() ? lacks(0) : std::nullopt;
    if (!lacking || only_the_peer_knows()) continue;
    Report::violation("back alone, " + node(0).name() + " serves block " + std::to_string(*lacking) +
                      " without write " + std::to_string(acknowledged_[*lacking]) + ", which only " +
                      node(1).name() + " holds" + describe());
  }
}

// It may hold what nobody was promised.
std::optional<size_t> SoleCopy::lacks(int host) {
  for (size_t block = 0; block < kBlocks; ++block) {
    const uint64_t number = number_in(node(host).data().contents(), block);
    if (number != acknowledged_[block] && number != asked_[block]) return block;
  }
  return std::nullopt;
}

bool SoleCopy::only_the_peer_knows() {
  const bool recorded = metadata_ == Metadata::kWell || metadata_ == Metadata::kSlow;
  return !recorded && (!witnessed() || witness_is_away_);
}

// Somebody promotes whoever may be.
void SoleCopy::both_are_back() {
  network_.set_silent({false, false});
  start(1);
  const auto duplex = [this] {
    for (const int host : {0, 1})
      if (node(host).engine().volume_state() != VolumeState::kDuplex) return false;
    return true;
  };
  // By consent that it had asked for alone, and that came when its peer was just back: as one that goes on before that.
  const auto went_on = [this] {
    return witnessed() && node(0).engine().is_primary() && node(0).engine().volume_state() == VolumeState::kRefused;
  };
  const uint64_t end = scheduler_.now_ns() + kPatience_ns;
  while (!duplex() && !went_on() && scheduler_.now_ns() < end) {
    node(1).engine().orders().promote(false, [](const Result<std::string>&) {});
    run_for(200 * kMillisecond_ns);
  }
  if (!duplex() && !went_on()) Report::violation("two nodes that are back do not come to duplex" + describe());
  for (const int host : went_on() ? std::vector{0} : std::vector{0, 1})
    if (const auto lacking = lacks(host))
      Report::violation(node(host).name() + "'s block " + std::to_string(*lacking) + " is without write " +
                        std::to_string(acknowledged_[*lacking]) + ", which was acknowledged" + describe());
}

}  // namespace twinblock::sim
