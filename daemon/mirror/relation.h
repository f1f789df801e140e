// How the histories of two nodes relate: which of them contains the other one, if any does. A truth
// table over what two sets of generations have in common. Pure; any thread.
#pragma once

#include <cstdint>

#include "metadata/superblock.h"

namespace twinblock {

// Of whom a statement is true. Bits, so that a row of a table can accept several.
enum Who : uint8_t { kNobody = 1, kMe = 2, kPeer = 4, kBoth = 8, kAnyone = 15 };
constexpr uint8_t who(bool mine, bool theirs) {
  if (mine) return theirs ? kBoth : kMe;
  return theirs ? kPeer : kNobody;
}

enum Answer : uint8_t { kNo = 1, kYes = 2, kEither = 3 };
constexpr uint8_t answer(bool yes) { return yes ? kYes : kNo; }

// The past that two histories share.
enum Past : uint8_t { kNoPast = 1, kSomePast = 2, kSameBase = 4, kAnyPast = 7 };

// What the table is asked: each field holds one bit.
struct Kinship {
  uint8_t same_volume;   // Answer
  uint8_t same_current;  // Answer
  uint8_t base;          // Who: whose base is the other's current generation
  uint8_t history;  // Who: in whose history, but not as base, is the other's current generation
  uint8_t past;     // Past: the same base, or any other generation that both know, or none
};
Kinship kinship(const metadata::Generations& mine, const metadata::Generations& theirs,
                bool same_volume);

enum class Relation : uint8_t {
  kOtherVolume,       // different volume ids
  kSame,              // same current generation
  kIAmNewer,          // my base is the peer's current
  kPeerIsNewer,       // … the other way round
  kIAmMuchNewer,      // the peer's current is in my history
  kPeerIsMuchNewer,   // … the other way round
  kDivergedFromBase,  // both moved on from the base that both still have
  kDiverged,          // both moved on, from an older past; or each claims to contain the other
  kUnrelated,         // same volume id, nothing in common
};
Relation relate(const Kinship& kinship);

}  // namespace twinblock
