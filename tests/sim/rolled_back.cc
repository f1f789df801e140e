#include "rolled_back.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "control/status_words.h"
#include "pair_config.h"
#include "report.h"

namespace twinblock::sim {
namespace {

constexpr uint64_t kVolumeBytes = 512 * kKiB;
constexpr int kRounds = 4;
constexpr size_t kDepth = 6;
constexpr uint64_t kPatience_ns = 120 * kSecond_ns;
constexpr uint64_t kTurnsOfALook = 50;
// A copy, and all that may go wrong with it.
constexpr uint64_t kCopyPatience_ns = 4 * CopyShelf::kTimeout_ns + 20 * kSecond_ns;

Config make_config(Random& random) {
  Config config = quick_pair_config(kVolumeBytes, OnRestart::kSecondary);
  config.copies.before_resync.reflink = true;
  config.copies.timeout_ns = CopyShelf::kTimeout_ns;
  config.on_no_way_back = random.chance(0.5) ? OnNoWayBack::kWait : OnNoWayBack::kGoOn;
  if (random.chance(0.4)) config.cache_bytes = 256 * kKiB;
  return config;
}

}  // namespace

RolledBack::RolledBack(uint64_t seed)
    : NodePair(seed, make_config),
      blocks_(kVolumeBytes / limits::kBlockBytes),
      fails_(random_.chance(0.3) ? 0 : 0.5 * random_.unit()) {
  make_nodes([this](SimNode& made) { made.copies().can_keep_a_way_back = random_.chance(0.95); });
}

RolledBack::~RolledBack() { end_nodes(); }

void RolledBack::run() {
  begin();
  run_for(3 * kSecond_ns);
  (void)promote(0, false);
  come_together();
  for (int i = 0; i < kRounds; ++i) round();
}

// --- clients

void RolledBack::run_for(uint64_t ns) {
  const uint64_t end = scheduler_.now_ns() + ns;
  while (scheduler_.now_ns() < end) {
    client_turn();
    scheduler_.run_until(std::min(end, scheduler_.now_ns() + 2 * kMillisecond_ns));
    if (++turns_ % kTurnsOfALook == 0) look_whether_anybody_waits();
  }
}

void RolledBack::look_whether_anybody_waits() {
  for (const int host : {0, 1}) {
    uint64_t& since_ns = taking_since_ns_[static_cast<size_t>(host)];
    if (!lives(host) || !status(host).way_back.taking)
      since_ns = 0;
    else if (since_ns == 0)
      since_ns = scheduler_.now_ns();
    else if (scheduler_.now_ns() - since_ns > kCopyPatience_ns)
      Report::violation("a resync waits for its copy without an end" + describe());
  }
}

bool RolledBack::wait_for(const std::function<bool()>& what, uint64_t ns) {
  const uint64_t end = scheduler_.now_ns() + ns;
  while (!what() && scheduler_.now_ns() < end) run_for(20 * kMillisecond_ns);
  return what();
}

void RolledBack::client_turn() {
  if (!serves(primary_)) return;
  Engine& engine = node(primary_).engine();
  if (!open_) {
    if (rests_ || !engine.clients().opened()) return;
    open_ = true;
  }
  if (rests_ || requests_.size() >= kDepth || random_.chance(0.7)) return;
  const uint64_t block = random_.below(blocks_.size());
  if (blocks_[block].under_way) return;
  const uint64_t id = ++ids_;
  NumberedWrite& request = *(requests_[id] = std::make_unique<NumberedWrite>());
  request.fill(block, ++writes_, node(primary_).clock().now_ns());
  request.client.fua = random_.chance(0.5);
  request.client.done = [this, id](ClientRequest&) { answered(id); };
  blocks_[block].under_way = true;
  blocks_[block].may_be.insert(request.number);
  engine.clients().submit(request.client);
}

void RolledBack::answered(uint64_t id) {
  const auto at = requests_.find(id);
  const std::unique_ptr<NumberedWrite> request = std::move(at->second);
  requests_.erase(at);
  Block& block = blocks_[request->block];
  block.under_way = false;
  // What was acknowledged and not flushed a loss of power may take back.
  if (request->client.error != 0 || !request->client.fua) return;
  block.promised = request->number;
  block.may_be.erase(block.may_be.begin(), block.may_be.upper_bound(request->number));
}

void RolledBack::leave_export(bool dies) {
  if (dies) {
    for (const auto& [id, request] : requests_) blocks_[request->block].under_way = false;
    requests_.clear();
  }
  if (std::exchange(open_, false) && !dies) node(primary_).engine().clients().closed();
}

// --- hosts

void RolledBack::stop(int host, bool power) {
  if (!lives(host)) return;
  if (power)
    node(host).power_off();
  else
    node(host).kill();
  if (host == primary_) leave_export(true);
}

bool RolledBack::promote(int host, bool peer_is_dead) {
  if (!lives(host)) return false;
  std::optional<bool> promoted;
  node(host).engine().orders().promote({peer_is_dead, false},
                                       [&promoted](const Result<std::string>& said) { promoted = said.ok(); });
  scheduler_.run_until(scheduler_.now_ns() + 10 * kSecond_ns, [&promoted] { return promoted.has_value(); });
  if (!promoted) Report::violation("a promotion was not answered" + describe());
  if (*promoted) primary_ = host;
  return *promoted;
}

bool RolledBack::demote(int host) {
  if (!serves(host)) return lives(host);
  rests_ = true;
  wait_for([this] { return requests_.empty(); }, 20 * kSecond_ns);
  if (host == primary_) leave_export(false);
  std::optional<bool> demoted;
  node(host).engine().orders().demote([&demoted](const Result<std::string>& said) { demoted = said.ok(); });
  scheduler_.run_until(scheduler_.now_ns() + 10 * kSecond_ns, [&demoted] { return demoted.has_value(); });
  return demoted.value_or(false);
}

// --- a round

void RolledBack::round() {
  source_ = primary_;
  target_ = 1 - source_;
  for (const int host : {0, 1}) node(host).copies().fails = fails_;
  part();
  meet();
  lose_source();
  if (random_.chance(0.85) && roll_back()) {
    check_rolled_back();
    go_on();
    resolve();
  }
  come_together();
}

// The target is away, and the source goes on, or nobody writes meanwhile.
void RolledBack::part() {
  rests_ = random_.chance(0.2);
  const bool power = random_.chance(0.4);
  if (random_.chance(0.5))
    stop(target_, power);
  else
    network_.set_silent({true, true});
  run_for(random_.chance(0.2) ? random_.spread(kMillisecond_ns, kSecond_ns)
                              : random_.spread(2 * kSecond_ns, 8 * kSecond_ns));
  // Both have noticed, and nothing of the last session lands any more.
  rests_ = rests_ || random_.chance(0.3);
  run_for(3 * kSecond_ns);
  start(target_);
}

// It is back. Until it is half-copied it is what it is now.
void RolledBack::meet() {
  before_ = contents(target_);
  const uint64_t rate = random_.spread(32 * kKiB, 4 * kMiB);
  node(source_).engine().orders().set_resync_pace(ResyncPace::kRate, rate, [](const Result<std::string>&) {});
  network_.set_silent({false, false});
  rests_ = random_.chance(0.3);
}

void RolledBack::lose_source() {
  while (random_.chance(0.4)) {  // it is cut off, and goes on
    (void)wait_for([this] { return half_copied(target_); }, 3 * kSecond_ns);
    run_for(random_.spread(kMillisecond_ns, 2 * kSecond_ns));
    network_.set_silent({true, true});
    run_for(3 * kSecond_ns);
    if (!half_copied(target_)) before_ = contents(target_);
    network_.set_silent({false, false});
  }
  if (random_.chance(0.8)) (void)wait_for([this] { return half_copied(target_); }, 8 * kSecond_ns);
  run_for(random_.spread(100 * kMicrosecond_ns, 4 * kSecond_ns));
  if (random_.chance(0.25)) {
    network_.set_silent({true, true});
    return;
  }
  stop(source_, random_.chance(0.5));
  if (random_.chance(0.2)) stop(target_, random_.chance(0.5));
}

bool RolledBack::half_copied(int host) {
  return lives(host) && status(host).data == DataState::kInconsistent;
}

// Ordered until it has succeeded, or there is nothing (more) to roll back.
bool RolledBack::roll_back() {
  if (lives(source_)) {  // it is cut off, and serves
    rests_ = true;
    if (!wait_for([this] { return requests_.empty(); }, 20 * kSecond_ns))
      Report::violation("a client of the source waits without an end" + describe());
    leave_export(false);
  }
  const bool source_returns = random_.chance(0.15);
  bool ordered = false;
  const uint64_t end = scheduler_.now_ns() + kPatience_ns;
  while (scheduler_.now_ns() < end) {
    start(target_);
    if (random_.chance(0.2)) run_for(random_.spread(kMillisecond_ns, 2 * kSecond_ns));
    const StatusView now = status(target_);
    // One that died with the order may have carried it out, all but the answer.
    if (now.data != DataState::kInconsistent) return ordered && now.all_dirty;
    if (!now.way_back.kept) return false;
    ordered = true;
    std::optional<bool> done;
    const auto kept = std::make_shared<std::optional<bool>*>(&done);
    node(target_).engine().orders().roll_back([kept](const Result<std::string>& said) {
      if (Report::verbose())
        Report::trace("operator", "rollback: " + (said ? said.value() : said.error().what));
      if (*kept != nullptr) **kept = said.ok();
    });
    if (random_.chance(0.25) && !done) {
      run_for(random_.spread(100 * kMicrosecond_ns, 500 * kMillisecond_ns));
      if (!done) {
        stop(target_, random_.chance(0.5));
        *kept = nullptr;
        // Nobody gives the order again: the source is back, and finishes the copy.
        if (random_.chance(0.3)) {
          start(target_);
          return status(target_).data != DataState::kInconsistent;
        }
      }
    } else if (source_returns && !done) {
      run_for(random_.spread(kMillisecond_ns, kSecond_ns));
      network_.set_silent({false, false});
      start(source_);
    }
    if (lives(target_)) (void)wait_for([&done] { return done.has_value(); }, kCopyPatience_ns);
    *kept = nullptr;
    if (!done && lives(target_)) Report::violation("a rollback was not answered" + describe());
    if (done.value_or(false)) return true;
    run_for(300 * kMillisecond_ns);
  }
  Report::violation("no rollback succeeds" + describe());
  return false;
}

// What it is now is what clients of it may read.
void RolledBack::check_rolled_back() {
  const Image now = contents(target_);
  for (size_t block = 0; block < blocks_.size(); ++block) {
    const size_t at = block * limits::kBlockBytes;
    if (std::memcmp(now.data() + at, before_.data() + at, limits::kBlockBytes) == 0) continue;
    Report::violation("after the rollback block " + std::to_string(block) + " is of write " +
                      std::to_string(number_in(now, block)) + ", and before the resync it was of write " +
                      std::to_string(number_in(before_, block)) + describe());
  }
  other_ = blocks_;
  for (size_t block = 0; block < blocks_.size(); ++block)
    blocks_[block] = {number_in(now, block), {}, false};
}

// With what came back, or without using it.
void RolledBack::go_on() {
  if (!status(target_).peer.connected && promote(target_, false))
    Report::violation("a node that was rolled back is promoted without a word" + describe());
  if (random_.chance(0.3)) {
    stop(target_, random_.chance(0.5));
    run_for(random_.spread(100 * kMillisecond_ns, kSecond_ns));
    start(target_);
  }
  if (random_.chance(0.7) && !promote(target_, true))
    Report::violation("a node that was rolled back is not promoted by the operator's word" + describe());
  rests_ = primary_ != target_ || random_.chance(0.2);
  run_for(random_.spread(10 * kMillisecond_ns, 4 * kSecond_ns));
  if (random_.chance(0.2)) {
    stop(target_, random_.chance(0.5));
    start(target_);
  }
}

// The source is back: each holds what the other one lacks.
void RolledBack::resolve() {
  rests_ = true;
  network_.set_silent({false, false});
  for (const int host : {0, 1}) start(host);
  run_for(5 * kSecond_ns);
  for (const int host : {0, 1})
    if (status(host).peer.connected)
      Report::violation("after a rollback the two are together without an order" + describe());
  const int winner = random_.chance(0.5) ? source_ : target_;
  if (winner == source_) blocks_ = *other_;
  other_.reset();
  for (const int host : {0, 1}) node(host).copies().fails = random_.chance(0.5) ? 0 : fails_;
  const uint64_t end = scheduler_.now_ns() + kPatience_ns;
  bool disturbed = random_.chance(0.6);
  while (!at_one() && scheduler_.now_ns() < end) {
    for (const int host : {0, 1}) start(host);
    // A resync that waits for a copy waits for ever where none can be taken: in the end they can.
    if (scheduler_.now_ns() > end - kPatience_ns / 2)
      for (const int host : {0, 1}) node(host).copies().fails = 0;
    if (!status(winner).peer.connected && !half_copied(1 - winner) && demote(1 - winner)) {
      const int giver = random_.chance(0.5) ? winner : 1 - winner;
      node(giver).engine().orders().resolve(giver == winner, false, [](const Result<std::string>&) {});
    }
    run_for(random_.spread(kMillisecond_ns, 3 * kSecond_ns));
    if (!disturbed) {
      disturbed = true;
      stop(random_.chance(0.5) ? winner : 1 - winner, random_.chance(0.5));
    }
  }
  if (!at_one()) Report::violation("a split brain that was resolved does not end" + describe());
  primary_ = winner;
}

// All is mended. Whoever was the source, or has won, is brought together with the other one.
void RolledBack::come_together() {
  rests_ = true;
  network_.set_silent({false, false});
  for (const int host : {0, 1}) {
    start(host);
    node(host).copies().fails = 0;
    node(host).engine().orders().set_resync_pace(ResyncPace::kAuto, 0, [](const Result<std::string>&) {});
  }
  if (!wait_for([this] { return at_one(); }, kPatience_ns))
    Report::violation("two minutes after all was mended the two are not at one" + describe());
  wait_for([this] { return requests_.empty(); }, 10 * kSecond_ns);
  check_equal();
  for (const int host : {0, 1})
    if (status(host).way_back.kept || status(host).way_back.taking)
      Report::violation("a replica that is whole has a way back" + describe());
  if (!serves(0) && !serves(1) && !promote(primary_, false))
    Report::violation("one of two that are whole is not promoted" + describe());
  primary_ = serves(0) ? 0 : 1;
  rests_ = false;
  run_for(random_.spread(100 * kMillisecond_ns, 3 * kSecond_ns));
  if (!at_one()) Report::violation("the two do not stay together" + describe());
}

// --- what is looked at

RolledBack::Image RolledBack::contents(int host) {
  const auto& bytes = node(host).data().contents();
  return {bytes.begin(), bytes.begin() + kVolumeBytes};
}

void RolledBack::check_equal() {
  const Image mine = contents(0), theirs = contents(1);
  for (size_t block = 0; block < blocks_.size(); ++block) {
    Block& is = blocks_[block];
    const uint64_t number = number_in(mine, block);
    const size_t at = block * limits::kBlockBytes;
    if (std::memcmp(mine.data() + at, theirs.data() + at, limits::kBlockBytes) != 0)
      Report::violation("the two say that they are the same, but block " + std::to_string(block) + " is of write " +
                        std::to_string(number) + " at alpha, of write " + std::to_string(number_in(theirs, block)) +
                        " at beta" + describe());
    if (number != is.promised && is.may_be.count(number) == 0)
      Report::violation("block " + std::to_string(block) + " is of write " + std::to_string(number) + ", and write " +
                        std::to_string(is.promised) + " was promised" + describe());
  }
}

}  // namespace twinblock::sim
