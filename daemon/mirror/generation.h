// Who syncs whom: one pure function over what both nodes say of themselves at the handshake
// (design, section 6). Both sides evaluate it, each from its own view, and must reach mirrored
// verdicts. What a verdict means to users: words/verdict_words.h. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "metadata/superblock.h"
#include "mirror/relation.h"
#include "wire/verdicts.h"

namespace twinblock {

// One node as the handshake describes it.
struct SyncFacts {
  bool blank = false;         // no metadata: nothing to lose, nothing to give
  bool joinable = false;      // blank, and its data may be overwritten
  bool primary = false;       // is primary now
  bool crashed = false;       // stopped while primary
  bool resumes = false;       // was primary when its process ended, and would go on as that
  bool backing_lost = false;  // no data were found in its backing, although it held some
  bool other_backing = false;  // its record is about another backing: what this one lacks is not known
  bool moved_together = false;  // … and lies in another place, too: both were copied, or moved
  bool inconsistent = false;  // half-copied, or missed writes
  bool disk_failed = false;   // can't take writes
  bool flush_failed = false;  // a flush failed there: what it reads may not be on its disk, so that
                              // a comparison means nothing
  bool dirty = false;         // knows of blocks that the peer misses
  bool map_valid = false;  // its own set of blocks that may differ (its dirty map; after a crash,
                           // its intents) is complete; false: anything may differ
  bool discard = false;    // ordered by the operator: this node's own writes are given up
  bool keep = false;       // ordered by the operator: the peer's writes are given up
  uint64_t gives_up = 0;   // … as they were in this state; the order is void in any other one
  uint64_t state_id = 0;   // of this node's replica; 0: none that an order could name
  bool preferred = false;  // wins a tie; true on exactly one side (the lower node name)
  metadata::Uuid volume_uuid{};  // blank: of the volume that may be joined; zero: of any
  metadata::Generations generations;
  uint64_t term = 0;  // counts promotions: the node with the higher one was primary later
  metadata::Sessions sessions;  // with the other node
  // Who lived on when a primary died. 0: not known.
  bool rebooted = false;       // crashed, and its host lost what was in memory
  bool forgot = false;  // this process began with a page cache that had dropped what a flush had lost
  uint64_t instance = 0;       // of the process that runs
  uint64_t boot = 0;           // of its host
  uint64_t peer_instance = 0;  // as this node has it on record: the peer's process, when the two
  uint64_t peer_boot = 0;      // were last in a session in which this one wrote; … and its host's

  // Where there is a witness: primary, and has the right to go on alone. Decides nothing about the data.
  bool consented = false;
  // What witness its file has. One that only one of two asks consents to nothing.
  bool asks_register = false;
  bool asks_command = false;

  // To tell users; these never decide anything.
  uint64_t dirty_bytes = 0;  // in this node's own set
  uint64_t since_s = 0;      // Unix time at which the current generation began; 0: unknown
};

using wire::Verdict;

// Whether `node` is one of two that died: it was the secondary of a primary that died, and has
// since lost what only its memory held, or may have.
bool died_too(const SyncFacts& node, const SyncFacts& primary_that_died);
// Whether it may lack what was acknowledged, of two in the same generation of which one was primary.
bool died(const SyncFacts& node, const SyncFacts& other);

// Whether `node` knows nothing of a session that the other one was in: its disks were put back to what they held before
// (from a copy, a snapshot, a shelf), with its record. Nobody's set says what it lacks. If that is so of both, each has what
// the other one lacks: both were put back, went on from there, and then one got again what it had held before that.
bool missed_a_session(const SyncFacts& node, const SyncFacts& other);

// How the histories of two nodes relate, neither of which is blank. Who missed a session does not have all of the past
// that it shares with the other one by its generations.
Relation relation_of(const SyncFacts& mine, const SyncFacts& theirs);

// Whether `other` knows anything of the volume that `node` holds: by one that is empty, or has another, nobody was promoted
// over it, nor could say so.
bool knows_of(const SyncFacts& node, const SyncFacts& other);

// Whether `node`, which was primary when its process ended, goes on as primary: nobody was promoted
// since, nor holds what this one's host had forgotten when it was promoted. It counts as primary in this
// handshake then.
bool goes_on(const SyncFacts& node, const SyncFacts& other);
// Whether it will: the other one still is primary, on older data, and yields where a witness says so, or is demoted.
bool goes_on_later(const SyncFacts& node, const SyncFacts& other);

// Whether the node's memory still holds what it held when the primary last took it along: all that the two acknowledged
// together is there then, or on its disk.
bool keeps_its_memory(const SyncFacts& node, const SyncFacts& primary);

Verdict decide(const SyncFacts& mine, const SyncFacts& theirs);

// The verdict that the other side reaches when this one reaches `verdict`.
Verdict mirrored(Verdict verdict);

// Whether a session stands on it.
bool is_usable(Verdict verdict);
bool is_source(Verdict verdict);
bool is_target(Verdict verdict);
// Both have writes that the other lacks, and that is not resolved, or not yet.
bool is_split_brain(Verdict verdict);
// This node is primary, and the peer is as well, or holds what was acknowledged since: what this one acknowledged alone from
// now on would make a split brain.
bool is_overtaken(Verdict verdict);

// Whether each has moved on from a past that both share.
bool diverged(const SyncFacts& mine, const SyncFacts& theirs);
// Whether an operator's order at `giver` gives up what the giver itself, or its peer `loser`, holds
// now. An order names the state that it gives up: what has moved on since is not given up.
bool gives_itself_up(const SyncFacts& giver);
bool gives_up(const SyncFacts& giver, const SyncFacts& loser);

}  // namespace twinblock
