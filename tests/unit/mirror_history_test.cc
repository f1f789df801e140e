// The handshake over everything that two nodes can live through: a small model of a pair, in which
// links break, nodes crash, disks are replaced and operators promote and give orders, is searched
// through to a depth, and beyond it by chance. The model knows what decide() can't: which writes
// each disk really holds, and which histories really contain each other.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <string>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "mirror/generation.h"

namespace twinblock {
namespace {

constexpr unsigned kWritesMax = 32, kGenerationsMax = 63;

// Each write goes to a block of its own; sets of blocks and of generations are bits.
struct Node {
  metadata::Generations generations;
  uint64_t term, heard_term;
  uint64_t contains;       // the truth: all generations that its data come from
  uint64_t named;          // what the loser held when this node was given its order
  uint32_t data, own_set;  // what its disk holds; what may differ, as far as it knows
  uint32_t state_id, gives_up;
  uint8_t primary, crashed, lost, inconsistent, shared, discard, keep, reserved;
};

enum Link : uint32_t { kDown, kDuplex, kResync };
struct World {
  std::array<Node, 2> nodes;
  uint32_t promised;  // writes that a client was told are stable
  uint32_t link, source;
  uint32_t writes, generations;  // made until now
  uint32_t ever_lost;
  uint32_t states, reserved;  // made until now
};
static_assert(std::has_unique_object_representations_v<World>);

enum class Event {
  kConnect,
  kCopyABlock,
  kFinish,
  kFinishUnheard,  // the target records that it is whole; the source does not hear of it
  kLoseLink,
  kPromote,  // from here on with an actor
  kDemote,
  kWrite,
  kCrash,
  kCrashWritingHere,   // … with a write that has reached its own disk only
  kCrashWritingThere,  // … the peer's only
  kPeerLosesCache,     // a write that the peer acknowledged is lost with its power
  kLoseBacking,
  kOrderKeepLocal,
  kOrderKeepPeer,
};
struct Step {
  Event event;
  uint32_t actor;
};
const std::vector<Step>& all_steps() {
  static const std::vector<Step> steps = [] {
    std::vector<Step> all;
    for (int e = 0; e <= static_cast<int>(Event::kOrderKeepPeer); ++e)
      for (uint32_t actor = 0; actor < (e < static_cast<int>(Event::kPromote) ? 1u : 2u); ++actor)
        all.push_back({static_cast<Event>(e), actor});
    return all;
  }();
  return steps;
}
constexpr const char* kEventNames[] = {"connect",
                                       "copy a block",
                                       "finish",
                                       "finish, unheard",
                                       "lose link",
                                       "promote",
                                       "demote",
                                       "write",
                                       "crash",
                                       "crash, written here",
                                       "crash, written there",
                                       "peer loses cache",
                                       "lose backing",
                                       "resolve --keep local",
                                       "resolve --keep peer"};

bool contains(const Node& node, uint64_t generation) {
  return (node.contains >> generation & 1u) != 0;
}
bool diverged(const World& w) {
  return !contains(w.nodes[0], w.nodes[1].generations.current) &&
         !contains(w.nodes[1], w.nodes[0].generations.current);
}

SyncFacts facts_of(const World& w, uint32_t i) {
  const Node& node = w.nodes[i];
  SyncFacts facts;
  facts.primary = node.primary != 0;
  facts.crashed = node.crashed != 0;
  facts.backing_lost = node.lost != 0;
  facts.inconsistent = node.inconsistent != 0;
  facts.dirty = node.own_set != 0;
  facts.map_valid = node.lost == 0;
  facts.discard = node.discard != 0;
  facts.keep = node.keep != 0;
  facts.gives_up = node.gives_up;
  facts.state_id = node.state_id;
  facts.preferred = i == 0;
  facts.generations = node.generations;
  facts.term = node.term;
  return facts;
}

World start() {
  World w{};
  for (Node& node : w.nodes) {
    node.generations.current = node.generations.base = 1;
    node.contains = 1u << 1;
    node.data = 1;
    node.state_id = ++w.states;
  }
  w.nodes[0].primary = 1;
  w.nodes[0].term = w.nodes[1].heard_term = 1;
  w.promised = 1;
  w.link = kDuplex;
  w.writes = w.generations = 1;
  return w;
}

uint32_t new_write(World& w) { return 1u << w.writes++; }

void fall_back(Node& node) {
  node.crashed = node.crashed | node.primary;
  node.primary = 0;
}

// Alone, the first write makes a new generation; each makes old orders void: they were about other
// writes.
void write_alone(World& w, Node& me) {
  me.state_id = ++w.states;
  if (me.generations.current == me.generations.base || me.shared != 0) {
    me.generations.advance(++w.generations);
    me.contains |= uint64_t{1} << w.generations;
    me.shared = 0;
  }
  const uint32_t block = new_write(w);
  me.data |= block;
  me.own_set |= block;
  w.promised |= me.data;  // its client flushes
}

void write(World& w, Node& me, Node& peer) {
  if (w.link == kDown) return write_alone(w, me);
  const uint32_t block = new_write(w);
  me.data |= block;
  peer.data |= block;
  if (w.link == kResync) me.own_set |= block;
  w.promised |= block;
}

// What nodes that are at one forget.
void settle(Node& node) {
  node.generations.settle();
  node.own_set = 0;
  node.crashed = node.lost = node.inconsistent = node.shared = node.discard = node.keep = 0;
}

void connect(World& w) {
  const SyncFacts a = facts_of(w, 0), b = facts_of(w, 1);
  const Verdict verdict = decide(a, b);
  for (uint32_t i : {0u, 1u})
    w.nodes[i].heard_term = std::max(w.nodes[i].heard_term, w.nodes[1 - i].term);
  if (verdict == Verdict::kInSync) {
    w.link = kDuplex;
    for (Node& node : w.nodes) settle(node);
    w.promised |= w.nodes[0].data;
  } else if (is_source(verdict) || is_target(verdict)) {
    w.link = kResync;
    w.source = is_source(verdict) ? 0 : 1;
    Node &source = w.nodes[w.source], &target = w.nodes[1 - w.source];
    target.inconsistent = 1;
    source.state_id = ++w.states;
    if (std::exchange(target.lost, uint8_t{0}) != 0) target.own_set = ~uint32_t{0};
    const bool all = verdict == Verdict::kSourceOfAll || verdict == Verdict::kTargetOfAll;
    source.own_set |= all ? ~uint32_t{0} : target.own_set;
  }
}

void copy_a_block(Node& source, Node& target) {
  const uint32_t differing = (source.data ^ target.data) & source.own_set;
  const uint32_t block = differing & (~differing + 1);
  target.data ^= block;
  source.own_set &= ~block;  // flushed on both
}

void finish(World& w, bool heard) {
  Node &source = w.nodes[w.source], &target = w.nodes[1 - w.source];
  target.data = (target.data & ~source.own_set) | (source.data & source.own_set);
  target.generations = source.generations;
  target.contains = source.contains;
  settle(target);
  w.promised = (w.promised & source.data) | source.data;
  w.link = heard ? kDuplex : kDown;
  if (heard)
    settle(source);
  else
    source.shared = 1;
}

bool promote(World& w, uint32_t i) {
  Node &me = w.nodes[i], &peer = w.nodes[1 - i];
  const bool asked = w.link != kDown;
  if (me.primary != 0 || me.inconsistent != 0 || me.lost != 0 || (asked && peer.primary != 0))
    return false;
  me.primary = 1;
  me.state_id = ++w.states;
  me.term = std::max(me.term, me.heard_term) + 1;
  if (asked) peer.heard_term = me.term;
  return true;
}

bool order(World& w, Node& me, const Node& peer, bool keep_local) {
  if (w.link != kDown || !diverged(w)) return false;
  me.keep = keep_local ? 1 : 0;
  me.discard = keep_local ? 0 : 1;
  me.gives_up = keep_local ? peer.state_id : me.state_id;
  me.named = keep_local ? peer.data : me.data;
  return true;
}

bool apply_to_pair(World& w, Event event) {
  switch (event) {
    case Event::kConnect:
      if (w.link != kDown) return false;
      connect(w);
      return w.link != kDown;
    case Event::kCopyABlock:
      if (w.link != kResync) return false;
      copy_a_block(w.nodes[w.source], w.nodes[1 - w.source]);
      return true;
    case Event::kFinish:
    case Event::kFinishUnheard:
      if (w.link != kResync) return false;
      finish(w, event == Event::kFinish);
      return true;
    default:
      if (w.link == kDown) return false;
      w.link = kDown;
      return true;
  }
}

bool crash_writing(World& w, Node& me, Node& on, bool survives) {
  if (w.link != kDuplex || me.primary == 0) return false;
  const uint32_t block = new_write(w);
  on.data |= block;
  me.own_set |= block;  // its intents, or its open epochs, hold it
  w.link = kDown;
  if (!survives) fall_back(me);
  return true;
}

// Whether the step was possible.
bool apply(World& w, const Step& step) {
  if (step.event < Event::kPromote) return apply_to_pair(w, step.event);
  Node &me = w.nodes[step.actor], &peer = w.nodes[1 - step.actor];
  switch (step.event) {
    case Event::kPromote:
      return promote(w, step.actor);
    case Event::kDemote:
      if (me.primary == 0) return false;
      me.primary = me.crashed = 0;
      return true;
    case Event::kWrite:
      if (me.primary == 0) return false;
      write(w, me, peer);
      return true;
    case Event::kCrash:
      fall_back(me);
      w.link = kDown;
      return true;
    case Event::kCrashWritingHere:
      return crash_writing(w, me, me, false);
    case Event::kCrashWritingThere:
      return crash_writing(w, me, peer, false);
    case Event::kPeerLosesCache:
      return crash_writing(w, me, me, true);
    case Event::kLoseBacking:
      if (me.lost != 0) return false;
      fall_back(me);
      me.data = me.own_set = 0;
      me.lost = 1;
      w.link = kDown;
      w.ever_lost = 1;
      return true;
    case Event::kOrderKeepLocal:
    case Event::kOrderKeepPeer:
      return order(w, me, peer, step.event == Event::kOrderKeepLocal);
    default:
      return false;
  }
}

// An order counts for the writes that its giver was told of, and for no later ones.
std::string wrong_loser(const Node& source, const Node& target) {
  const bool by_source = source.keep != 0 && source.gives_up == target.state_id;
  const bool by_target = target.discard != 0 && target.gives_up == target.state_id;
  if (!by_source && !by_target) return "the wrong side's writes are given up";
  // What it has of the source since is not lost.
  const uint64_t kept = source.data | (by_source ? source.named : target.named);
  return (target.data & ~kept) != 0 ? "an order is followed that was about other writes" : "";
}

// What is wrong with the pair; empty when nothing is.
std::string wrong(const World& w) {
  if (w.link == kDuplex && w.nodes[0].data != w.nodes[1].data) return "in duplex, but different";
  if (w.link != kDown) return "";
  const SyncFacts a = facts_of(w, 0), b = facts_of(w, 1);
  const Verdict verdict = decide(a, b);
  if (decide(b, a) != mirrored(verdict)) return "the two sides disagree";
  const bool ordered = a.keep || a.discard || b.keep || b.discard;
  if (diverged(w) ? !is_split_brain(verdict) && !ordered : is_split_brain(verdict))
    return "split brain is not what is reported, or the other way round";
  if (verdict == Verdict::kUnrelated) return "unrelated";
  if (verdict == Verdict::kNoGoodCopy && w.ever_lost == 0 && !diverged(w))
    return "stuck without a good copy, although no disk was lost";
  if (verdict == Verdict::kInSync)
    return w.nodes[0].data == w.nodes[1].data ? "" : "in sync, but different";
  if (!is_usable(verdict)) return "";
  const Node& source = w.nodes[is_source(verdict) ? 0 : 1];
  const Node& target = w.nodes[is_source(verdict) ? 1 : 0];
  if (source.inconsistent != 0) return "half-copied, but the source";
  if (target.primary != 0) return "primary, but the target";
  if (diverged(w)) {
    if (std::string error = wrong_loser(source, target); !error.empty()) return error;
  } else if ((w.promised & ~source.data & (w.ever_lost != 0 ? target.data : ~uint32_t{0})) != 0) {
    return "a promised write is lost";
  }
  const bool by_map = verdict == Verdict::kSourceOfMap || verdict == Verdict::kTargetOfMap;
  if (by_map && ((source.data ^ target.data) & ~(source.own_set | target.own_set)) != 0)
    return "a difference is in neither set";
  return "";
}

std::string story(const std::vector<Step>& steps) {
  std::string text;
  for (const Step& step : steps) {
    text += text.empty() ? "" : "; ";
    if (step.event >= Event::kPromote) text += step.actor == 0 ? "alpha: " : "beta: ";
    text += kEventNames[static_cast<int>(step.event)];
  }
  return text;
}

uint64_t hash_of(const World& w) {
  std::array<uint64_t, sizeof(World) / 8> words{};
  static_assert(sizeof words == sizeof w);
  std::memcpy(words.data(), &w, sizeof w);
  uint64_t hash = 0;
  for (const uint64_t word : words) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return hash;
}

struct Told {
  World world;
  std::vector<Step> steps;
};

// Where stories begin: at the start, and in the middle of events that take long to come about.
std::vector<Told> beginnings() {
  const Step split[] = {{Event::kLoseLink, 0}, {Event::kWrite, 0},  {Event::kPromote, 1},
                        {Event::kWrite, 1},    {Event::kDemote, 1}, {Event::kOrderKeepLocal, 0},
                        {Event::kConnect, 0}};
  std::vector<Told> all{{start(), {}}};
  for (const Step& step : split) {
    Told next = all.back();
    EXPECT_TRUE(apply(next.world, step));
    next.steps.push_back(step);
    all.push_back(next);
  }
  return all;
}

TEST(History, EveryShortStoryEndsInTheRightVerdict) {
  std::unordered_set<uint64_t> seen;
  std::vector<Told> layer = beginnings();
  constexpr unsigned kDepth = 7;
  for (unsigned depth = 0; depth < kDepth; ++depth) {
    std::vector<Told> next;
    for (const Told& told : layer)
      for (const Step& step : all_steps()) {
        World world = told.world;
        if (!apply(world, step) || !seen.insert(hash_of(world)).second) continue;
        std::vector<Step> steps = told.steps;
        steps.push_back(step);
        const std::string error = wrong(world);
        ASSERT_EQ(error, "") << story(steps);
        if (depth + 1 < kDepth) next.push_back({world, std::move(steps)});
      }
    layer = std::move(next);
  }
  EXPECT_GT(seen.size(), 100000u);
}

TEST(History, LongStoriesEndInTheRightVerdict) {
  constexpr unsigned kStories = 50000, kSteps = 40;
  const std::vector<Told> begun = beginnings();
  std::array<uint64_t, 32> verdicts{};
  for (unsigned seed = 0; seed < kStories; ++seed) {
    std::mt19937 random(seed);
    World world = begun[seed % begun.size()].world;
    std::vector<Step> steps = begun[seed % begun.size()].steps;
    while (steps.size() < kSteps && world.writes < kWritesMax - 1 &&
           world.generations < kGenerationsMax) {
      const Step step = all_steps()[random() % all_steps().size()];
      World before = world;
      if (!apply(world, step)) {
        world = before;
        continue;
      }
      steps.push_back(step);
      const std::string error = wrong(world);
      ASSERT_EQ(error, "") << "seed " << seed << ": " << story(steps);
      if (world.link == kDown)
        ++verdicts[static_cast<uint32_t>(decide(facts_of(world, 0), facts_of(world, 1)))];
    }
  }
  for (const Verdict verdict :
       {Verdict::kInSync, Verdict::kSourceOfMap, Verdict::kTargetOfMap, Verdict::kSourceOfAll,
        Verdict::kTargetOfAll, Verdict::kSplitBrain, Verdict::kBothPrimary, Verdict::kPeerOutdated,
        Verdict::kOutdated, Verdict::kNoGoodCopy, Verdict::kPeerMustDemote, Verdict::kMustDemote,
        Verdict::kOrdersContradict, Verdict::kOrderVoid})
    EXPECT_GT(verdicts[static_cast<uint32_t>(verdict)], 100u)
        << "hardly ever reached: verdict " << static_cast<uint32_t>(verdict);
}

}  // namespace
}  // namespace twinblock
