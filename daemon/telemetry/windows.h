// A row of histograms, since the start and over the last 10 and 60 seconds. What is recorded goes
// into a slot of two seconds; when that is full, it is added to the others. So a window is a little
// longer than its name says: by what the slot at hand holds. Loop thread only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/units.h"
#include "telemetry/histogram.h"

namespace twinblock {

enum class Window : uint8_t { kStart, k60s, k10s };

class Windows {
 public:
  explicit Windows(size_t histograms);

  void record(size_t index, uint64_t value_ns, uint64_t now_ns) {
    if (now_ns >= slot_end_ns_) roll(now_ns);
    if (began_ns_ == 0) began_ns_ = now_ns;
    of(slots_[slot_], index).record(value_ns);
  }
  // What `window` holds of histogram `index`.
  [[nodiscard]] Histogram view(size_t index, Window window, uint64_t now_ns) const;
  // Adds to `sum` what there was of it since the start.
  void add_since_start(Histogram& sum, size_t index) const;
  // Over how much time that is; since the start: since the first value. 0: there was none.
  [[nodiscard]] uint64_t length_ns(Window window, uint64_t now_ns) const;

 private:
  static constexpr uint64_t kSlot_ns = 2 * kSecond_ns;
  static constexpr size_t kSlots = 6;      // the one at hand, and 10 s behind it
  static constexpr size_t kLongSlots = 7;  // of 10 s each: 60 s, and the one being filled
  // Those that were never used take no memory.
  using Row = std::vector<std::unique_ptr<Histogram>>;

  static Histogram& of(Row& row, size_t index) {
    if (!row[index]) row[index] = std::make_unique<Histogram>();
    return *row[index];
  }
  void roll(uint64_t now_ns) const;
  void next_slot() const;

  // Time passes also for who only looks.
  mutable std::array<Row, kSlots> slots_;
  mutable std::array<Row, kLongSlots> long_;
  mutable Row start_;  // but for the slot at hand
  mutable size_t slot_ = 0, long_slot_ = 0;
  mutable size_t slots_in_long_ = 0;
  mutable uint64_t slot_end_ns_ = 0;
  uint64_t began_ns_ = 0;  // the first value
};

}  // namespace twinblock
