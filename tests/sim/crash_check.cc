#include "crash_check.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "metadata/memory_doubt.h"
#include "report.h"

namespace twinblock::sim {
namespace {

SyncFacts facts_at_start(const metadata::Loaded& loaded, bool backing_is_empty, bool preferred,
                         uint64_t boot) {
  SyncFacts facts;
  facts.preferred = preferred;
  facts.instance = preferred ? 1 : 2;  // of no process that has been
  facts.boot = boot;
  facts.blank = loaded.blank;
  facts.joinable = loaded.blank && backing_is_empty;
  if (loaded.blank) return facts;
  const metadata::NodeRecord& record = loaded.record;
  facts.crashed = record.primary;
  facts.rebooted = record.primary && record.boot != boot;
  facts.peer_instance = record.peer_instance;
  facts.peer_boot = record.peer_boot;
  facts.inconsistent = record.inconsistent;
  facts.flush_failed = record.flush_failed;
  facts.backing_lost = backing_is_empty && record.held_data;
  facts.map_valid = !facts.backing_lost;
  facts.discard = record.discard;
  facts.keep = record.keep;
  if (record.keep || record.discard) facts.gives_up = record.given_up.state_id;
  facts.state_id = record.state_id;
  facts.volume_uuid = record.volume_uuid;
  facts.generations = record.generations;
  facts.term = record.term;
  facts.sessions = record.sessions;
  return facts;
}

// As volume/resumption.h has it.
bool would_go_on(const metadata::NodeRecord& record, const SyncFacts& facts) {
  return record.promoted_boot != 0 && record.promoted_boot == facts.boot && !facts.inconsistent &&
         !facts.backing_lost && !facts.flush_failed && !facts.discard;
}

BlockMap set_at_start(const metadata::Loaded& loaded, uint64_t volume_bytes) {
  BlockMap own(volume_bytes);
  if (loaded.dirty) {
    own.merge(*loaded.dirty);
  } else if (loaded.record.all_dirty) {
    own.set_all();
  } else if (loaded.record.primary || loaded.record.dirty) {
    const uint64_t region_bytes = loaded.record.region_bytes;
    for (uint64_t at = 0; at < volume_bytes; at += region_bytes) {
      const uint64_t region = at / region_bytes;
      if ((loaded.intent_words[region / 64] >> (region % 64) & 1) != 0)
        own.set(at, std::min(region_bytes, volume_bytes - at));
    }
  }
  return own;
}

}  // namespace

Remains remains_of(SimNode& node, const SimNode& peer, Random& random) {
  const bool power = random.chance(0.5);
  Remains remains{power ? node.data().after_power_loss(random) : node.data().after_kill(random),
                  {},
                  BlockMap(node.data().size_bytes()),
                  node.name() + (power ? " without power" : " killed"),
                  !power};
  const DiskImage file =
      power ? node.metadata().after_power_loss(random) : node.metadata().after_kill(random);
  const auto read = [&file](uint64_t offset_bytes, std::span<std::byte> into) {
    file.read(offset_bytes, into);
    return ok_status();
  };
  const Result<metadata::Loaded> loaded =
      metadata::load(read, file.size_bytes(), remains.data.size_bytes(), node.name() + ".meta");
  if (!loaded)
    Report::violation("a crash now would leave metadata that " + node.name() +
                      " refuses: " + loaded.error().what);
  if (!power) remains.deceiving = node.data().deceiving_sectors();
  remains.facts = facts_at_start(loaded.value(), node.data().is_new(), node.name() < peer.name(),
                                 power ? node.boot() + 2 : node.boot());
  if (!remains.facts.blank) remains.own = set_at_start(loaded.value(), remains.data.size_bytes());
  remains.forgets_failed_flush = !remains.facts.blank && !remains.facts.flush_failed;
  if (remains.forgets_failed_flush && !power)
    remains.facts.flush_failed = node.data().memory_deceives(doubtful_ranges(loaded.value()));
  remains.peer_primary = loaded.value().record.peer_primary;
  remains.sessions_on_record = remains.facts.sessions.stood[0] != 0;
  if (node.goes_on() && !remains.facts.blank)
    remains.facts.resumes = would_go_on(loaded.value().record, remains.facts);
  if (power) remains.facts.flush_failed = false;  // the cache is gone
  remains.facts.dirty = loaded.value().record.dirty || !remains.own.empty();
  return remains;
}

Remains survivor(SimNode& node, Random& random) {
  EngineInside::Outlook outlook = node.engine().inside().without_peer();
  return {node.data().after_kill(random),  // what is under way is so, too, for whoever dies
          outlook.facts,
          std::move(outlook.dirty),
          node.name() + " goes on",
          true,
          false,
          node.data().deceiving_sectors(),
          false,
          outlook.sessions_on_record};
}

std::optional<uint64_t> first_uncovered(const Remains& a, const Remains& b) {
  std::optional<uint64_t> at = first_difference(a.data, b.data);
  while (at && (a.own.any(*at, 1) || b.own.any(*at, 1)))
    at = first_difference(a.data, b.data, *at + limits::kBlockBytes);
  return at;
}

}  // namespace twinblock::sim
