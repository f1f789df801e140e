#include "volume/split_brain_orders.h"

#include <cerrno>
#include <utility>

#include "words/loss_words.h"

namespace twinblock {
namespace {

// What is not known counts as the whole volume.
metadata::GivenUp name_of(const SyncFacts& loser, const SyncFacts& other, uint64_t volume_bytes) {
  return {loser.state_id, loser.generations.current, loser.term,
          knows_the_loss(loser, other, volume_bytes) ? loser.dirty_bytes : volume_bytes};
}

}  // namespace

// An order of `resolve`: who loses what to whom, as both are known at this moment.
struct SplitBrainOrders::Order {
  bool keep_local;
  const SyncFacts& mine;
  const SyncFacts& theirs;
  const std::string& loser;
  const std::string& winner;
  uint64_t volume_bytes;

  [[nodiscard]] const SyncFacts& lost() const { return keep_local ? theirs : mine; }
  [[nodiscard]] const SyncFacts& kept() const { return keep_local ? mine : theirs; }
  [[nodiscard]] std::string loss() const { return loser + "'s " + written(lost(), kept(), volume_bytes); }
  [[nodiscard]] std::string demote_first(const std::string& volume) const {
    return "`twinblock demote " + volume + "` on " + loser;
  }
};

std::optional<Error> SplitBrainOrders::why_not(const Order& order) const {
  if (order.kept().inconsistent)
    return Error{order.winner + "'s replica is half-copied: it can't be the one that stays",
                 "keep the other one", EINVAL};
  if (order.lost().state_id == 0)
    return Error{order.loser + " does not say which state its replica is in, so that no order can "
                               "name it",
                 "run the same version of twinblock on both nodes", EINVAL};
  return std::nullopt;
}

void SplitBrainOrders::resolve(bool keep_local, bool dry_run, uint64_t seen_state, Reply reply) {
  const std::string& volume = core_.config.volume;
  const auto& theirs = core_.session.handshake().peer_facts();
  const SyncFacts mine = facts_();
  const auto& verdict = core_.session.handshake().last_verdict();
  if (core_.session.up() || !verdict || !is_split_brain(*verdict) || !theirs ||
      !diverged(mine, *theirs)) {
    reply(Error{"there is no split brain to resolve",
                "see `twinblock status " + volume + "` and `twinblock why " + volume + "`",
                EINVAL});
    return;
  }
  const Order order{keep_local, mine, *theirs, keep_local ? core_.peer : core_.node,
                           keep_local ? core_.node : core_.peer, core_.volume_bytes()};
  if (auto error = why_not(order)) {
    reply(*std::move(error));
    return;
  }
  const std::string demote_first = order.demote_first(volume);
  uint64_t& shown = shown_state_[keep_local ? 1 : 0];
  if (dry_run) {
    show(order, reply);
    return;
  }
  if (order.lost().primary && !keep_local) {
    reply(Error{"this node is primary: its clients would see their data change",
                "detach and run " + demote_first + " first", EBUSY});
    return;
  }
  const uint64_t seen = seen_state != 0 ? seen_state : shown;
  if (seen != 0 && seen != order.lost().state_id) {
    shown = order.lost().state_id;
    if (!keep_local) gate_.told();
    reply(Error{order.loser + " has moved on since you were told what would be lost; now it is " +
                    order.loss() + ". Nothing was changed",
                "if that may be lost, " +
                    (seen_state == 0 ? std::string("give the order again")
                                     : "look at it again, and give the order that is shown then: twinblock resolve " + volume +
                                           " --keep " + (keep_local ? "local" : "peer")) +
                    (order.lost().primary
                         ? "; as long as " + order.loser + " is primary it moves on: detach and run " +
                               demote_first + " first"
                         : ""),
                EAGAIN});
    return;
  }
  take(order, std::move(reply));
}

void SplitBrainOrders::show(const Order& order, const Reply& reply) {
  shown_state_[order.keep_local ? 1 : 0] = order.lost().state_id;
  if (!order.keep_local) gate_.told();  // what is written from now on was not shown
  reply("nothing was changed. What would be lost: " + order.loss() +
        ". What stays: " + order.winner + "'s " + written(order.kept(), order.lost(), order.volume_bytes) + "." +
        (order.lost().primary ? " Before it can be done: detach and run " +
                                    order.demote_first(core_.config.volume) +
                                    "; what is written until then makes the order void."
                              : std::string()));
}

// What the operator should know of other orders, those before and those at the peer.
std::string SplitBrainOrders::beside_others(const Order& order) const {
  const metadata::NodeRecord& record = core_.record();
  std::string said;
  if (order.keep_local ? record.discard : record.keep)
    said += ". This takes back the order to give up " + order.winner + "'s writes";
  else if ((record.discard || record.keep) &&
           record.given_up.state_id != order.lost().state_id)
    said += ". The order before this one was void: it named " +
            named(record.given_up.dirty_bytes, record.given_up.generation, record.given_up.term);
  const bool peer_gives_mine_up = gives_up(order.theirs, order.mine);
  const bool peer_gives_itself_up = gives_itself_up(order.theirs);
  if (order.keep_local ? peer_gives_mine_up : peer_gives_itself_up)
    said += ". But " + core_.peer + " has the order to give up " + order.winner +
            "'s writes: while the two contradict each other nothing is given up; give the same "
            "order on both";
  else if (order.keep_local ? peer_gives_itself_up : peer_gives_mine_up)
    said += ". " + core_.peer + " has the same order";
  return said;
}

void SplitBrainOrders::take(const Order& order, Reply reply) {
  const metadata::NodeRecord& record = core_.record();
  const std::string when =
      order.loser + " is brought up to date as soon as " +
      (order.lost().primary ? "it is demoted (`twinblock demote " + core_.config.volume + "` on " +
                                  order.loser + ") and "
                            : "") +
      "the two are connected" +
      (order.keep_local ? ". If " + order.loser +
                              " writes anything more until then, or is promoted, the order is void"
                        : "");
  const std::string beside = beside_others(order);
  const std::string loss = order.loss();
  const bool repeated = (order.keep_local ? record.keep : record.discard) &&
                        record.given_up.state_id == order.lost().state_id;
  if (repeated) {
    const NodeState::Durable& durable = core_.state().durable();
    const std::string said = "this order stands already: " + loss + " are given up; " + when + beside;
    if ((order.keep_local ? durable.keep : durable.discard) && durable.given_up_state_id == order.lost().state_id)
      reply(said);
    else
      core_.state().persist([this, reply = std::move(reply), said](int error) {
        reply(error == 0 ? Result<std::string>(said) : disks_.why_metadata_failed(error));
      });
    return;
  }
  core_.state().take_order(order.keep_local,
                           name_of(order.lost(), order.kept(), core_.volume_bytes()));
  core_.state().persist([this, reply = std::move(reply), loser = order.loser, loss, when,
                         beside](int error) {
    if (error != 0) {
      core_.state().drop_order();
      reply(disks_.why_metadata_failed(error));
      return;
    }
    core_.log.log(Severity::kWarning, "split brain resolved by the operator: " + loss + " are given up");
    core_.events().tell("split-brain-resolved",
                      {{"given_up", loser}, {"reason", loss + " are given up"}});
    core_.session.poke();
    reply(loss + " are given up; " + when + beside);
  });
}

}  // namespace twinblock
