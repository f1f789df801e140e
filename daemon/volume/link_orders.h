// The links at run time: what the operators order, on both nodes. The latest order about each link is
// kept until this process ends, and told to a peer that starts anew, or was away; of two orders that
// were given while the nodes could not talk, the one with the higher number counts; but what a process
// ordered that was new then, and could not know the peer's numbers, holds against what the peer knew before.
//
// Owned by EngineSession; loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "volume/core.h"
#include "volume/link_order.h"
#include "volume/order_number.h"
#include "wire/codec.h"

namespace twinblock {

class LinkOrders {
 public:
  // A sentence for the operator, or an error with an action.
  using Reply = std::function<void(Result<std::string>)>;

  explicit LinkOrders(Core& core) : core_(core) {}

  // The operator's, here. `link.address` may be empty for kAdd: then those are used that the
  // configuration has for this name. The other orders look at the name only.
  void change(LinkOrder order, const LinkConfig& link, Reply reply);
  // The peer's; answered.
  void heard(const wire::LinkChangeFrame& frame, const wire::LinkChangePayload& payload);
  // The peer may have started anew, with the links of its configuration.
  void session_up();
  // What the peer knew of when the session began has been heard.
  void peer_told_all();
  void session_lost();
  void links_changed();
  // What the peer does not allow.
  [[nodiscard]] std::vector<RefusedLinkOrder> refused() const;

 private:
  class Answer;
  struct Latest {
    LinkOrder order;
    LinkConfig link;
    uint64_t number;
    std::string refused = {};  // by the peer, with which this node was not in touch then: why
    bool was_busy = false;  // … it could not spare the link when it was told last
    bool without_numbers = false;  // given here before the peer had told this process its numbers
    bool is_contradicted = false;  // by an order that the peer told
  };
  // How it was with a link before an order that the peer may refuse.
  struct Before {
    std::optional<LinkConfig> link;  // none: there was no such link
    bool enabled = false;
    std::vector<Latest> orders;  // about it
  };

  [[nodiscard]] Session& session() const { return core_.session; }
  [[nodiscard]] std::optional<Error> why_not_change(LinkOrder order, const LinkConfig& link) const;
  Status apply(LinkOrder order, const LinkConfig& link);
  std::optional<Error> obey(LinkOrder order, const LinkConfig& link);
  [[nodiscard]] std::optional<Error> why_not_obey(LinkOrder order, const LinkConfig& link) const;
  [[nodiscard]] bool is_last_of_file(const std::string& link) const;
  void remember(LinkOrder order, const LinkConfig& link, uint64_t number);
  [[nodiscard]] Before as_it_is(const std::string& link) const;
  bool put_back(const std::string& link, const Before& before);
  void tell(const Latest& order, Before before, Reply reply);
  [[nodiscard]] std::optional<Error> why_overruled(const Latest& latest, LinkOrder order, const LinkConfig& link,
                                                   uint64_t number) const;
  std::optional<Error> take(LinkOrder order, const LinkConfig& link, uint64_t number, const Latest* latest);
  [[nodiscard]] bool awaits_answer(const std::string& link) const;
  [[nodiscard]] bool is_latest(LinkOrder order, const std::string& link, uint64_t number) const;
  void answered(Answer& answer, int status, const std::string& why);
  void tell_refused(LinkOrder order, const std::string& link, const std::string& why);
  void note_refused(const Answer& answer, int status, const std::string& why);

  Core& core_;
  // Of each link, in the order in which they were given; and a removal that comes before other addresses of a link.
  std::vector<Latest> latest_;
  // Of the latest order that either node is known to have given: the next one has the next number.
  uint64_t number_ = 0;
  PeerNumbers peer_numbers_;
  std::vector<std::shared_ptr<Answer>> answers_;
  bool tell_again_ = false;  // the peer could not do one of them yet
  bool lacks_address_ = false;  // … as its host does not have a link's address, or another program has it
  uint64_t told_ns_ = 0;  // when all of them were told last
};

}  // namespace twinblock
