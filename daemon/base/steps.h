// Steps between the phases that an enum class names, whose values are 0 to their number - 1: what a table of them
// says, for static_asserts beside it, and which were taken, for those who count what was seen.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace twinblock {

// A set of phases, by bits.
template <typename... Phases>
  requires(std::is_enum_v<Phases> && ...)
constexpr uint16_t any_of(Phases... phases) {
  return static_cast<uint16_t>(((1u << static_cast<unsigned>(phases)) | ... | 0u));
}

// The rows of a table have a `phase`, and as `next` the set of those that may follow it. One of all, `end`, may follow
// each, and is not written out.
template <typename Row>
using PhaseOf = decltype(Row::phase);

template <typename Row, size_t kRows>
constexpr bool may_follow(const std::array<Row, kRows>& table, PhaseOf<Row> from, PhaseOf<Row> to, PhaseOf<Row> end) {
  return to == end || (table[static_cast<size_t>(from)].next & any_of(to)) != 0;
}

template <typename Row, size_t kRows>
constexpr bool each_has_its_row(const std::array<Row, kRows>& table, PhaseOf<Row> last) {
  for (size_t at = 0; at < kRows; ++at)
    if (static_cast<size_t>(table[at].phase) != at) return false;
  return kRows == static_cast<size_t>(last) + 1;
}

template <typename Row, size_t kRows>
constexpr bool nobody_stays_in_one_by_a_step(const std::array<Row, kRows>& table, PhaseOf<Row> end) {
  for (const Row& row : table)
    if ((row.next & any_of(row.phase, end)) != 0) return false;
  return true;
}

// `phases`, and where steps lead from there that enter none but `among`.
template <typename Row, size_t kRows>
constexpr uint16_t reached_from(const std::array<Row, kRows>& table, uint16_t phases, uint16_t among) {
  for (size_t round = 0; round < kRows; ++round)
    for (const Row& row : table)
      if ((phases & any_of(row.phase)) != 0) phases = static_cast<uint16_t>(phases | (row.next & among));
  return phases;
}

// Those that were taken. Counted by their owner's thread.
template <typename Phase, size_t kCount>
class Steps {
 public:
  static_assert(kCount <= 16);
  void took(Phase from, Phase to) { seen_[static_cast<size_t>(from)] |= any_of(to); }
  // What followed a phase.
  [[nodiscard]] uint16_t after(Phase from) const { return seen_[static_cast<size_t>(from)]; }

 private:
  std::array<uint16_t, kCount> seen_{};
};

}  // namespace twinblock
