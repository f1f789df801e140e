#include "grown.h"

#include <algorithm>
#include <utility>

#include "control/status_words.h"
#include "pair_config.h"
#include "report.h"

namespace twinblock::sim {
namespace {

constexpr uint64_t kFirstBytes = 128 * kKiB;
constexpr uint64_t kBytesMax = 4 * kMiB;
constexpr int kSteps = 30;
// All blocks are looked at once in so many turns.
constexpr uint64_t kTurnsOfALook = 8;
constexpr size_t kDepth = 6;
constexpr uint64_t kHealing_ns = 60 * kSecond_ns;

Config make_config(Random&) { return quick_pair_config(kFirstBytes, OnRestart::kResume); }

}  // namespace

Grown::Grown(uint64_t seed)
    : NodePair(seed, make_config), blocks_(kBytesMax / limits::kBlockBytes), told_bytes_(kFirstBytes) {
  make_nodes();
}

Grown::~Grown() { end_nodes(); }

void Grown::run() {
  begin();
  run_for(3 * kSecond_ns);
  node(0).engine().orders().promote(false, [](const Result<std::string>&) {});
  run_for(kSecond_ns);
  if (!at_one()) Report::violation("two new nodes are not at one" + describe());
  for (int i = 0; i < kSteps; ++i) {
    step();
    run_for(random_.chance(0.6) ? random_.spread(100 * kMicrosecond_ns, 100 * kMillisecond_ns)
                                : random_.spread(100 * kMillisecond_ns, 4 * kSecond_ns));
  }
  // All is mended; a backing that is too small is, too.
  network_.set_silent({false, false});
  mend_disks();
  for (const int host : {0, 1}) {
    start(host);
    enlarge(host, std::max(node(0).data().size_bytes(), node(1).data().size_bytes()));
  }
  const uint64_t end = scheduler_.now_ns() + kHealing_ns;
  while (!at_one() && scheduler_.now_ns() < end) run_for(100 * kMillisecond_ns);
  rests_ = true;
  run_for(5 * kSecond_ns);
  if (!at_one() || !requests_.empty())
    Report::violation("a minute after all was mended the two are not at one" + describe());
  check();
}

void Grown::run_for(uint64_t ns) {
  const uint64_t end = scheduler_.now_ns() + ns;
  while (scheduler_.now_ns() < end) {
    client_turn();
    scheduler_.run_until(std::min(end, scheduler_.now_ns() + 2 * kMillisecond_ns));
    if (++turns_ % kTurnsOfALook == 0) check();
  }
}

// Whoever opens the export sees how large it is now.
void Grown::client_turn() {
  if (!lives(primary_) || !node(primary_).engine().is_primary()) return;
  Engine& engine = node(primary_).engine();
  if (!open_) {
    if (rests_ || !engine.clients().opened()) return;
    open_ = true;
  }
  const uint64_t size = engine.worker_view().volume_bytes();
  told(size);
  if (rests_ || requests_.size() >= kDepth || random_.chance(0.5)) return;
  // What is new is written as soon as it is there.
  const uint64_t count = size / limits::kBlockBytes;
  const uint64_t block = random_.chance(0.5) ? count - 1 - random_.below(std::min<uint64_t>(count, 8))
                                             : random_.below(count);
  if (blocks_[block].under_way) return;
  const uint64_t id = ++ids_;
  NumberedWrite& request = *(requests_[id] = std::make_unique<NumberedWrite>());
  request.fill(block, ++writes_, node(primary_).clock().now_ns());
  request.client.fua = true;
  request.client.done = [this, id](ClientRequest&) { answered(id); };
  blocks_[block].under_way = true;
  blocks_[block].may_be.insert(request.number);
  engine.clients().submit(request.client);
}

void Grown::answered(uint64_t id) {
  const auto at = requests_.find(id);
  const std::unique_ptr<NumberedWrite> request = std::move(at->second);
  requests_.erase(at);
  Block& block = blocks_[request->block];
  block.under_way = false;
  if (request->client.error != 0) return;
  block.promised = request->number;
  block.may_be.erase(block.may_be.begin(), block.may_be.upper_bound(request->number));
  ++acknowledged_;
}

// The process is gone, with whoever was connected.
void Grown::cut_off() {
  open_ = false;
  ++life_;
  for (const auto& [id, request] : requests_) blocks_[request->block].under_way = false;
  requests_.clear();
}

void Grown::step() {
  const int host = static_cast<int>(random_.below(2));
  if (random_.chance(0.4)) mend_disks();
  serve_again();
  switch (random_.below(10)) {
    case 0:
      stop(host);
      break;
    case 1:
      network_.set_silent({random_.chance(0.5), random_.chance(0.5)});
      break;
    case 2:
      exchange_roles();
      break;
    case 3:
    case 4:
    case 5:
      network_.set_silent({false, false});
      for (const int each : {0, 1}) start(each);
      mend_disks();
      run_for(random_.chance(0.7) ? 3 * kSecond_ns : 300 * kMillisecond_ns);
      grow();
      break;
    default:
      grow();
      break;
  }
}

void Grown::grow() {
  const uint64_t now = told_bytes_;
  const uint64_t bytes = std::min(
      kBytesMax, now + limits::kBlockBytes * random_.between(1, random_.chance(0.7) ? 8 : 64));
  if (bytes <= now) return;
  const bool one_only = random_.chance(0.15);
  const int first = static_cast<int>(random_.below(2));
  for (const int host : {first, 1 - first})
    if (!one_only || host == first) enlarge(host, bytes);
  order(random_.chance(0.9) ? primary_ : 1 - primary_, bytes);
  // Sizes that can't be are refused, whatever else goes on.
  if (random_.chance(0.1)) order(primary_, now - limits::kBlockBytes);
  if (random_.chance(0.1)) order(primary_, bytes + 1);
  if (random_.chance(0.1)) order(primary_, kBytesMax + limits::kBlockBytes);
  if (random_.chance(0.05) && failed_ < 0) larger_one_dies(bytes);
  if (random_.chance(0.5)) return;
  run_for(random_.spread(50 * kMicrosecond_ns, 20 * kMillisecond_ns));
  if (random_.chance(0.3))
    fail_a_disk();
  else if (random_.chance(0.7))
    stop(random_.chance(0.5) ? primary_ : 1 - primary_);
  else
    network_.set_silent({random_.chance(0.5), random_.chance(0.5)});
}

// A file gets a hole, a device what was on it before.
void Grown::enlarge(int host, uint64_t bytes) {
  VirtualDisk& disk = node(host).data();
  if (disk.size_bytes() < bytes) disk.enlarge(bytes, random_.chance(0.5) ? std::byte{0xA5} : std::byte{0});
}

void Grown::order(int host, uint64_t bytes) {
  if (!lives(host)) return;
  const uint64_t before = node(host).engine().worker_view().volume_bytes();
  node(host).engine().orders().grow(bytes, [this, host, bytes, before](const Result<std::string>& said) {
    if (Report::verbose())
      Report::trace("operator", node(host).name() + ": grow to " + std::to_string(bytes) + ": " +
                                    (said ? said.value() : said.error().what));
    if (!said) return;
    if (bytes < before || bytes % limits::kBlockBytes != 0 || bytes > node(0).data().size_bytes() ||
        bytes > node(1).data().size_bytes())
      Report::violation("a size was taken that can't be: " + std::to_string(bytes) + describe());
    told(bytes);
    ++grown_;
  });
}

void Grown::told(uint64_t bytes) { told_bytes_ = std::max(told_bytes_, bytes); }

void Grown::stop(int host) {
  if (!lives(host)) return;
  if (random_.chance(0.5))
    node(host).power_off();
  else
    node(host).kill();
  if (host == primary_) cut_off();
  if (random_.chance(0.6)) {
    run_for(random_.spread(10 * kMillisecond_ns, 3 * kSecond_ns));
    start(host);
  }
}

// Of one node at a time: what the other one holds is all that there is then.
void Grown::fail_a_disk() {
  if (failed_ >= 0 || !both_at_one()) return;
  failed_ = static_cast<int>(random_.below(2));
  VirtualDisk& disk = random_.chance(0.5) ? node(failed_).metadata() : node(failed_).data();
  disk.faults.write_error_chance = 1;
  run_for(random_.spread(kMillisecond_ns, 3 * kSecond_ns));
  if (random_.chance(0.5)) lose_the_stand_in();
}

// A primary that goes on with its peer's disk gets that back after a silence, also where its own one failed in the middle
// of a growth.
void Grown::lose_the_stand_in() {
  const auto stood_in_for = [this] {
    return lives(0) && lives(1) && node(primary_).engine().volume_state() == VolumeState::kDiskless;
  };
  if (failed_ != primary_ || !stood_in_for()) return;
  network_.set_silent({true, true});
  run_for(3 * kSecond_ns);
  network_.set_silent({false, false});
  const uint64_t end = scheduler_.now_ns() + kHealing_ns;
  while (!stood_in_for() && scheduler_.now_ns() < end) run_for(100 * kMillisecond_ns);
  if (!stood_in_for())
    Report::violation("a primary whose disk failed does not get its peer's back after a silence" + describe());
}

// The order's node dies before it has recorded what the other one has, and comes back; that one dies then. What is new takes
// long to be made zero: it is not waited for, by a node that may be the only one left.
void Grown::larger_one_dies(uint64_t bytes) {
  const int other = 1 - primary_;
  const auto size_of = [this](int host) { return lives(host) ? node(host).engine().status().size_bytes : 0; };
  scheduler_.run_until(scheduler_.now_ns() + kSecond_ns, [&] { return size_of(other) == bytes; });
  if (!lives(primary_) || size_of(other) != bytes || size_of(primary_) >= bytes) return;
  const uint64_t before = size_of(primary_);
  node(primary_).kill();
  cut_off();
  network_.set_silent({true, true});
  start(primary_);
  run_for(kSecond_ns);
  DiskFaults& faults = node(primary_).data().faults;
  faults.hung_until_ns = scheduler_.now_ns() + 60 * kSecond_ns;
  network_.set_silent({false, false});
  const auto grows = [&] { return lives(primary_) && node(primary_).engine().status().growing_to_bytes != 0; };
  scheduler_.run_until(scheduler_.now_ns() + 5 * kSecond_ns, grows);
  if (grows()) {
    node(other).kill();
    run_for(70 * kSecond_ns);
    if (grows() || size_of(primary_) != before)
      Report::violation("a node grows on for a peer that is gone" + describe());
  }
  faults.hung_until_ns = 0;
  start(other);
}

// Another process finds it as good as new, with what it held.
void Grown::mend_disks() {
  if (failed_ < 0) return;
  const int host = std::exchange(failed_, -1);
  node(host).metadata().faults.write_error_chance = node(host).data().faults.write_error_chance = 0;
  if (!lives(host)) return;
  node(host).kill();
  if (host == primary_) cut_off();
  start(host);
}

// A primary whose disk had failed comes back as secondary.
void Grown::serve_again() {
  if (!at_one() || node(0).engine().is_primary() || node(1).engine().is_primary()) return;
  node(primary_).engine().orders().promote(false, [](const Result<std::string>&) {});
  run_for(kSecond_ns);
}

// In order, and while the two are one: anybody else who is promoted would lack what was promised.
void Grown::exchange_roles() {
  if (!at_one() || !node(primary_).engine().is_primary()) return;
  rests_ = true;
  const uint64_t life = life_;
  run_for(2 * kSecond_ns);
  rests_ = false;
  if (!at_one() || !requests_.empty() || life != life_ || !node(primary_).engine().is_primary()) return;
  if (std::exchange(open_, false)) node(primary_).engine().clients().closed();
  bool demoted = false;
  node(primary_).engine().orders().demote([&demoted](const Result<std::string>& said) { demoted = said.ok(); });
  const uint64_t end = scheduler_.now_ns() + 2 * kSecond_ns;
  scheduler_.run_until(end, [&demoted] { return demoted; });
  if (random_.chance(0.3)) grow();
  if (!demoted || !at_one()) return;
  const int next = random_.chance(0.7) ? 1 - primary_ : primary_;
  bool promoted = false;
  node(next).engine().orders().promote(false, [&promoted](const Result<std::string>& said) { promoted = said.ok(); });
  scheduler_.run_until(scheduler_.now_ns() + 5 * kSecond_ns, [&promoted] { return promoted; });
  if (promoted) primary_ = next;
}

bool Grown::at_one() {
  const auto both = both_at_one();
  return both && both->first.growing_to_bytes == 0 && both->second.growing_to_bytes == 0;
}

void Grown::check() {
  if (!at_one()) return;
  const uint64_t mine = node(0).engine().status().size_bytes;
  const uint64_t theirs = node(1).engine().status().size_bytes;
  if (mine != theirs)
    Report::violation("the two say that they are the same, but alpha has " + std::to_string(mine) +
                      " bytes and beta " + std::to_string(theirs) + describe());
  if (mine < told_bytes_)
    Report::violation("somebody was told that the volume has " + std::to_string(told_bytes_) +
                      " bytes, and it has " + std::to_string(mine) + describe());
  for (size_t block = 0; block < mine / limits::kBlockBytes; ++block) {
    const Block& is = blocks_[block];
    if (is.under_way) continue;
    const uint64_t number = number_in(node(0).data().contents(), block);
    const uint64_t other = number_in(node(1).data().contents(), block);
    if (number != other)
      Report::violation("the two say that they are the same, but block " + std::to_string(block) +
                        " is of write " + std::to_string(number) + " at alpha, of write " +
                        std::to_string(other) + " at beta" + describe());
    if (number != is.promised && is.may_be.count(number) == 0)
      Report::violation("block " + std::to_string(block) + " is of write " + std::to_string(number) +
                        ", and write " + std::to_string(is.promised) + " was promised" + describe());
  }
}

}  // namespace twinblock::sim
