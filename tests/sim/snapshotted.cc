#include "snapshotted.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "pair_config.h"
#include "report.h"

namespace twinblock::sim {
namespace {

constexpr uint64_t kVolumeBytes = 256 * kKiB;
constexpr size_t kBlocks = kVolumeBytes / limits::kBlockBytes;
constexpr int kSteps = 30;
constexpr size_t kDepth = 8;
constexpr uint64_t kHealing_ns = 60 * kSecond_ns;
// The longest that a write may wait: a hold, and then a peer that is lost, or a disk that hangs.
constexpr uint64_t kWait_ns = CopyShelf::kTimeout_ns + 8 * kSecond_ns;

Config make_config(Random&) {
  Config config = quick_pair_config(kVolumeBytes, OnRestart::kResume);
  config.copies.timeout_ns = CopyShelf::kTimeout_ns;
  return config;
}

}  // namespace

Snapshotted::Snapshotted(uint64_t seed)
    : NodePair(seed, make_config), writes_(1), busy_(kBlocks), powered_(random_.chance(0.5)) {
  const double fails = random_.chance(0.6) ? 0 : 0.1;
  make_nodes([fails](SimNode& made) { made.copies().fails = fails; });
}

Snapshotted::~Snapshotted() { end_nodes(); }

void Snapshotted::run() {
  begin();
  run_for(3 * kSecond_ns);
  node(0).engine().orders().promote(false, [](const Result<std::string>&) {});
  run_for(kSecond_ns);
  if (!at_one()) Report::violation("two new nodes are not at one" + describe());
  for (int i = 0; i < kSteps; ++i) step();
  mend();
  const uint64_t end = scheduler_.now_ns() + kHealing_ns;
  while (!at_one() && scheduler_.now_ns() < end) run_for(100 * kMillisecond_ns);
  rests_ = true;
  run_for(10 * kSecond_ns);
  if (!at_one() || !requests_.empty())
    Report::violation("a minute after all was mended the two are not at one" + describe());
  // Whose copies were given up: nothing is left, unless the process that had to do it has ended, or could not.
  if (ends_ > 0) return;
  for (const std::string& name : failed_)
    for (const int host : {0, 1})
      if (const CopyShelf& copies = node(host).copies();
          copies.has_anything_of(name) && !copies.was_told_to_be_left(name))
        Report::violation("something of snapshot " + name + ", which failed, is left on " + node(host).name());
}

void Snapshotted::mend() {
  network_.set_silent({false, false});
  for (const int host : {0, 1}) start(host);
}

void Snapshotted::run_for(uint64_t ns) {
  const uint64_t end = scheduler_.now_ns() + ns;
  while (scheduler_.now_ns() < end) {
    client_turn();
    scheduler_.run_until(std::min(end, scheduler_.now_ns() + random_.spread(20 * kMicrosecond_ns, 2 * kMillisecond_ns)));
    check();
  }
}

// Whoever can't write where the primary was comes again.
void Snapshotted::client_turn() {
  if (!lives(primary_) || !node(primary_).engine().is_primary()) return;
  Engine& engine = node(primary_).engine();
  if (!open_) {
    if (rests_ || !engine.clients().opened()) return;
    open_ = true;
  }
  if (rests_ || requests_.size() >= kDepth) return;
  const size_t block = random_.below(kBlocks);
  if (busy_[block]) return;
  const uint64_t number = writes_.size();
  writes_.push_back({block, scheduler_.now_ns()});
  NumberedWrite& request = *(requests_[number] = std::make_unique<NumberedWrite>());
  request.fill(block, number, node(primary_).clock().now_ns());
  request.client.fua = !powered_ || random_.chance(0.5);
  request.client.done = [this, number](ClientRequest&) { answered(number); };
  busy_[block] = true;
  engine.clients().submit(request.client);
}

void Snapshotted::answered(uint64_t number) {
  const auto at = requests_.find(number);
  const std::unique_ptr<NumberedWrite> request = std::move(at->second);
  requests_.erase(at);
  busy_[writes_[number].block] = false;
  if (request->client.error == 0) writes_[number].acknowledged_ns = scheduler_.now_ns();
}

void Snapshotted::cut_off() {
  open_ = false;
  requests_.clear();
  std::fill(busy_.begin(), busy_.end(), false);
}

void Snapshotted::step() {
  const int host = static_cast<int>(random_.below(2));
  const unsigned what = static_cast<unsigned>(random_.below(12));
  if (what == 0) {
    stop(host);
  } else if (what == 1) {
    network_.set_silent({random_.chance(0.5), random_.chance(0.5)});
  } else if (what == 2) {
    exchange_roles();
  } else {
    if (!at_one()) {
      mend();
      run_for(random_.chance(0.8) ? 3 * kSecond_ns : 300 * kMillisecond_ns);
    }
    order(random_.chance(0.85) ? primary_ : 1 - primary_);
    if (random_.chance(0.1)) order(host);
    if (random_.chance(0.3)) {
      run_for(random_.spread(50 * kMicrosecond_ns, 2 * kSecond_ns));
      if (random_.chance(0.5))
        stop(random_.chance(0.5) ? primary_ : 1 - primary_);
      else
        network_.set_silent({random_.chance(0.5), random_.chance(0.5)});
    }
  }
  run_for(random_.chance(0.6) ? random_.spread(100 * kMicrosecond_ns, 100 * kMillisecond_ns)
                              : random_.spread(100 * kMillisecond_ns, 6 * kSecond_ns));
}

void Snapshotted::order(int host) {
  if (!lives(host)) return;
  // Now and then one that is there already.
  const std::string name = "s" + std::to_string(random_.chance(0.9) ? ++names_ : names_);
  node(host).engine().orders().snapshot(
      name, [this, host, name, order_ns = scheduler_.now_ns()](const Result<Snapshots::Taken>& taken) {
        ordered(host, name, order_ns, taken);
      });
}

void Snapshotted::ordered(int host, const std::string& name, uint64_t order_ns,
                          const Result<Snapshots::Taken>& taken) {
  if (Report::verbose())
    Report::trace("operator", node(host).name() + ": snapshot " + name + ": " +
                                  (taken ? taken.value().said : taken.error().what));
  if (!taken) {
    // Who was told to look for the peer's copy knows that it may be there.
    const bool told = taken.error().action.find("may have kept its copy") != std::string::npos;
    if (taken.error().code != EBUSY && !told && !node(0).copies().snapshots().contains(name)) failed_.push_back(name);
    return;
  }
  ++taken_;
  std::erase(failed_, name);  // ordered anew
  if (taken.value().pause_ns > CopyShelf::kTimeout_ns)
    Report::violation("writes waited for longer than a snapshot may hold them" + describe());
  check_copy(name, order_ns);
}

void Snapshotted::check_copy(const std::string& name, uint64_t order_ns) {
  const auto& mine = node(0).copies().snapshots();
  const auto& theirs = node(1).copies().snapshots();
  if (!mine.contains(name) || !theirs.contains(name))
    Report::violation("snapshot " + name + " was told, and is not on both hosts" + describe());
  const CopyShelf::Bytes& copy = mine.at(name);
  uint64_t last_ns = order_ns;  // when the last of what it holds began
  for (size_t block = 0; block < kBlocks; ++block) {
    const uint64_t number = number_in(copy, block);
    if (number >= writes_.size() || (number != 0 && writes_[number].block != block))
      Report::violation("block " + std::to_string(block) + " of snapshot " + name + " is nobody's" + describe());
    last_ns = std::max(last_ns, writes_[number].began_ns);
  }
  for (uint64_t number = 1; number < writes_.size(); ++number) {
    const Write& write = writes_[number];
    if (write.acknowledged_ns != 0 && write.acknowledged_ns < last_ns && number_in(copy, write.block) < number)
      Report::violation("snapshot " + name + " lacks write " + std::to_string(number) + " of block " +
                        std::to_string(write.block) + ", which was acknowledged before " +
                        (last_ns == order_ns ? "the order" : "something in it began") + describe());
  }
  const CopyShelf::Bytes& other = theirs.at(name);
  for (size_t block = 0; block < kBlocks; ++block)
    if (std::memcmp(copy.data() + block * limits::kBlockBytes, other.data() + block * limits::kBlockBytes,
                    limits::kBlockBytes) != 0)
      Report::violation("block " + std::to_string(block) + " of snapshot " + name + " is of write " +
                        std::to_string(number_in(copy, block)) + " at alpha, of write " +
                        std::to_string(number_in(other, block)) + " at beta" + describe());
}

void Snapshotted::stop(int host) {
  if (!lives(host)) return;
  ++ends_;
  if (!powered_ && random_.chance(0.5))
    node(host).power_off();
  else
    node(host).kill();
  if (host == primary_) cut_off();
  if (random_.chance(0.6)) {
    run_for(random_.spread(10 * kMillisecond_ns, 3 * kSecond_ns));
    start(host);
  }
}

// In order, and while the two are one. Snapshots are ordered in between, too.
void Snapshotted::exchange_roles() {
  if (!at_one() || !node(primary_).engine().is_primary()) return;
  rests_ = true;
  run_for(3 * kSecond_ns);
  rests_ = false;
  if (!at_one() || !requests_.empty() || !node(primary_).engine().is_primary()) return;
  if (std::exchange(open_, false)) node(primary_).engine().clients().closed();
  bool demoted = false;
  if (random_.chance(0.3)) order(primary_);
  node(primary_).engine().orders().demote([&demoted](const Result<std::string>& said) { demoted = said.ok(); });
  scheduler_.run_until(scheduler_.now_ns() + 2 * kSecond_ns, [&demoted] { return demoted; });
  if (!demoted || !at_one()) return;
  if (random_.chance(0.5)) order(random_.chance(0.5) ? 0 : 1);
  if (random_.chance(0.2)) order(random_.chance(0.5) ? 0 : 1);
  const int next = random_.chance(0.7) ? 1 - primary_ : primary_;
  // Refused as long as a snapshot is being taken.
  bool promoted = false;
  for (int tries = 0; tries < 10 && !promoted; ++tries) {
    bool refused = false;
    node(next).engine().orders().promote(false, [&](const Result<std::string>& said) {
      promoted = said.ok();
      refused = !promoted;
    });
    scheduler_.run_until(scheduler_.now_ns() + 5 * kSecond_ns, [&] { return promoted || refused; });
    if (promoted) primary_ = next;
    const uint64_t wait_ns = random_.spread(kMillisecond_ns, 500 * kMillisecond_ns);
    run_for(wait_ns);
  }
}

void Snapshotted::check() {
  for (const int host : {0, 1}) {
    uint64_t& since_ns = held_since_ns_[static_cast<size_t>(host)];
    if (!lives(host) || !node(host).engine().inside().holds_writes()) {
      since_ns = 0;
      continue;
    }
    if (!node(host).engine().inside().session_stands())
      Report::violation("writes wait for a snapshot, and there is no session" + describe());
    if (since_ns == 0) since_ns = scheduler_.now_ns();
    // Timers are a little late.
    if (scheduler_.now_ns() > since_ns + CopyShelf::kTimeout_ns + kMillisecond_ns)
      Report::violation("a snapshot holds writes for longer than the file says" + describe());
  }
  if (requests_.empty()) return;
  const uint64_t oldest_ns = writes_[requests_.begin()->first].began_ns;
  if (scheduler_.now_ns() - oldest_ns > kWait_ns)
    Report::violation("write " + std::to_string(requests_.begin()->first) + " waits for too long" + describe());
}

}  // namespace twinblock::sim
