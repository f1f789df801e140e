// The handshake: what two nodes say of themselves, as bytes and back; who is brought up to date.
// The two sides reach mirrored verdicts whatever they say, a name never puts a control character
// into a log, and nobody's history is given up without an order.
//
// Input: two descriptions of a node, then raw name fields.
#include <cstring>

#include "config/config.h"
#include "input.h"
#include "mirror/generation.h"
#include "session/hello.h"
#include "words/verdict_words.h"

namespace twinblock::fuzz {
namespace {

constexpr bool SyncFacts::*kFlags[] = {
    &SyncFacts::blank,       &SyncFacts::joinable,     &SyncFacts::primary,
    &SyncFacts::crashed,     &SyncFacts::backing_lost, &SyncFacts::inconsistent,
    &SyncFacts::disk_failed, &SyncFacts::dirty,        &SyncFacts::map_valid,
    &SyncFacts::discard,     &SyncFacts::keep,         &SyncFacts::flush_failed};

// From few numbers, so that two nodes have some in common.
uint64_t generation_from(Input& input) {
  const uint8_t choice = input.byte();
  return choice < 0xF0 ? choice % 8 : input.take<uint64_t>();
}

SyncFacts facts_from(Input& input, bool preferred) {
  SyncFacts facts;
  const auto flags = input.take<uint16_t>();
  for (size_t i = 0; i < std::size(kFlags); ++i) facts.*kFlags[i] = (flags >> i & 1) != 0;
  facts.preferred = preferred;
  facts.volume_uuid[0] = (flags >> 15) != 0 ? 1 : 2;
  metadata::Generations& generations = facts.generations;
  generations.current = generation_from(input);
  generations.base = generation_from(input);
  for (size_t i = 0, known = input.below(wire::kHistoryEntries + 1); i < known; ++i)
    generations.history[i] = generation_from(input);
  facts.term = generation_from(input);
  facts.dirty_bytes = generation_from(input);
  facts.since_s = generation_from(input);
  facts.state_id = generation_from(input);
  facts.gives_up = generation_from(input);
  return facts;
}

// What a node on disk can be: not everything that bits can say.
bool plausible(const SyncFacts& facts) {
  const metadata::Generations& own = facts.generations;
  if (facts.blank) return own == metadata::Generations{} && !facts.primary && !facts.inconsistent;
  return own.current != 0 && own.base != 0 && !facts.joinable && !(facts.discard && facts.keep);
}

void check_roundtrip(const Config& config, const SyncFacts& facts, bool fast_zero) {
  const wire::HelloPayload hello =
      make_hello(config, "alpha", "main", metadata::Uuid{7}, facts, config.size_bytes, fast_zero);
  const SyncFacts again = facts_of(hello, facts.preferred);
  require(same_facts(facts, again) && facts.dirty_bytes == again.dirty_bytes &&
              facts.since_s == again.since_s && facts.state_id == again.state_id && facts.preferred == again.preferred,
          "a hello does not say what it was made from");
  const HelloMismatch mismatch = compare_hello(hello, config, "beta", config.size_bytes);
  require(mismatch.for_us.empty() && mismatch.for_peer.empty(), "a right hello is refused");
  const metadata::Generations told = generations_of(
      make_generation(facts.generations, facts.volume_uuid, wire::kGenerationConsistent));
  require(told == facts.generations, "a generation does not say what it was made from");
}

void check_verdict(const SyncFacts& mine, const SyncFacts& theirs) {
  const Verdict here = decide(mine, theirs);
  const Verdict there = decide(theirs, mine);
  require(mirrored(here) == there && mirrored(there) == here, "verdicts that are not mirrored",
          explain(here, "beta") + " / " + explain(there, "alpha"));
  require(is_usable(here) == is_usable(there) && is_source(here) == is_target(there),
          "one side takes the verdict for usable");
  require(!explain(here, "beta").empty(), "a verdict without words");
  require(printable_line(explain(here, "beta") + advise(here, "r0", "beta")), "words in pieces");
  if (!plausible(mine) || !plausible(theirs) || !is_target(here)) return;
  require(!mine.primary, "a primary is overwritten");
  require(!theirs.blank && !theirs.inconsistent && !theirs.disk_failed,
          "copied from what is not whole");
  const bool ordered = gives_itself_up(mine) || gives_up(theirs, mine);
  const bool nothing_to_lose = mine.blank || mine.inconsistent || mine.backing_lost;
  require(ordered || nothing_to_lose || theirs.generations.knows(mine.generations.current) ||
              mine.generations.knows(theirs.generations.current),
          "a history is given up that nobody ordered to be", explain(here, "beta"));
  require(!mine.blank || mine.joinable, "a disk that nobody gave up is overwritten");
}

void check_generations(metadata::Generations generations, uint64_t fresh) {
  if (generations.current == 0 || fresh == 0 || generations.knows(fresh)) return;
  const uint64_t was = generations.current;
  const bool shared = generations.base == generations.current;
  metadata::Generations alone = generations;
  alone.advance(fresh);
  require(alone.current == fresh && alone.knows(was), "a history without its past");
  require(!shared || alone.base == was, "what was shared is no longer the base");
  alone.settle();
  require(alone.base == fresh && alone.knows(was), "settling forgets the past");
}

// Fields that another program, or a fault, has filled.
void check_names(const Config& config, Input& input, const SyncFacts& facts) {
  wire::HelloPayload hello = make_hello(config, "alpha", "main", metadata::Uuid{}, facts, config.size_bytes, false);
  std::byte* bytes = reinterpret_cast<std::byte*>(&hello);
  while (!input.empty()) {
    const size_t at = input.below(sizeof hello);
    const auto patch = input.bytes(std::min<size_t>(input.below(72), sizeof hello - at));
    if (!patch.empty()) std::memcpy(bytes + at, patch.data(), patch.size());
  }
  const HelloMismatch mismatch = compare_hello(hello, config, "beta", config.size_bytes);
  require(mismatch.for_us.empty() == mismatch.for_peer.empty(), "only one side is told");
  require(printable_line(mismatch.for_us) && printable_line(mismatch.for_peer),
          "a name brings control characters into the log", mismatch.for_us);
  if (!mismatch.for_us.empty()) return;
  require(hello.size_bytes == config.size_bytes && wire::get_name(hello.volume) == config.volume &&
              wire::get_name(hello.node) == "alpha" && wire::get_name(hello.peer) == "beta",
          "a hello of something else passed");
  (void)decide(facts_of(hello, true), facts_of(hello, false));
}

}  // namespace
}  // namespace twinblock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace twinblock;
  using namespace twinblock::fuzz;
  static const Config config = [] {
    Config made;
    made.volume = "r0";
    made.size_bytes = kMiB;
    made.nodes = {{"alpha", "/a", "/am", "/run"}, {"beta", "/b", "/bm", "/run"}};
    return made;
  }();
  Input input(data, size);
  const SyncFacts mine = facts_from(input, true);
  const SyncFacts theirs = facts_from(input, false);
  check_roundtrip(config, mine, input.byte() % 2 != 0);
  check_verdict(mine, theirs);
  check_generations(mine.generations, generation_from(input));
  check_names(config, input, theirs);
  return 0;
}
