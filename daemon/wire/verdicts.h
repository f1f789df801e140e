// The codes of the verdicts of a handshake, as they travel: what each side has decided, from where
// it stands. Who decides: mirror/generation.h; what each one means to a user: words/verdict_words.h.
// The table of PROTOCOL.md is the same one; a unit test compares them.
#pragma once

#include <cstdint>

namespace twinblock::wire {

enum class Verdict : uint32_t {
  kInSync = 1,             // both replicas are the same, but for what is in flight
  kSourceOfMap = 2,        // I send what my dirty map holds
  kTargetOfMap = 3,        // … the peer does
  kSourceOfAll = 4,        // I send everything
  kTargetOfAll = 5,        // … the peer does
  kWaitForInit = 6,        // both blank
  kPeerNotJoinable = 7,    // the peer is blank, but its disk holds data that nobody gave up
  kNotJoinable = 8,        // … mine does
  kUnrelated = 9,          // different volumes
  kSplitBrain = 10,        // both moved on from a common past, and nobody said whose writes count
  kBothPrimary = 11,       // both accept writes now
  kPeerOutdated = 12,      // I am the source, but the peer is primary, on older data
  kOutdated = 13,          // … the other way round: I am primary on older data than the peer's
  kNoGoodCopy = 14,        // neither replica is whole
  kPeerDiskFailed = 15,    // the peer can't take writes
  kDiskFailed = 16,        // … I can't
  kSoleCopy = 17,          // the peer is primary without a disk of its own: I hold the data
  kDiskless = 18,          // … the other way round: I am primary and work through the peer
  kPeerCantGoOn = 19,      // … and my host has lost what it had in memory only of what he
                           // acknowledged
  kCantGoOn = 20,          // … the other way round
  kPeerMustDemote = 21,    // split brain, resolved in my favour; but the peer is still primary
  kMustDemote = 22,        // … in the peer's favour; but I am still primary
  kOrdersContradict = 23,  // split brain, and the orders to resolve it give up both sides' writes
  kOrderVoid = 24,         // … and what the order gave up has moved on since
  kPeerJoinVoid = 25,      // the peer is blank, and was ordered to join another volume than mine
  kJoinVoid = 26,          // … the other way round
};
constexpr uint32_t kVerdictFirst = 1;
constexpr uint32_t kVerdictLast = 26;

}  // namespace twinblock::wire
