// Orders that give data up after a split brain: `resolve`, and what each node says of the orders that
// it knows. An order names the state of the replica that it gives up, as its giver saw it
// (NodeRecord::state_id). When that replica has moved on since, the order is void, and both nodes say
// so (design, invariant 13).
#include <cerrno>
#include <utility>

#include "mirror/relation.h"
#include "volume/engine.h"

namespace twinblock {
namespace {

std::string named(uint64_t dirty_bytes, uint64_t generation, uint64_t term) {
  return format_size(dirty_bytes) + " (generation " + metadata::format_generation(generation) +
         ", term " + std::to_string(term) + ")";
}

// Whether a node's set says what the other one lacks. Where its partner was another replica than the
// one that is there (a disk that was put back), it says little of that.
bool knows_the_loss(const SyncFacts& node, const SyncFacts& other) {
  return node.map_valid && relate(kinship(node.generations, other.generations, true)) ==
                               Relation::kDivergedFromBase;
}

// What a node wrote alone. After a crash it knows regions, not blocks.
std::string written(const SyncFacts& node, const SyncFacts& other) {
  const std::string state = "generation " +
                            metadata::format_generation(node.generations.current) + ", term " +
                            std::to_string(node.term);
  if (!knows_the_loss(node, other))
    return "writes of unknown extent, perhaps all over the volume (" + state + ")";
  return (node.crashed ? "at most " : "") + format_size(node.dirty_bytes) +
         " in blocks written since " + format_time(node.since_s) + " (" + state + ")";
}

// What is not known counts as the whole volume.
metadata::GivenUp name_of(const SyncFacts& loser, const SyncFacts& other, uint64_t volume_bytes) {
  return {loser.state_id, loser.generations.current, loser.term,
          knows_the_loss(loser, other) ? loser.dirty_bytes : volume_bytes};
}

}  // namespace

// An order of `resolve`: who loses what to whom, as both are known at this moment.
struct Engine::ResolveOrder {
  bool keep_local;
  const SyncFacts& mine;
  const SyncFacts& theirs;
  const std::string& loser;
  const std::string& winner;

  [[nodiscard]] const SyncFacts& lost() const { return keep_local ? theirs : mine; }
  [[nodiscard]] const SyncFacts& kept() const { return keep_local ? mine : theirs; }
  [[nodiscard]] std::string loss() const { return loser + "'s " + written(lost(), kept()); }
};

std::optional<Error> Engine::why_not_resolve(const ResolveOrder& order) const {
  if (order.kept().inconsistent)
    return Error{order.winner + "'s replica is half-copied: it can't be the one that stays",
                 "keep the other one", EINVAL};
  if (order.lost().state_id == 0)
    return Error{order.loser + " does not say which state its replica is in, so that no order can "
                               "name it",
                 "run the same version of twinblock on both nodes", EINVAL};
  return std::nullopt;
}

void Engine::resolve(bool keep_local, bool dry_run, Reply reply) {
  const std::string& volume = core_.config.volume;
  const auto& theirs = session_.peer_facts();
  const SyncFacts mine = facts();
  if (session_.up() || !session_.last_verdict() || !is_split_brain(*session_.last_verdict()) ||
      !theirs || !diverged(mine, *theirs)) {
    reply(Error{"there is no split brain to resolve",
                "see `twinblock status " + volume + "` and `twinblock why " + volume + "`",
                EINVAL});
    return;
  }
  const ResolveOrder order{keep_local, mine, *theirs, keep_local ? core_.peer : core_.node,
                           keep_local ? core_.node : core_.peer};
  if (auto error = why_not_resolve(order)) {
    reply(*std::move(error));
    return;
  }
  const std::string demote_first = "`twinblock demote " + volume + "` on " + order.loser;
  uint64_t& shown = shown_state_[keep_local ? 1 : 0];
  if (dry_run) {
    shown = order.lost().state_id;
    if (!keep_local) gate_.told();  // what is written from now on was not shown
    reply("nothing was changed. What would be lost: " + order.loss() +
          ". What stays: " + order.winner + "'s " + written(order.kept(), order.lost()) + "." +
          (order.lost().primary ? " Before it can be done: detach and run " + demote_first +
                                      "; what is written until then makes the order void."
                                : std::string()));
    return;
  }
  if (order.lost().primary && !keep_local) {
    reply(Error{"this node is primary: its clients would see their data change",
                "detach and run " + demote_first + " first", EBUSY});
    return;
  }
  if (shown != 0 && shown != order.lost().state_id) {
    shown = order.lost().state_id;
    if (!keep_local) gate_.told();
    reply(Error{order.loser + " has moved on since you were told what would be lost; now it is " +
                    order.loss() + ". Nothing was changed",
                std::string("if that may be lost, give the order again") +
                    (order.lost().primary
                         ? "; as long as " + order.loser + " is primary it moves on: detach and run " +
                               demote_first + " first"
                         : ""),
                EAGAIN});
    return;
  }
  take_order(order, std::move(reply));
}

// What the operator should know of other orders, those before and those at the peer.
std::string Engine::beside_other_orders(const ResolveOrder& order) const {
  const metadata::NodeRecord& record = core_.record;
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

void Engine::take_order(const ResolveOrder& order, Reply reply) {
  metadata::NodeRecord& record = core_.record;
  const std::string when =
      order.loser + " is brought up to date as soon as " +
      (order.lost().primary ? "it is demoted (`twinblock demote " + core_.config.volume + "` on " +
                                  order.loser + ") and "
                            : "") +
      "the two are connected" +
      (order.keep_local ? ". If " + order.loser +
                              " writes anything more until then, or is promoted, the order is void"
                        : "");
  const std::string beside = beside_other_orders(order);
  const std::string loss = order.loss();
  const bool repeated = (order.keep_local ? record.keep : record.discard) &&
                        record.given_up.state_id == order.lost().state_id;
  if (repeated) {
    reply("this order stands already: " + loss + " are given up; " + when + beside);
    return;
  }
  record.keep = order.keep_local;
  record.discard = !order.keep_local;
  record.given_up = name_of(order.lost(), order.kept(), core_.config.size_bytes);
  core_.persist([this, reply = std::move(reply), loser = order.loser, loss, when,
                 beside](int error) {
    if (error != 0) {
      reply(disks_.why_metadata_failed(error));
      return;
    }
    log(Severity::kWarning, "split brain resolved by the operator: " + loss + " are given up");
    core_.events.tell("split-brain-resolved",
                      {{"given_up", loser}, {"reason", loss + " are given up"}});
    session_.poke();
    reply(loss + " are given up; " + when + beside);
  });
}

// Whole sentences on the orders that this node has, or has heard of.
std::vector<std::string> Engine::orders_in_words() const {
  std::vector<std::string> lines;
  const metadata::NodeRecord& record = core_.record;
  const std::string& peer = core_.peer;
  const auto& theirs = session_.peer_facts();
  const SyncFacts mine = facts();
  if (core_.blank || session_.up() || (theirs && !diverged(mine, *theirs))) return lines;
  const metadata::GivenUp& seen = record.given_up;
  if (record.keep || record.discard) {
    std::string line = "By order here, " + (record.keep ? peer : core_.node) + "'s " +
                       named(seen.dirty_bytes, seen.generation, seen.term) + " are given up";
    const SyncFacts* loser = record.discard ? &mine : theirs ? &*theirs : nullptr;
    if (loser != nullptr && loser->state_id != seen.state_id)
      line += "; the order is void, as " + (record.keep ? peer : core_.node) +
              " has moved on since: now it has " +
              named(loser->dirty_bytes, loser->generations.current, loser->term);
    lines.push_back(line + ".");
  }
  if (!theirs) return lines;
  if (theirs->keep)
    lines.push_back("By order at " + peer + ", this node's writes are given up" +
                    (gives_up(*theirs, mine)
                         ? "."
                         : "; the order is void, as this node has moved on since."));
  else if (theirs->discard)
    lines.push_back("By order at " + peer + ", " + peer + "'s own writes are given up" +
                    (gives_itself_up(*theirs)
                         ? "."
                         : "; the order is void, as " + peer + " has moved on since."));
  return lines;
}

void Engine::why_split_brain(std::vector<std::string>& lines) const {
  const auto& theirs = session_.peer_facts();
  if (!theirs || !session_.last_verdict() || !is_split_brain(*session_.last_verdict())) return;
  const SyncFacts mine = facts();
  lines.push_back("Since they parted, this node has " + written(mine, *theirs) + ", " + core_.peer +
                  " has " + written(*theirs, mine) + "; neither has the other's.");
}

}  // namespace twinblock
