#include "confirmed.h"

#include <algorithm>
#include <utility>

#include "pair_config.h"
#include "report.h"

namespace twinblock::sim {
namespace {

constexpr uint64_t kVolumeBytes = 512 * kKiB;
constexpr uint64_t kPatience_ns = 60 * kSecond_ns;
// A session that is lost on the way, and a peer timeout; less than it takes until a copy that failed is tried again.
constexpr uint64_t kGoesOnWithin_ns = 5 * kSecond_ns;
constexpr size_t kWrites = 12;

Config make_config(Random& random) {
  Config config = quick_pair_config(kVolumeBytes, OnRestart::kResume);
  config.copies.before_resync.reflink = true;
  config.copies.timeout_ns = CopyShelf::kTimeout_ns;
  config.on_no_way_back = random.chance(0.5) ? OnNoWayBack::kWait : OnNoWayBack::kGoOn;
  return config;
}

}  // namespace

Confirmed::Confirmed(uint64_t seed) : NodePair(seed, make_config) {
  Random apart = random_;  // so that what is drawn otherwise stays what it was
  dies_when_demoted_ = apart.chance(0.3);
  nobody_orders_ = apart.chance(0.3);
  // Else it goes on alone, and serves before anybody has ordered anything.
  if (!nobody_orders_ && apart.chance(0.8)) config_.on_peer_loss = OnPeerLoss::kFreeze;
  make_nodes([](SimNode& made) { made.copies().can_keep_a_way_back = true; });
}

Confirmed::~Confirmed() { end_nodes(); }

void Confirmed::run() {
  begin();
  run_for(3 * kSecond_ns);
  node(0).engine().orders().promote(false, [](const Result<std::string>&) {});
  const auto duplex = [this] { return node(0).engine().volume_state() == VolumeState::kDuplex; };
  if (!comes_true(kPatience_ns, duplex) || !node(0).engine().clients().opened())
    Report::violation("a primary does not serve" + describe());
  end_and_begin();
  if (!comes_true(kPatience_ns, [this] { return waits_to_serve() || serves(); }))
    Report::violation("a primary's process does not go on" + describe());
  if (nobody_orders_) return check_goes_on();
  if (!waits_to_serve()) return;  // it was quicker
  run_for(random_.spread(kMillisecond_ns, kSecond_ns));
  node(0).data().faults.extra_delay_ns = random_.chance(0.5) ? 0 : random_.spread(kMillisecond_ns, 2 * kSecond_ns);
  for (uint64_t orders = random_.between(1, 4); orders > 0; --orders) {
    order(random_.chance(0.6) ? Order::kDemote : Order::kPromote);
    run_for(random_.spread(kMillisecond_ns, 2 * kSecond_ns));
    if (random_.chance(0.5)) disturb(true);
  }
  node(0).data().faults = DiskFaults{};
  if (!comes_true(kPatience_ns, [this] { return outstanding_ == 0; }))
    Report::violation("an order beside a process that goes on is not answered" + describe());
  if (crossed_) return;
  if (last_ == Order::kDemote) check_demoted();
  if (last_ == Order::kPromote) check_promoted();
}

bool Confirmed::waits_to_serve() {
  const StatusView view = status(0);
  return view.role == Role::kPrimary && view.mine.resumes;
}

bool Confirmed::serves() {
  if (!node(0).engine().clients().opened()) return false;
  node(0).engine().clients().closed();
  return true;
}

// They are under way when the process ends, so that there is something to send.
void Confirmed::write_some() {
  for (size_t block = 0; block < kWrites; ++block) {
    writes_.push_back(std::make_unique<NumberedWrite>());
    NumberedWrite& write = *writes_.back();
    write.fill(block, writes_.size(), node(0).clock().now_ns());
    write.client.done = [this](ClientRequest& request) { answered_ += request.error == 0 ? 1 : 0; };
    node(0).engine().clients().submit(write.client);
  }
  run_for(random_.spread(10 * kMicrosecond_ns, 5 * kMillisecond_ns));
}

void Confirmed::end_and_begin() {
  node(1).copies().fails = nobody_orders_ || random_.chance(0.7) ? 1 : 0;
  node(1).metadata().faults.extra_delay_ns = random_.chance(0.5) ? 0 : random_.spread(kMillisecond_ns, kSecond_ns);
  write_some();
  node(0).kill();
  run_for(random_.spread(kMillisecond_ns, kSecond_ns));
  start(0);
}

void Confirmed::order(Order what) {
  if (Report::verbose()) Report::trace("operator", what == Order::kDemote ? "demote" : "promote");
  crossed_ = crossed_ || (outstanding_ > 0 && what != last_);
  ++outstanding_;
  const auto answered = [this, what](const Result<std::string>& said) {
    if (Report::verbose()) Report::trace("operator", said ? said.value() : said.error().what);
    --outstanding_;
    if (said) last_ = what;
    if (said && what == Order::kDemote && outstanding_ == 0 && dies_when_demoted_)
      scheduler_.after(0, node(0).process(), [this] {
        node(0).kill();
        start(0);
      });
  };
  if (what == Order::kDemote)
    node(0).engine().orders().demote(answered);
  else
    node(0).engine().orders().promote({random_.chance(0.3), false}, answered);
}

// The session ends, for a moment or for longer than a peer may be silent; copies succeed from now on, or not.
void Confirmed::disturb(bool mends) {
  if (mends && random_.chance(0.3)) node(1).copies().fails = 0;
  if (random_.chance(0.6)) {
    network_.reset_all();
    return;
  }
  network_.set_silent({true, true});
  run_for(random_.spread(kMillisecond_ns, 3 * kSecond_ns));
  network_.set_silent({false, false});
}

// Nothing but its peer keeps it from that, whose copies all fail.
void Confirmed::check_goes_on() {
  if (random_.chance(0.5)) {
    run_for(random_.spread(10 * kMicrosecond_ns, kSecond_ns));
    disturb(false);
  }
  if (!comes_true(kGoesOnWithin_ns, [this] { return serves(); }))
    Report::violation("a primary whose peer can take no copy does not go on" + describe());
  answered_ = 0;
  write_some();
  if (!comes_true(kGoesOnWithin_ns, [this] { return answered_ == kWrites; }))
    Report::violation("a primary that has gone on answers no writes" + describe());
  node(1).copies().fails = 0;
  if (!comes_true(kPatience_ns, [this] { return at_one(); }))
    Report::violation("the two do not come together again" + describe());
  const auto& mine = node(0).data().contents();
  const auto& theirs = node(1).data().contents();
  if (!std::equal(mine.begin(), mine.begin() + kVolumeBytes, theirs.begin()))
    Report::violation("the two say that they are the same, and are not" + describe());
}

void Confirmed::check_demoted() {
  const auto primary = [this] { return node(0).engine().is_primary(); };
  if (primary()) Report::violation("a node that was demoted is primary" + describe());
  if (random_.chance(0.5)) node(1).kill();
  if (random_.chance(0.5)) network_.reset_all();
  if (comes_true(5 * config_.peer_timeout_ns, primary))
    Report::violation("a node that was demoted becomes primary without an order" + describe());
}

void Confirmed::check_promoted() {
  node(1).copies().fails = 0;
  if (!comes_true(kPatience_ns, [this] { return serves(); }))
    Report::violation("a node that was promoted does not serve" + describe());
}

}  // namespace twinblock::sim
