// What a node knows about itself for good, and its coding. Pure; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "metadata/disk_format.h"

namespace twinblock::metadata {

using Uuid = std::array<uint8_t, 16>;

// The identity of a history of writes (design, section 6). 0 is no generation.
struct Generations {
  uint64_t current = 0;
  uint64_t base = 0;  // the last one that both nodes shared; equals current while they still do; 0: there is none
  std::array<uint64_t, kHistoryEntries> history{};  // older ones, latest first; 0: none

  bool operator==(const Generations&) const = default;
  [[nodiscard]] bool knows(uint64_t generation) const;  // current, base or history
  // A new history begins: `fresh` becomes current; what was current stays the base.
  void advance(uint64_t fresh);
  // Both nodes share the current generation from now on: it becomes the base, too.
  void settle() { base = current; }
  // … and nobody has any of it as the base.
  void share_with_nobody() { base = 0; }
  // The data is again what it was in these generations, of which the node whose generation `told` is has gone
  // on: `fresh` begins a history of which that one is no ancestor, whatever it has taken since in `told`.
  void go_on_without(uint64_t told, uint64_t fresh);
};

// Which sessions with the peer a replica has been in: who was put back to what it was before one, with its record, does
// not know that one. Of each the id, which is never used twice; 0 is none.
struct Sessions {
  // The first kSessionsStood the peer has on record, too, the latest first; the rest it may have.
  std::array<uint64_t, kSessionEntries> stood{};
  uint64_t begun = 0;  // since then; the peer may not know of it

  bool operator==(const Sessions&) const = default;
  [[nodiscard]] bool knows(uint64_t session) const;
  // One begins. What the peer says of an earlier one is heeded: that it stood. If it does not say so, that may be about
  // to be on its record, or be so where another replica is that was the peer before: it is not forgotten.
  void begin(uint64_t session, const Sessions& peer);
  void stands(uint64_t session);

 private:
  void put(uint64_t session, size_t place);
  [[nodiscard]] decltype(stood)::iterator place_of(size_t place) {
    return stood.begin() + static_cast<std::ptrdiff_t>(place);
  }
};

// What this node was before it became half-copied: a copy of its backing of then can be brought back. Once it
// has been, taken_s alone stays, and says that it was, until the peer takes part in this history.
struct WayBack {
  Generations generations;  // current 0: there is none
  uint64_t term = 0;
  uint64_t taken_s = 0;       // Unix time
  uint64_t to_get_bytes = 0;  // that might have differed from the source's then

  bool operator==(const WayBack&) const = default;
  explicit operator bool() const { return generations.current != 0; }
  [[nodiscard]] uint64_t rolled_back_to_s() const { return generations.current == 0 ? taken_s : 0; }
};

struct NodeRecord {
  Uuid volume_uuid{};
  std::string volume;
  std::string node;
  uint64_t size_bytes = 0;
  uint32_t region_bytes = kRegionBytesDefault;  // what one intent bit stands for
  Generations generations;
  uint64_t generation_since_s = 0;  // Unix time at which the current generation began
  uint64_t term = 0;        // of this node's last promotion; the higher one was primary last
  uint64_t heard_term = 0;  // the highest that the peer told of itself: the next one is above both
  // When this node last took a peer along in what it writes: its host's boot, the peer's process
  // and the peer's host's boot. 0: unknown. They tell who lived on when this node died as primary.
  uint64_t boot = 0;
  uint64_t peer_instance = 0;
  uint64_t peer_boot = 0;
  // What this replica is at this moment, for orders to name: a random number that is replaced by
  // whatever adds to what an order here or at the peer would give up (ReplicaHistory::move_on()).
  uint64_t state_id = 0;
  GivenUp given_up{};  // what the order named; with `discard` or `keep`
  // The state (of a blank one: the process) of the replica for which the current generation began, and
  // which has not confirmed that it recorded that. 0: none.
  uint64_t begun_for = 0;
  // The host's boot when this node was promoted; 0: not known, or demoted by an order since. On the same
  // one, a process that begins finds in memory all that the last one had written as primary.
  uint64_t promoted_boot = 0;
  // The generation for which the witness was asked, and which begins if it consents; 0: none is asked for.
  uint64_t claim = 0;
  // The generation that the witness' entry named when this node last replaced or read it, or one that this node
  // began after that for another replica, alone: in it, and while the peer can't have it, nobody else gets the
  // witness' consent. 0: not known.
  uint64_t named = 0;
  // The host's boot when this node last was whole beside its peer, or became it: with a peer that was
  // primary, memory holds what was acknowledged since, and the disk may not. 0: not known.
  uint64_t followed_boot = 0;
  // Of the backing that all of this is about (io/posix/backing_number.h); 0: not known.
  uint64_t backing_number = 0;
  // In the same way of the file or device that the record lay in when it was about that; 0: not known.
  uint64_t metadata_number = 0;
  Sessions sessions;
  WayBack way_back;
  bool primary = false;
  bool peer_primary = false;
  bool inconsistent = false;
  bool dirty = false;      // holds writes that the peer may miss
  bool shared = false;     // the peer may have recorded the current generation as its own
  bool all_dirty = false;  // every block may differ from the peer's
  bool discard = false;    // the operator gives this node's writes up
  bool keep = false;       // the operator gives the peer's writes up
  bool held_data = false;  // the backing holds flushed data: found empty, it was lost
  bool flush_failed = false;  // a flush failed: what reads as written may not be on the disk
  bool flushing = false;  // a flush is under way, for long; as loaded (load.h): never
  bool repairing = false;  // blocks of the peer's that differ were to be overwritten with this node's, and not all were
  bool unwitnessed = false;  // when the two nodes met last, they did not both have the same kind of witness
  bool snapshot = false;   // the snapshot is valid and is the whole dirty set
  uint64_t snapshot_bytes = 0;
  uint32_t snapshot_crc = 0;

  bool operator==(const NodeRecord&) const = default;

  void forget_snapshot() {
    snapshot = false;
    snapshot_bytes = 0;
    snapshot_crc = 0;
  }

  // Whether there has ever been a partner: one that joins has a generation begun for it.
  [[nodiscard]] bool had_partner() const { return generations.history.front() != 0; }
  // Whether the peer may be at the current generation, too: it was when both had it, or it was told to
  // record it.
  [[nodiscard]] bool shares_generation() const {
    return generations.current == generations.base || shared;
  }
};

// Whose intent pages are whose.
uint64_t intent_tag(const Uuid& volume_uuid);

// One 4 KiB copy; the first (sequence 1) names no sessions, nor the backing.
std::array<std::byte, sizeof(Superblock)> encode(const NodeRecord& record, uint64_t sequence);

struct DecodedSuperblock {
  NodeRecord record;
  uint64_t sequence = 0;
};
// The copy at `bytes`, or why it can't be used; with an action only if another version of this software wrote it.
Result<DecodedSuperblock> decode(std::span<const std::byte, sizeof(Superblock)> bytes);

std::string format_generation(uint64_t generation);  // 16 hex digits
std::string format_uuid(const Uuid& uuid);

}  // namespace twinblock::metadata
