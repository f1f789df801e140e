#include "cache/reads_under_way.h"

#include <chrono>

#include "cache/zeroed_array.h"

namespace twinblock {

void ReadsUnderWay::Reading::end() {
  {
    const std::lock_guard guard(lock_);
    ended_.store(true, std::memory_order_release);
  }
  end_.notify_all();
}

void ReadsUnderWay::Reading::wait(uint64_t now_ns) {
  if (over(now_ns)) return;
  std::unique_lock guard(lock_);
  end_.wait_for(guard, std::chrono::nanoseconds(until_ns_ - now_ns),
                [this] { return ended_.load(std::memory_order_relaxed); });
}

void ReadsUnderWay::begin(const std::shared_ptr<Reading>& mine, std::span<const PlaceIndex::Place> places,
                          const std::vector<bool>& found, std::span<std::shared_ptr<Reading>> others,
                          uint64_t now_ns) {
  const std::lock_guard guard(lock_);
  for (size_t i = 0; i < places.size(); ++i) {
    if (found[i] || !places[i].known) continue;
    Slot& slot = slots_[spread_over(places[i].tag[0], slots_.size())];
    if (!slot.reading || slot.reading->over(now_ns)) {
      slot = {places[i].tag, mine};
    } else if (slot.reading != mine && slot.tag == places[i].tag) {
      slot.reading->awaited_.store(true, std::memory_order_relaxed);
      others[i] = slot.reading;
    }
  }
}

}  // namespace twinblock
