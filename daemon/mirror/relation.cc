#include "mirror/relation.h"

#include <array>

#include "base/checks.h"

namespace twinblock {
namespace {

struct Row {
  uint8_t same_volume, same_current, base, history, past;  // accepted bits
  Relation relation;
};

constexpr std::array<Row, 12> kRelations{{
    // volume  current  base          history                past
    {kNo, kEither, kAnyone, kAnyone, kAnyPast, Relation::kOtherVolume},
    {kYes, kYes, kAnyone, kAnyone, kAnyPast, Relation::kSame},
    {kYes, kNo, kMe, kNobody, kAnyPast, Relation::kIAmNewer},
    {kYes, kNo, kPeer, kNobody, kAnyPast, Relation::kPeerIsNewer},
    {kYes, kNo, kNobody, kMe, kAnyPast, Relation::kIAmMuchNewer},
    {kYes, kNo, kNobody, kPeer, kAnyPast, Relation::kPeerIsMuchNewer},
    // Each would be newer than the other: something is wrong, so that neither is believed.
    {kYes, kNo, kBoth, kAnyone, kAnyPast, Relation::kDiverged},
    {kYes, kNo, kMe | kPeer, kMe | kPeer | kBoth, kAnyPast, Relation::kDiverged},
    {kYes, kNo, kNobody, kBoth, kAnyPast, Relation::kDiverged},
    // Neither contains the other.
    {kYes, kNo, kNobody, kNobody, kSameBase, Relation::kDivergedFromBase},
    {kYes, kNo, kNobody, kNobody, kSomePast, Relation::kDiverged},
    {kYes, kNo, kNobody, kNobody, kNoPast, Relation::kUnrelated},
}};

constexpr bool fits(const Row& row, const Kinship& k) {
  return (row.same_volume & k.same_volume) != 0 && (row.same_current & k.same_current) != 0 &&
         (row.base & k.base) != 0 && (row.history & k.history) != 0 && (row.past & k.past) != 0;
}

constexpr bool exactly_one_row_fits_a_kinship() {
  for (const uint8_t volume : {kNo, kYes})
    for (const uint8_t current : {kNo, kYes})
      for (const uint8_t base : {kNobody, kMe, kPeer, kBoth})
        for (const uint8_t history : {kNobody, kMe, kPeer, kBoth})
          for (const uint8_t past : {kNoPast, kSomePast, kSameBase}) {
            int found = 0;
            for (const Row& row : kRelations)
              if (fits(row, Kinship{volume, current, base, history, past})) ++found;
            if (found != 1) return false;
          }
  return true;
}
static_assert(exactly_one_row_fits_a_kinship());

// 0 is no generation, so that it equals none.
bool same(uint64_t a, uint64_t b) { return a == b && a != 0; }

bool in_history(const metadata::Generations& g, uint64_t generation) {
  return g.knows(generation) && generation != g.current && generation != g.base;
}

uint8_t past_of(const metadata::Generations& a, const metadata::Generations& b) {
  if (same(a.base, b.base)) return kSameBase;
  if (b.knows(a.current) || b.knows(a.base)) return kSomePast;
  for (const uint64_t old : a.history)
    if (b.knows(old)) return kSomePast;
  return kNoPast;
}

}  // namespace

Kinship kinship(const metadata::Generations& mine, const metadata::Generations& theirs,
                bool same_volume) {
  return {answer(same_volume), answer(same(mine.current, theirs.current)),
          who(same(mine.base, theirs.current), same(theirs.base, mine.current)),
          who(in_history(mine, theirs.current), in_history(theirs, mine.current)),
          past_of(mine, theirs)};
}

Relation relate(const Kinship& kinship) {
  for (const Row& row : kRelations)
    if (fits(row, kinship)) return row.relation;
  TB_CHECK(false, "every input has a row");
  return Relation::kUnrelated;
}

}  // namespace twinblock
