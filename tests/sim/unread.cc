#include "unread.h"

#include <algorithm>

#include "pair_config.h"
#include "report.h"

namespace twinblock::sim {
namespace {

constexpr uint64_t kVolumeBytes = 4 * kMiB;
constexpr uint64_t kReadBytes = 32 * kKiB;
// As much less than a real node's as the volume is.
constexpr uint64_t kReceiveBytesMax = 256 * kKiB;
constexpr uint64_t kSlow_bytes_per_s = 512 * kKiB;
constexpr uint64_t kPeerTimeout_ns = 2 * kSecond_ns;
// Ticks, and what is looked at now and then.
constexpr uint64_t kLonger_ns = 800 * kMillisecond_ns;
constexpr uint64_t kPatience_ns = 30 * kSecond_ns;

Config make_config(Random& random) {
  Config config = quick_pair_config(kVolumeBytes, OnRestart::kSecondary);
  config.peer_timeout_ns = kPeerTimeout_ns;
  config.disk_timeout_ns = 15 * kSecond_ns;
  if (random.chance(0.6))
    config.links.push_back({"other", {{"alpha", "10.1.0.1:7700"}, {"beta", "10.1.0.2:7700"}}, 0});
  return config;
}

}  // namespace

Unread::Unread(uint64_t seed) : NodePair(seed, make_config) {
  make_nodes([](SimNode& made) { made.set_receive_bytes_max(kReceiveBytesMax); });
}

Unread::~Unread() { end_nodes(); }

void Unread::run() {
  begin();
  run_for(3 * kSecond_ns);
  node(0).engine().orders().promote(false, [](const Result<std::string>&) {});
  wait(kPatience_ns, [this] { return node(0).engine().volume_state() == VolumeState::kDuplex; }, "duplex");
  if (!node(0).engine().clients().opened()) Report::violation("a primary does not serve" + describe());
  if (random_.chance(0.3)) return the_disk_stands_still();
  lose_disk();
  if (config_.links.size() == 1 || random_.chance(0.3))
    the_primary_dies();
  else
    a_link_dies();
}

void Unread::wait(uint64_t ns, const std::function<bool()>& what, const std::string& name) {
  if (!comes_true(ns, what)) Report::violation("waited in vain for " + name + describe());
}

bool Unread::up(int host, const std::string& link) {
  const StatusView view = status(host);
  return std::ranges::any_of(view.links,
                             [&](const auto& each) { return each.name == link && each.state == LinkState::kUp; });
}

void Unread::check_session(const std::string& when) {
  if (apart() || status(0).peer_losses != losses_)
    Report::violation("the session is lost " + when + describe());
}

// The primary's disk fails, and the other replica stands in.
void Unread::lose_disk() {
  DiskFaults& faults = node(0).data().faults;
  faults.write_error_chance = faults.read_error_chance = faults.flush_error_chance = 1;
  writes_.push_back(std::make_unique<NumberedWrite>());
  NumberedWrite& write = *writes_.back();
  write.fill(0, 1, node(0).clock().now_ns());
  bool answered = false;
  write.client.done = [&answered](ClientRequest&) { answered = true; };
  node(0).engine().clients().submit(write.client);
  wait(
      kPatience_ns,
      [&] { return answered && node(0).engine().volume_state() == VolumeState::kDiskless; },
      "the peer to stand in for a disk");
}

void Unread::read_all() {
  for (uint64_t at = 0; at < kVolumeBytes; at += kReadBytes) {
    reads_.push_back(std::make_unique<Read>());
    Read& read = *reads_.back();
    read.data.resize(kReadBytes);
    read.client.op = ClientOp::kRead;
    read.client.offset_bytes = at;
    read.client.length_bytes = kReadBytes;
    read.client.data = read.data.data();
    read.client.received_ns = read.client.prepared_ns = node(0).clock().now_ns();
    read.client.done = [this](ClientRequest& done) {
      --outstanding_;
      if (done.error != 0)
        Report::violation("a read fails with " + std::to_string(done.error) + describe());
    };
    ++outstanding_;
    node(0).engine().clients().submit(read.client);
  }
}

// All reads are asked for over the link "main", which is slow; the other one is back afterwards.
void Unread::answers_pile_up() {
  LinkFaults slow;
  slow.bytes_per_s = kSlow_bytes_per_s;
  slow.window_max_bytes = kSlow_bytes_per_s / 20;
  network_.set_faults("main", slow);
  LinkFaults cut;
  cut.cut = {true, true};
  network_.set_faults("other", cut);
  wait(kPatience_ns, [this] { return !up(0, "other") && !up(1, "other"); }, "a link to be cut");
  read_all();
  run_for(50 * kMillisecond_ns);
  network_.set_faults("other", LinkFaults{});
  if (config_.links.size() > 1)
    wait(kPatience_ns, [this] { return up(0, "other") && up(1, "other"); }, "a link that is well again");
  const auto stopped = [this] { return node(1).engine().inside().stopped_reading(); };
  wait(kPatience_ns, stopped, "answers that pile up");
  losses_ = status(0).peer_losses;
}

void Unread::a_link_dies() {
  answers_pile_up();
  if (Report::verbose()) Report::trace("network", "-- link main: silent");
  LinkFaults silent = network_.faults("main");
  silent.silent = {random_.chance(0.5), true};
  network_.set_faults("main", silent);
  // Both, also the one that reads nothing and so does not hear of the other one's.
  wait(
      config_.link_timeout_ns + kLonger_ns, [this] { return !up(0, "main") && !up(1, "main"); },
      "a dead link to be given up, while another one lives");
  wait(kPatience_ns, [this] { return outstanding_ == 0; }, "reads whose link is dead");
  check_session("though a link lives");
}

void Unread::the_primary_dies() {
  answers_pile_up();
  const uint64_t died_ns = scheduler_.now_ns();
  node(0).power_off();
  std::optional<Result<std::string>> said;
  const bool at_once = random_.chance(0.5);
  const auto promote = [&] {
    node(1).engine().orders().promote({true, false}, [&](const Result<std::string>& result) { said = result; });
  };
  if (at_once) promote();
  // Of several links, those whose answers stand still are given up first, and then the others are heard again, or not.
  const uint64_t link_ns = config_.links.size() > 1 ? config_.link_timeout_ns + kLonger_ns : 0;
  wait(
      kPeerTimeout_ns + link_ns + kLonger_ns, [this] { return apart(); }, "a dead primary to count as lost");
  if (!at_once) promote();
  wait(kPatience_ns, [&] { return said.has_value(); }, "an answer to a promotion");
  if (!*said || !node(1).engine().is_primary())
    Report::violation("a promotion by word fails " +
                      std::to_string((scheduler_.now_ns() - died_ns) / kMillisecond_ns) +
                      " ms after the primary's death: " + (*said ? "" : said->error().what) + describe());
}

// Longer than anybody may be silent.
void Unread::the_disk_stands_still() {
  losses_ = status(0).peer_losses;
  const uint64_t failovers = status(1).links.front().failovers;
  node(1).data().faults.hung_until_ns = scheduler_.now_ns() + 3 * kPeerTimeout_ns;
  for (size_t block = 0; block < kVolumeBytes / limits::kBlockBytes; ++block) {
    writes_.push_back(std::make_unique<NumberedWrite>());
    NumberedWrite& write = *writes_.back();
    write.fill(block, block + 1, node(0).clock().now_ns());
    write.client.done = [this](ClientRequest& done) {
      --outstanding_;
      if (done.error != 0)
        Report::violation("a write fails with " + std::to_string(done.error) + describe());
    };
    ++outstanding_;
    node(0).engine().clients().submit(write.client);
  }
  const auto stopped = [this] { return node(1).engine().inside().stopped_reading(); };
  wait(kPatience_ns, stopped, "writes that pile up");
  wait(kPatience_ns, [this] { return outstanding_ == 0; }, "writes behind a disk that stood still");
  check_session("for a disk that stood still");
  if (status(1).links.front().failovers != failovers)
    Report::violation("a link is lost for a disk that stood still" + describe());
}

}  // namespace twinblock::sim
