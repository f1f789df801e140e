// Who syncs whom: one pure function over what both nodes say of themselves at the handshake
// (design, section 6). Both sides evaluate it, each from its own view, and must reach mirrored
// verdicts. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "metadata/superblock.h"

namespace twinblock {

// One node as the handshake describes it.
struct SyncFacts {
  bool blank = false;         // no metadata: nothing to lose, nothing to give
  bool joinable = false;      // blank, and its data may be overwritten
  bool primary = false;       // is primary now
  bool crashed = false;       // stopped while primary or dirty: any block may differ
  bool inconsistent = false;  // half-copied, or missed writes
  bool disk_failed = false;   // can't take writes
  bool dirty = false;         // knows of blocks that the peer misses
  bool map_valid = false;     // knows of all of them
  bool preferred = false;     // wins a tie; true on exactly one side (the lower node name)
  metadata::Uuid volume_uuid{};
  metadata::Generations generations;
};

enum class Verdict : uint32_t {
  kInSync = 1,       // both replicas are the same, but for what is in flight
  kSourceOfMap,      // I send what my dirty map holds
  kTargetOfMap,      // … the peer does
  kSourceOfAll,      // I send everything
  kTargetOfAll,      // … the peer does
  kWaitForInit,      // both blank
  kPeerNotJoinable,  // the peer is blank, but its disk holds data that nobody gave up
  kNotJoinable,      // … mine does
  kUnrelated,        // different volumes
  kSplitBrain,       // both moved on from a common past
  kBothPrimary,      // both accept writes now
  kPeerOutdated,     // I am the source, but the peer is primary, on older data
  kOutdated,         // … the other way round: I am primary on older data than the peer's
  kNoGoodCopy,       // neither replica is whole
  kPeerDiskFailed,   // the peer can't take writes
  kDiskFailed,       // … I can't
  kSoleCopy,         // the peer is primary without a disk of its own: I hold the data
  kDiskless,         // … the other way round: I am primary and work through the peer
};

Verdict decide(const SyncFacts& mine, const SyncFacts& theirs);

// The verdict that the other side reaches when this one reaches `verdict`.
Verdict mirrored(Verdict verdict);

// Whether a session stands on it.
bool is_usable(Verdict verdict);
bool is_source(Verdict verdict);
bool is_target(Verdict verdict);

// For logs and status: a sentence, and what to do (empty where there is nothing). `peer` is the
// peer node's name, `volume` the volume's.
std::string explain(Verdict verdict, const std::string& peer);
std::string advise(Verdict verdict, const std::string& volume, const std::string& peer);

}  // namespace twinblock
