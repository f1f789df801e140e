#include "volume/link_orders.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <map>
#include <utility>

#include "base/checks.h"
#include "base/limits.h"
#include "config/link_orders.h"
#include "config/link_protection.h"
#include "config/link_rules.h"

namespace twinblock {

namespace {

// What there is to say of each order; at the place of its number.
struct OrderRow {
  LinkOrder order;
  wire::LinkChange change;
  const char* done;
};
constexpr std::array<OrderRow, 4> kOrders = {{
    {LinkOrder::kAdd, wire::LinkChange::kAdd, "added"},
    {LinkOrder::kRemove, wire::LinkChange::kRemove, "removed"},
    {LinkOrder::kEnable, wire::LinkChange::kEnable, "enabled"},
    {LinkOrder::kDisable, wire::LinkChange::kDisable, "disabled"},
}};

constexpr const OrderRow& row_of(LinkOrder order) { return kOrders[static_cast<size_t>(order)]; }

constexpr bool rows_are_at_their_places() {
  for (const OrderRow& row : kOrders)
    if (row_of(row.order).done != row.done) return false;
  return true;
}
static_assert(rows_are_at_their_places());

// The latest order that is about `link`; null: there was none.
auto* about(auto& latest, const std::string& link) {
  const auto at = std::find_if(latest.rbegin(), latest.rend(),
                               [&](const auto& each) { return each.link.name == link; });
  return at != latest.rend() ? &*at : nullptr;
}

// Whether what is told says the same. Without addresses it is about whichever link has the name.
bool says_the_same(const auto& latest, LinkOrder order, const LinkConfig& link) {
  return latest.order == order && (link.address.empty() || latest.link.address == link.address);
}

LinkOrder order_of(uint32_t change) {
  const auto at = std::find_if(kOrders.begin(), kOrders.end(), [change](const OrderRow& row) {
    return static_cast<uint32_t>(row.change) == change;
  });
  TB_CHECK(at != kOrders.end(), "what a frame says was looked at when it came");
  return at->order;
}

}  // namespace

const char* done_word(LinkOrder order) { return row_of(order).done; }

// The answer of a peer that was told of a change.
class LinkOrders::Answer final : public PeerRequest {
 public:
  Answer(LinkOrders& orders, const Latest& told, Before before, Reply reply)
      : orders_(orders),
        order_(told.order),
        link_(told.link),
        number_(told.number),
        before_(std::move(before)),
        reply_(std::move(reply)) {}
  void answered(const PeerAnswer& answer) override {
    orders_.answered(*this, answer.error, wire::printable(answer.payload));
  }
  // Else the peer is only told again.
  [[nodiscard]] bool operator_waits() const { return reply_ != nullptr; }
  void lost() {
    if (!operator_waits()) return;
    reply_("link " + link_.name + " is " + done_word(order_) + " here; the session with " +
           orders_.core_.peer + " was lost before it answered: it is told again");
  }

 private:
  friend class LinkOrders;
  LinkOrders& orders_;
  const LinkOrder order_;
  const LinkConfig link_;
  const uint64_t number_;
  const Before before_;
  Reply reply_;
};

// Why not; empty when it may be done.
std::optional<Error> LinkOrders::why_not_change(LinkOrder order, const LinkConfig& link) const {
  const bool known = session().links().has(link.name);
  if (order == LinkOrder::kAdd) {
    if (known) return Error{"there is a link " + link.name + " already", "", EEXIST};
    if (session().links().count() >= limits::kLinksMax)
      return Error{"there are " + std::to_string(limits::kLinksMax) + " links already",
                   "remove one first", ENOSPC};
    if (link.address.size() != 2)
      return Error{link.name + " needs an address for each node",
                   "it is not in " + core_.config.path + ": twinblock link add " +
                       core_.config.volume + " " + link.name + " " + core_.node + "=IP:port " +
                       core_.peer + "=IP:port",
                   EINVAL};
    if (Status good = may_be_used(link, core_.config); !good) return good.error();
    return std::nullopt;
  }
  if (!known)
    return Error{"there is no link " + link.name, "the links are: " + session().links().names(),
                 ENOENT};
  const bool taken_away = order == LinkOrder::kRemove || order == LinkOrder::kDisable;
  if (taken_away && !session().roster().can_spare(link.name))
    return Error{"without link " + link.name + " the nodes could not reach each other: no other " +
                     (session().up() ? "link is up" : "link is enabled"),
                 "add or enable another one first", EBUSY};
  return std::nullopt;
}

Status LinkOrders::apply(LinkOrder order, const LinkConfig& link) {
  switch (order) {
    case LinkOrder::kAdd:
      return session().roster().add(link);
    case LinkOrder::kRemove:
      return session().roster().remove(link.name);
    case LinkOrder::kEnable:
      return session().roster().enable(link.name, true);
    case LinkOrder::kDisable:
      break;
  }
  return session().roster().enable(link.name, false);
}

// Whether no other link of this node's file would be left that may be used.
bool LinkOrders::is_last_of_file(const std::string& link) const {
  const std::vector<LinkConfig>& links = core_.config.links;
  const auto counts = [&](const LinkConfig& each) { return session().links().has_enabled(each.name); };
  const bool is_of_file = std::any_of(links.begin(), links.end(), [&](const LinkConfig& each) {
    return each.name == link && counts(each);
  });
  return is_of_file && std::none_of(links.begin(), links.end(), [&](const LinkConfig& each) {
           return each.name != link && counts(each);
         });
}

// What the peer may order is limited to what this node's own file allows: empty when it may.
std::optional<Error> LinkOrders::why_not_obey(LinkOrder order, const LinkConfig& link) const {
  const bool taken_away = order == LinkOrder::kRemove || order == LinkOrder::kDisable;
  if (taken_away && is_last_of_file(link.name))
    return Error{"link " + link.name + " is the last one in use that " + core_.config.path +
                     " on " + core_.node + " names",
                 "only its own operator may take it away", EPERM};
  const bool added = !session().links().has(link.name) && order != LinkOrder::kRemove;
  if (!added || link.address.empty()) return std::nullopt;
  if (link.rate_bits_per_s != 0 && !is_link_rate(link.rate_bits_per_s))
    return Error{"that is not a rate that a link can have", "", EINVAL};
  if (Status allowed = may_be_ordered(link, core_.config, core_.node); !allowed)
    return allowed.error();
  if (Status good = may_be_used(link, core_.config); !good)
    return Error{good.error().what, good.error().action, EPERM};
  return std::nullopt;
}

// What the peer's operator ordered. A link that is gone here, by an order that this one overrules,
// is there again; one that is added again is in use again.
std::optional<Error> LinkOrders::obey(LinkOrder order, const LinkConfig& link) {
  const bool known = session().links().has(link.name);
  if (order == LinkOrder::kRemove && !known) {
    session().roster().forget(link.name);
    return std::nullopt;
  }
  if (auto error = why_not_obey(order, link)) return error;
  if (order == LinkOrder::kAdd && known) {
    if (session().links().config(link.name).address != link.address)
      return Error{"there is a link " + link.name + " with other addresses on " + core_.node, "", EEXIST};
    order = LinkOrder::kEnable;
  }
  if (order != LinkOrder::kAdd && !known && !link.address.empty()) {
    if (auto error = why_not_change(LinkOrder::kAdd, link)) return error;
    if (Status added = session().roster().add(link); !added) return added.error();
  } else if (auto error = why_not_change(order, link)) {
    return error;
  }
  if (order == LinkOrder::kRemove)
    session().roster().forget(link.name);
  else if (Status applied = apply(order, link); !applied)
    return applied.error();
  return std::nullopt;
}

// The latest order about each link: it says all of it, and a peer that starts anew, or that got
// other ones meanwhile, is told. But a peer that knows a link with other addresses has to hear first
// that this one is gone.
void LinkOrders::remember(LinkOrder order, const LinkConfig& link, uint64_t number) {
  std::erase_if(latest_, [&](const Latest& each) {
    const bool goes_before = each.order == LinkOrder::kRemove && order != LinkOrder::kRemove &&
                             each.link.address != link.address;
    return each.link.name == link.name && !goes_before;
  });
  if (Latest* removal = about(latest_, link.name)) removal->refused.clear();
  latest_.push_back({order, link, number});
}

LinkOrders::Before LinkOrders::as_it_is(const std::string& link) const {
  Before before;
  if (session().links().has(link)) before.link = session().links().config(link);
  before.enabled = session().links().has_enabled(link);
  std::copy_if(latest_.begin(), latest_.end(), std::back_inserter(before.orders),
               [&](const Latest& each) { return each.link.name == link; });
  return before;
}

// False: what was ordered has to stay.
bool LinkOrders::put_back(const std::string& link, const Before& before) {
  const Links& links = session().links();
  LinkRoster& roster = session().roster();
  if (links.has_enabled(link) && !before.enabled && !roster.can_spare(link)) return false;
  if (!before.link)
    roster.forget(link);
  else if (!links.has(link) && !roster.add(*before.link))
    return false;
  if (before.link && links.has_enabled(link) != before.enabled && !roster.enable(link, before.enabled)) return false;
  std::erase_if(latest_, [&](const Latest& each) { return each.link.name == link; });
  latest_.insert(latest_.end(), before.orders.begin(), before.orders.end());
  return true;
}

// Whether this node knows of a later order about the link: both got one while they were parted, or
// at the same time. What it says of that.
std::optional<Error> LinkOrders::why_overruled(const Latest& latest, LinkOrder order, const LinkConfig& link,
                                               uint64_t number) const {
  const bool is_older = peer_numbers_.told_is_older(latest.without_numbers, !says_the_same(latest, order, link));
  if (!is_older && told_order_counts(number, latest.number, core_.node, core_.peer)) return std::nullopt;
  return Error{"another order holds on " + core_.node + ", by which link " + link.name + " is " + done_word(latest.order),
               "", ESTALE};
}

bool LinkOrders::is_latest(LinkOrder order, const std::string& link, uint64_t number) const {
  const Latest* latest = about(latest_, link);
  return latest != nullptr && latest->number == number && latest->order == order;
}

// Whether an operator waits for what the peer says to an order about it.
bool LinkOrders::awaits_answer(const std::string& link) const {
  return std::any_of(answers_.begin(), answers_.end(), [&](const auto& each) {
    return each->operator_waits() && each->link_.name == link;
  });
}

void LinkOrders::change(LinkOrder order, const LinkConfig& wanted, Reply reply) {
  LinkConfig link = wanted;
  // Where the peer refuses both, the second would be put back to what the first has made.
  if (awaits_answer(link.name)) {
    reply(Error{"an order about link " + link.name + " is being told to " + core_.peer + ", which has not answered yet",
                "wait for its answer, then try again", EBUSY, Retry::kLater});
    return;
  }
  if (order == LinkOrder::kAdd && link.address.empty())
    for (const LinkConfig& configured : core_.config.links)
      if (configured.name == link.name) {
        link.address = configured.address;
        if (link.rate_bits_per_s == 0) link.rate_bits_per_s = configured.rate_bits_per_s;
      }
  if (auto error = why_not_change(order, link)) {
    reply(*std::move(error));
    return;
  }
  if (order != LinkOrder::kAdd) link = session().links().config(link.name);
  Before before = as_it_is(link.name);
  if (Status applied = apply(order, link); !applied) {
    reply(applied.error());
    return;
  }
  ++number_;
  remember(order, link, number_);
  core_.log.log(Severity::kInfo,
                "link " + link.name + " is " + done_word(order) + " by the operator");
  core_.events().tell("link-order",
                    {{"link", link.name}, {"order", done_word(order)}, {"by", core_.node}});
  if (!session().up()) {
    latest_.back().without_numbers = !peer_numbers_.known();
    reply("link " + link.name + " is " + done_word(order) + " here; " + core_.peer +
          " is told when it is connected");
    return;
  }
  tell({order, link, number_}, std::move(before), std::move(reply));
}

void LinkOrders::tell(const Latest& order, Before before, Reply reply) {
  const LinkConfig& link = order.link;
  wire::LinkChangePayload payload{};
  payload.change = static_cast<uint32_t>(row_of(order.order).change);
  payload.number = order.number;
  payload.rate_bits_per_s = link.rate_bits_per_s;
  wire::set_name(payload.name, link.name);
  for (size_t i = 0; i < core_.config.nodes.size() && !link.address.empty(); ++i)
    wire::set_name(payload.address[i], link.address.at(core_.config.nodes[i].name));
  answers_.push_back(std::make_shared<Answer>(*this, order, std::move(before), std::move(reply)));
  session().request_ordered(wire::LinkChangeFrame{}, wire::bytes_of(payload), *answers_.back());
}

void LinkOrders::answered(Answer& answer, int status, const std::string& why) {
  const auto at = std::find_if(answers_.begin(), answers_.end(),
                               [&](const auto& each) { return each.get() == &answer; });
  const std::shared_ptr<Answer> held = std::move(*at);
  answers_.erase(at);
  const LinkConfig& link = held->link_;
  const bool stands = is_latest(held->order_, link.name, held->number_);
  // What was only told again is not undone: a peer that could not spare that link just now hears of
  // it once more when another one is up, and one whose host lacks an address after a while. If its file
  // does not allow it, or it can't spare it the next time either, `status` says so.
  if (!held->operator_waits()) {
    tell_again_ = tell_again_ || status == EBUSY;
    lacks_address_ = lacks_address_ || status == EADDRNOTAVAIL || status == EADDRINUSE;
    note_refused(*held, status, why);
  } else if (status == 0) {
    held->reply_("link " + link.name + " is " + done_word(held->order_) +
                 " on both nodes, until twinblockd ends; for good: " + core_.config.path +
                 " on both hosts");
  } else {
    // Both nodes or none, but for a later order that holds by now.
    const bool as_before = stands && put_back(link.name, held->before_);
    tell_refused(held->order_, link.name, why);
    held->reply_(Error{core_.peer + " refuses: " + why, as_before ? "nothing was changed" : "", status});
  }
  // The peer does not come over it any more.
  if (status == 0 && stands && held->order_ == LinkOrder::kRemove) session().roster().forget(link.name);
}

void LinkOrders::tell_refused(LinkOrder order, const std::string& link, const std::string& why) {
  core_.events().tell(
      "link-order-refused",
      {{"link", link}, {"order", done_word(order)}, {"by", core_.peer}, {"reason", why}});
  core_.log.log(
      Severity::kWarning,
      core_.peer + " refuses that link " + link + " is " + done_word(order) + ": " + why);
}

// Or that it does not refuse it any more. At first another link may only be about to be up there.
void LinkOrders::note_refused(const Answer& answer, int status, const std::string& why) {
  if (!is_latest(answer.order_, answer.link_.name, answer.number_)) return;
  Latest* latest = about(latest_, answer.link_.name);
  const bool was_busy = std::exchange(latest->was_busy, status == EBUSY);
  const bool refused = status != 0 && (status != EBUSY || was_busy);
  if (refused && latest->refused.empty()) tell_refused(latest->order, latest->link.name, why);
  latest->refused = refused ? why : "";
}

std::vector<RefusedLinkOrder> LinkOrders::refused() const {
  std::vector<RefusedLinkOrder> refused;
  for (const Latest& each : latest_)
    if (!each.refused.empty()) refused.push_back({each.link.name, each.order, each.refused});
  return refused;
}

// `latest`: the order about that link that this one overrules, or says again; null: there was none.
std::optional<Error> LinkOrders::take(LinkOrder order, const LinkConfig& link, uint64_t number, const Latest* latest) {
  // The peer may know a later one about that link than this one, which says the same.
  const bool holds_still = latest != nullptr && latest->without_numbers && !peer_numbers_.known();
  if (auto error = obey(order, link)) return error;
  remember(order, link, number);
  latest_.back().without_numbers = holds_still;
  core_.peer_told("link " + link.name, std::string("is ") + done_word(order) + " by the operator on " + core_.peer,
                  Severity::kInfo);
  core_.events().tell("link-order", {{"link", link.name}, {"order", done_word(order)}, {"by", core_.peer}});
  return std::nullopt;
}

void LinkOrders::heard(const wire::LinkChangeFrame& frame,
                       const wire::LinkChangePayload& payload) {
  const LinkOrder order = order_of(payload.change);
  std::map<std::string, std::string> addresses;
  if (order == LinkOrder::kAdd || payload.address[0][0] != 0)
    for (size_t i = 0; i < core_.config.nodes.size(); ++i)
      addresses[core_.config.nodes[i].name] = wire::get_name(payload.address[i]);
  const Result<LinkConfig> told =
      make_link(wire::get_name(payload.name), addresses, "", {core_.node, core_.peer});
  LinkConfig link = told ? told.value() : LinkConfig{};
  link.rate_bits_per_s = payload.rate_bits_per_s;
  Latest* const latest = told ? about(latest_, link.name) : nullptr;
  std::optional<Error> error;
  if (!told) error = told.error();
  const bool leaps = order_number_leaps(payload.number, number_);
  if (leaps)
    error = Error{"the order has number " + std::to_string(payload.number) + ", and " +
                      std::to_string(number_) + " is the highest that " + core_.node + " knows",
                  "restart twinblockd on " + core_.peer, EPROTO};
  if (!error && latest == nullptr && latest_.size() >= limits::kLinkOrdersMax)
    error = Error{core_.node + " keeps orders about " + std::to_string(limits::kLinkOrdersMax) +
                      " links already",
                  "restart twinblockd on both nodes", ENOSPC};
  const bool is_told_again =
      latest != nullptr && latest->number == payload.number && says_the_same(*latest, order, link);
  std::optional<Error> overruled;
  if (!error && !is_told_again) {
    if (latest != nullptr) overruled = why_overruled(*latest, order, link, payload.number);
    if (overruled)
      latest->is_contradicted = true;
    else
      error = take(order, link, payload.number, latest);
  }
  if (!leaps) number_ = std::max(number_, payload.number);
  if (error)
    core_.peer_told("an order of the operator on " + core_.peer + " about link " + link.name,
                    "is refused: " + error->what, Severity::kWarning);
  if (overruled) error = overruled;  // whoever gave it hears of it; here it was said when the later one was given
  if (!session().up()) return;
  wire::AckFrame ack{.request = frame.request};
  if (error) ack.error = static_cast<uint32_t>(error->code != 0 ? error->code : EINVAL);
  const std::string why =
      !error ? "" : error->what + (error->action.empty() ? "" : " (" + error->action + ")");
  session().send_ordered(ack, wire::text_bytes(why));
}

// The peer may have started anew, with the links of its configuration.
void LinkOrders::session_up() {
  tell_again_ = lacks_address_ = false;
  told_ns_ = core_.clock.now_ns();
  for (const Latest& each : std::vector(latest_)) tell(each, {}, nullptr);
}

// Where the other process was new as well, both do this, and the rule for numbers decides. A removal that comes before other
// addresses goes along.
void LinkOrders::peer_told_all() {
  if (!peer_numbers_.all_told()) return;
  std::vector<Latest> later;
  for (Latest& each : latest_) {
    if (!each.without_numbers || !about(latest_, each.link.name)->is_contradicted) continue;
    each.number = ++number_;
    later.push_back(each);
  }
  for (const Latest& each : later) tell(each, {}, nullptr);
}

void LinkOrders::session_lost() {
  tell_again_ = lacks_address_ = false;  // all are told anyway when the next one is up
  for (Latest& each : latest_) each.was_busy = false;
  for (auto& answer : std::exchange(answers_, {})) answer->lost();
}

// Neither at every tick nor while the session hangs on the very link that an order takes away.
void LinkOrders::links_changed() {
  if (!session().up() || core_.clock.now_ns() - told_ns_ < limits::kListenAgain_ns) return;
  const auto can_be_spared = [this](const Latest& each) { return session().roster().can_spare(each.link.name); };
  if (lacks_address_ || (tell_again_ && std::any_of(latest_.begin(), latest_.end(), can_be_spared))) session_up();
}

}  // namespace twinblock
