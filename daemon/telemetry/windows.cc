#include "telemetry/windows.h"

#include <algorithm>

namespace twinblock {
namespace {

using Row = std::vector<std::unique_ptr<Histogram>>;

void add(Histogram& sum, const Row& row, size_t index) {
  if (row[index]) sum.merge(*row[index]);
}

void clear(const Row& row) {
  for (const auto& each : row)
    if (each) each->clear();
}

}  // namespace

Windows::Windows(size_t histograms) : start_(histograms) {
  for (auto& slot : slots_) slot.resize(histograms);
  for (auto& slot : long_) slot.resize(histograms);
}

void Windows::next_slot() const {
  for (size_t i = 0; i < start_.size(); ++i) {
    if (!slots_[slot_][i] || slots_[slot_][i]->count() == 0) continue;
    add(of(start_, i), slots_[slot_], i);
    add(of(long_[long_slot_], i), slots_[slot_], i);
  }
  if (++slots_in_long_ == kSlots - 1) {
    slots_in_long_ = 0;
    long_slot_ = (long_slot_ + 1) % kLongSlots;
    clear(long_[long_slot_]);
  }
  slot_ = (slot_ + 1) % kSlots;
  clear(slots_[slot_]);
}

void Windows::roll(uint64_t now_ns) const {
  if (slot_end_ns_ == 0) {
    slot_end_ns_ = now_ns + kSlot_ns;
    return;
  }
  // After a long rest all windows are empty; more turns than there are slots change nothing.
  const uint64_t turns = (now_ns - slot_end_ns_) / kSlot_ns + 1;
  constexpr uint64_t kAll = (kSlots - 1) * kLongSlots + kSlots;
  for (uint64_t i = 0; i < turns && i < kAll; ++i) next_slot();
  slot_end_ns_ += turns * kSlot_ns;
}

void Windows::add_since_start(Histogram& sum, size_t index) const {
  add(sum, start_, index);
  add(sum, slots_[slot_], index);
}

Histogram Windows::view(size_t index, Window window, uint64_t now_ns) const {
  Histogram sum;
  if (window == Window::kStart) {
    add_since_start(sum, index);
    return sum;
  }
  if (now_ns >= slot_end_ns_) roll(now_ns);
  if (window == Window::k10s) {
    for (const Row& slot : slots_) add(sum, slot, index);
  } else {
    for (const Row& slot : long_) add(sum, slot, index);
    add(sum, slots_[slot_], index);
  }
  return sum;
}

uint64_t Windows::length_ns(Window window, uint64_t now_ns) const {
  if (began_ns_ == 0) return 0;
  if (now_ns >= slot_end_ns_) roll(now_ns);
  const uint64_t all_ns = now_ns - std::min(now_ns, began_ns_);
  if (window == Window::kStart) return all_ns;
  const uint64_t at_hand_ns = kSlot_ns - (slot_end_ns_ - now_ns);
  const uint64_t full = window == Window::k10s ? kSlots - 1 : (kLongSlots - 1) * (kSlots - 1) + slots_in_long_;
  return std::min(all_ns, full * kSlot_ns + at_hand_ns);
}

}  // namespace twinblock
