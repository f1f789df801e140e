#include "far_apart.h"

#include <algorithm>

#include "pair_config.h"
#include "report.h"

namespace twinblock::sim {
namespace {

constexpr uint64_t kDelayMin_ns = 250 * kMillisecond_ns;
constexpr uint64_t kDelayMax_ns = 400 * kMillisecond_ns;
constexpr uint64_t kTogether_ns = 60 * kSecond_ns;
// … although the first link that is dialled says nothing: it is left after a second.
constexpr uint64_t kTogetherOverAnother_ns = 12 * kSecond_ns;

Config make_config(Random& random) {
  Config config = linked_pair_config(64 * kKiB);
  // Of links like these, an operator has to say that they are slow.
  config.link_timeout_ns = 3 * kSecond_ns;
  config.peer_timeout_ns = 10 * kSecond_ns;
  config.disk_timeout_ns = 20 * kSecond_ns;
  config.on_restart = OnRestart::kSecondary;
  config.compression = Compression::kOff;
  const uint64_t links = random.between(1, 3);
  for (uint64_t i = 1; i < links; ++i) {
    const std::string net = "10.0." + std::to_string(i);
    config.links.push_back({"other" + std::to_string(i), {{"alpha", net + ".1:7700"}, {"beta", net + ".2:7700"}}, 0});
  }
  return config;
}

}  // namespace

FarApart::FarApart(uint64_t seed) : NodePair(seed, make_config) {
  for (const LinkConfig& link : config_.links) set_silent(link.name, false);
  make_nodes();
}

FarApart::~FarApart() { end_nodes(); }

void FarApart::run() {
  begin();
  wait(kTogether_ns, [this] { return at_one(); }, "a session");
  wait(kTogether_ns, [this] { return all_up(); }, "all links");
  a_link_is_reset();
  a_process_dies();
  if (config_.links.size() > 1) the_first_link_does_not_answer();
}

void FarApart::wait(uint64_t at_most_ns, const std::function<bool()>& what, const std::string& name) {
  if (!comes_true(at_most_ns, what, 20 * kMillisecond_ns))
    Report::violation("two nodes that are far apart waited in vain for " + name + describe());
}

void FarApart::set_silent(const std::string& link, bool silent) {
  LinkFaults faults;
  faults.delay_min_ns = kDelayMin_ns;
  faults.delay_max_ns = kDelayMax_ns;
  faults.silent = {silent, silent};
  network_.set_faults(link, faults);
}

bool FarApart::all_up() {
  return std::all_of(nodes_.begin(), nodes_.end(), [](const auto& each) {
    const StatusView view = each->engine().status();
    return std::ranges::all_of(view.links, [](const StatusView::Link& link) { return link.state == LinkState::kUp; });
  });
}

void FarApart::a_link_is_reset() {
  const uint64_t losses = node(0).engine().status().peer_losses;
  network_.reset(config_.links[random_.below(config_.links.size())].name, {true, true});
  scheduler_.run_until(scheduler_.now_ns() + 20 * kMillisecond_ns);  // its ends hear of it
  wait(kTogether_ns, [this] { return all_up(); }, "a link that was reset");
  if (!node(0).engine().inside().session_stands() || node(0).engine().status().peer_losses != losses)
    Report::violation("a link that was reset cost the session, though it could be dialled again" + describe());
}

void FarApart::a_process_dies() {
  const int host = static_cast<int>(random_.below(2));
  node(host).kill();
  scheduler_.run_until(scheduler_.now_ns() + random_.spread(kMillisecond_ns, kSecond_ns));
  node(host).start();
  wait(kTogether_ns, [this] { return at_one() && all_up(); }, "a session after one's process died");
}

void FarApart::the_first_link_does_not_answer() {
  for (const int host : {0, 1}) node(host).kill();
  set_silent(config_.links.front().name, true);
  for (const int host : {0, 1}) node(host).start();
  wait(kTogetherOverAnother_ns, [this] { return at_one(); }, "a session beside a link that does not answer");
  set_silent(config_.links.front().name, false);
  wait(kTogether_ns, [this] { return all_up(); }, "a link that answers again");
}

}  // namespace twinblock::sim
