#include "session/links.h"

#include <algorithm>
#include <utility>

#include "base/checks.h"

namespace twinblock {
namespace {

using LinkList = std::vector<std::unique_ptr<Link>>;

// False: it is not in there.
bool move_over(const Link& link, LinkList& from, LinkList& to) {
  const auto at = std::find_if(from.begin(), from.end(), [&](const auto& held) { return held.get() == &link; });
  if (at == from.end()) return false;
  to.push_back(std::move(*at));
  from.erase(at);
  return true;
}

}  // namespace

Links::Links(const SessionEnvironment& env, ChannelOwner& owner) : env_(env), owner_(owner) {}

Links::~Links() = default;

// --- links

Link& Links::add(const LinkConfig& config) {
  links_.push_back(std::make_unique<Link>(
      config,
      LinkAddresses{config.name, config.address.at(env_.node), config.address.at(env_.peer())},
      LinkPatience(env_.config.link_timeout_ns,
                   std::max(env_.config.link_timeout_ns, env_.config.peer_timeout_ns / 2))));
  return *links_.back();
}

void Links::leave(const Link& link) { (void)move_over(link, links_, left_); }

void Links::remove(const Link& link) {
  if (!move_over(link, links_, removed_)) (void)move_over(link, left_, removed_);
}

Link* Links::find(const std::string& name) const {
  for (const auto& link : links_)
    if (link->name() == name) return link.get();
  return nullptr;
}

bool Links::has_enabled(const std::string& name) const {
  const Link* link = find(name);
  return link != nullptr && link->enabled();
}

const LinkConfig& Links::config(const std::string& name) const {
  const Link* link = find(name);
  TB_CHECK(link != nullptr, "the caller has looked whether there is one");
  return link->config();
}

size_t Links::count_enabled() const {
  return static_cast<size_t>(
      std::count_if(links_.begin(), links_.end(), [](const auto& link) { return link->enabled(); }));
}

std::string Links::names() const {
  std::string names;
  for (const auto& link : links_) names += (names.empty() ? "" : ", ") + link->name();
  return names;
}

// --- connections

Channel& Links::open(Link& link, std::unique_ptr<Connection> connection, bool dialled,
                     Channel::Purpose purpose) {
  channels_.push_back(std::make_unique<Channel>(owner_, link, std::move(connection), dialled,
                                                purpose, env_.clock.now_ns(), steps_));
  return *channels_.back();
}

void Links::discard(Channel& channel) {
  channel.close();
  const auto at = std::find_if(channels_.begin(), channels_.end(),
                               [&](const auto& held) { return held.get() == &channel; });
  if (at == channels_.end()) return;
  buried_.push_back(std::move(*at));
  channels_.erase(at);
}

void Links::sweep() {
  buried_.clear();
  removed_.clear();
}

// --- those of the session

Channel* Links::of(uint64_t incarnation) const {
  for (Channel* channel : up_)
    if (channel->incarnation() == incarnation) return channel;
  return nullptr;
}

void Links::mark_up(Channel& channel) {
  Link& link = channel.link();
  const uint64_t now = env_.clock.now_ns();
  (void)move_over(link, left_, links_);
  channel.enter(Channel::Phase::kUp);
  channel.life().begin(now);
  link.came_up(channel, now);
  for (const auto& each : links_) each->rejoin().forget_tries();
  list_up();
  if (paused_) channel.connection().pause_reading(true);
}

void Links::mark_down(Channel& channel) {
  channel.link().went_down();
  discard(channel);
  list_up();
}

void Links::tell_lost(Link& link, const std::string& reason) {
  link.lost(reason);
  env_.log.log(Severity::kWarning,
               "link " + link.name() + " is lost: " + reason +
                   (up_.empty() ? "; no other link is up" : "; going on over the others"));
  env_.events.tell(
      "link-lost",
      {{"link", link.name()}, {"links_up", uint64_t{up_.size()}}, {"reason", reason}});
  if (up_.empty()) return;
  std::string others;
  for (const Channel* channel : up_)
    others += (others.empty() ? "" : ",") + channel->link().name();
  env_.events.tell("failover", {{"link", link.name()}, {"to", others}});
}

void Links::restart() {
  TB_CHECK(up_.empty(), "a session that is lost has no connection");
  for (const auto& link : links_) link->session_lost();
}

void Links::list_up() {
  up_.clear();
  for (const auto& link : links_)
    if (link->up() != nullptr) up_.push_back(link->up());
}

void Links::pause_reading(bool paused) {
  paused_ = paused;
  for (Channel* channel : up_) channel->connection().pause_reading(paused);
}

uint64_t Links::queued_bytes_total(uint64_t incarnation) const {
  const Channel* channel = of(incarnation);
  return channel != nullptr ? channel->connection().queued_bytes_total() : 0;
}

uint64_t Links::sent_bytes_total(uint64_t incarnation) const {
  const Channel* channel = of(incarnation);
  return channel != nullptr ? channel->connection().sent_bytes_total() : ~uint64_t{0};
}

uint64_t Links::unsent_bytes() const {
  uint64_t bytes = 0;
  for (const Channel* channel : up_) bytes += channel->unsent_bytes();
  return bytes;
}

uint64_t Links::rate_bytes_per_s() const {
  uint64_t rate = 0;
  for (const Channel* channel : up_) rate += channel->link().meter().rate_bytes_per_s();
  return rate;
}

void Links::update_rates(uint64_t now_ns) {
  for (const auto& link : links_) link->update_rates(now_ns);
}

// --- for status

bool Links::peer_answers() const {
  return std::any_of(links_.begin(), links_.end(),
                     [](const auto& link) { return link->enabled() && link->answers(); });
}

std::string Links::peer_address() const {
  return links_.empty() ? env_.peer() : links_.front()->addresses().peer;
}

LinkView Links::view(const Link& link, bool refused, uint64_t now_ns) const {
  const bool pending = std::any_of(channels_.begin(), channels_.end(),
                                   [&](const auto& each) { return &each->link() == &link && !each->probes(); });
  const Channel* up = link.up();
  const LinkTotals totals = link.totals();
  LinkView view;
  view.name = link.name();
  view.state = !link.enabled()                      ? LinkState::kDisabled
               : up != nullptr                      ? LinkState::kUp
               : link.rejoin().refused() || refused ? LinkState::kRefused
               : link.rejoin().damped()             ? LinkState::kDamped
               : pending                            ? LinkState::kConnecting
                                                    : LinkState::kDown;
  view.local = link.addresses().local;
  view.peer = link.addresses().peer;
  view.last_error = link.errors().last();
  if (up != nullptr) {
    view.round_trip_ns = up->life().round_trip_ns();
    view.protection = up->connection().protection();
    view.measured_bytes_per_s = link.meter().measured_bytes_per_s();
    view.in_bytes_per_s = link.in_bytes_per_s();
    view.out_bytes_per_s = link.out_bytes_per_s();
  }
  view.cipher_ns = totals.cipher_ns;
  view.nominal_bits_per_s = link.config().rate_bits_per_s;
  view.in_bytes = totals.in_bytes;
  view.out_bytes = totals.out_bytes;
  view.in_flight_bytes = link.meter().in_flight_bytes();
  view.failovers = link.errors().losses();
  view.silence_limit_ns = link.patience().limit_ns(now_ns);
  view.silence_limit_raised = link.patience().raised(now_ns);
  view.retry_in_ns = link.rejoin().due_in_ns(now_ns);
  return view;
}

std::vector<LinkView> Links::views(bool refused) const {
  std::vector<LinkView> views;
  for (const auto& link : links_) views.push_back(view(*link, refused, env_.clock.now_ns()));
  return views;
}

std::vector<LatencyView::Link> Links::latency(Window window) const {
  std::vector<LatencyView::Link> links;
  for (const auto& link : links_)
    links.push_back({link->name(), link->up() != nullptr, link->config().rate_bits_per_s,
                     link->up() != nullptr ? link->meter().carried_bytes_per_s() : 0,
                     link->up() != nullptr ? link->way_ns() : 0,
                     link->times().parts(window, env_.clock.now_ns()), link->times().alone_share()});
  return links;
}

}  // namespace twinblock
