#include "session/link_roster.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/checks.h"
#include "base/limits.h"

namespace twinblock {

LinkRoster::LinkRoster(const SessionEnvironment& env, SessionSteps& session, const Parts& parts)
    : env_(env),
      session_(session),
      parts_(parts),
      timer_(env.clock.make_timer([this] { listen_again(); })) {
  for (const LinkConfig& link : env_.config.links) (void)add(link);
}

Status LinkRoster::start() {
  started_ = true;
  std::vector<std::pair<Link*, Error>> failed;
  for (const auto& link : parts_.links.all())
    if (const Status listening = listen(*link); !listening) failed.emplace_back(link.get(), listening.error());
  if (!failed.empty() && failed.size() == parts_.links.all().size()) return failed.front().second;
  for (const auto& [link, error] : failed) {
    unheard_.insert(link->name());
    session_.note_error(*link, in_words(error));
  }
  if (!failed.empty()) timer_->arm(limits::kListenAgain_ns);
  return ok_status();
}

void LinkRoster::listen_again() {
  std::erase_if(unheard_, [this](const std::string& name) {
    Link* link = parts_.links.find(name);
    if (link == nullptr) link = find_left(name);
    TB_CHECK(link != nullptr, "what is forgotten is not listened on again");
    if (!listen(*link)) return false;
    env_.log.log(Severity::kInfo, "link " + name + ": listens now");
    return true;
  });
  if (!unheard_.empty()) timer_->arm(limits::kListenAgain_ns);
}

Status LinkRoster::listen(Link& link) {
  return env_.network.listen(
      link.addresses(),
      [this, &link](std::unique_ptr<Connection> connection) {
        parts_.handshake.accept(link, std::move(connection));
      },
      [this, &link](const Refusal& refusal) { parts_.handshake.refused(link, refusal); });
}

// Of those that were removed, and are listened on still. Null: there is none of that name.
Link* LinkRoster::find_left(const std::string& name) const {
  for (const auto& left : parts_.links.left())
    if (left->name() == name) return left.get();
  return nullptr;
}

bool LinkRoster::can_spare(const std::string& name) const {
  const auto& all = parts_.links.all();
  return std::any_of(all.begin(), all.end(), [&](const auto& link) {
    return link->name() != name && link->enabled() &&
           (!session_.established() || link->up() != nullptr);
  });
}

// Those that were removed, and have the name or the address of what is to be added.
std::vector<Link*> LinkRoster::in_the_way_of(const LinkConfig& config) const {
  std::vector<Link*> in_the_way;
  for (const auto& left : parts_.links.left())
    if (left->name() == config.name || left->addresses().local == config.address.at(env_.node))
      in_the_way.push_back(left.get());
  return in_the_way;
}

// Whether a peer that begins anew with the links of the file finds this node, without those and with what is added.
bool LinkRoster::is_found_without(const std::vector<Link*>& gone, const LinkConfig& added) const {
  return std::any_of(env_.config.links.begin(), env_.config.links.end(), [&](const LinkConfig& of_file) {
    const auto is_it = [&](const auto& link) {
      return link->name() == of_file.name && link->addresses().local == of_file.address.at(env_.node) &&
             std::find(gone.begin(), gone.end(), &*link) == gone.end();
    };
    const auto& all = parts_.links.all();
    const auto& left = parts_.links.left();
    return (of_file.name == added.name && of_file.address == added.address) ||
           std::any_of(all.begin(), all.end(), is_it) || std::any_of(left.begin(), left.end(), is_it);
  });
}

// So many may be up at the same time; one that is disabled is not.
Status LinkRoster::may_use_one_more() const {
  if (parts_.links.count_enabled() < limits::kLinksMax) return ok_status();
  return Error{"there are " + std::to_string(limits::kLinksMax) + " links already", "remove one first", ENOSPC};
}

Status LinkRoster::add(const LinkConfig& config) {
  if (Status room = may_use_one_more(); !room) return room;
  const std::vector<Link*> gone = in_the_way_of(config);
  if (is_found_without({}, config) && !is_found_without(gone, config))
    return Error{"link " + gone.front()->name() + " was removed here, and " + env_.peer() +
                     ", which has not agreed yet, may have no other one",
                 "wait until " + env_.peer() + " is connected, or give the new one another name and address", EBUSY};
  for (const Link* each : gone) env_.network.unlisten(each->name());
  Link& link = parts_.links.add(config);
  parts_.joins.prepare(link);
  if (Status listening = started_ ? listen(link) : ok_status(); !listening) {
    parts_.links.remove(link);
    for (Link* each : gone) listen_as_before(*each);
    return listening;
  }
  for (Link* each : gone) {
    unheard_.erase(each->name());
    close(*each);
    parts_.links.remove(*each);
  }
  if (started_) try_link(link);
  return ok_status();
}

// Its address may be away, too: what listened on it would have heard again when it was back.
void LinkRoster::listen_as_before(Link& link) {
  if (listen(link)) {
    unheard_.erase(link.name());
    return;
  }
  unheard_.insert(link.name());
  timer_->arm(limits::kListenAgain_ns);
}

// It is listened on still, or as soon as it can be.
Status LinkRoster::remove(const std::string& name) {
  Link* link = parts_.links.find(name);
  if (link == nullptr) return Error{"there is no link " + name, "", 0};
  close(*link);
  parts_.links.leave(*link);
  parts_.dialler.begin_with_first();
  return ok_status();
}

void LinkRoster::forget(const std::string& name) {
  if (parts_.links.has(name)) (void)remove(name);
  Link* link = find_left(name);
  if (link == nullptr) return;
  unheard_.erase(name);
  env_.network.unlisten(name);
  close(*link);
  parts_.links.remove(*link);
}

Status LinkRoster::enable(const std::string& name, bool enabled) {
  Link* link = parts_.links.find(name);
  if (link == nullptr) return Error{"there is no link " + name, "", 0};
  if (link->enabled() == enabled) {
    // One that flaps is left alone for a while: an operator who knows better has it tried at once.
    if (enabled && link->up() == nullptr) try_link(*link);
    return ok_status();
  }
  if (enabled) {
    if (Status room = may_use_one_more(); !room) return room;
    link->enable();
    try_link(*link);
  } else {
    close(*link);
  }
  return ok_status();
}

void LinkRoster::try_link(Link& link) {
  if (session_.established())
    parts_.joins.schedule_in_turn(link);
  else
    parts_.handshake.try_now();
}

// Ends every connection of a link that may not be used any more.
void LinkRoster::close(Link& link) {
  link.disable();
  const auto others = parts_.links.channels(
      [&](const Channel& channel) { return &channel.link() == &link && !channel.up(); });
  for (Channel* channel : others) parts_.links.discard(*channel);
  if (link.up() != nullptr)
    session_.link_down(*link.up(), "the link was disabled or removed", LinkEnd::kLost);
  if (!session_.established())
    parts_.dialler.schedule(limits::kReconnectDelayMin_ns);
  parts_.joins.renew_next();
}

}  // namespace twinblock
