// Which pages of the intents are not on the disk as they are in memory, and which of those somebody waits
// for. Pure; owned by the intent map.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace twinblock::metadata {

class ChangedPages {
 public:
  enum class State : uint8_t { kWritten, kLazy, kUrgent };

  // More pages, which are on the disk as they are in memory.
  void grow(size_t pages) { pages_.resize(pages, State::kWritten); }

  [[nodiscard]] State state(uint64_t page) const { return pages_[page]; }
  [[nodiscard]] bool any() const { return lazy_ + urgent_ > 0; }
  // kLazy or kUrgent.
  void change(uint64_t page, State state) {
    State& is = pages_[page];
    // A page that is waited for stays so until it is picked.
    if (is == state || is == State::kUrgent) return;
    if (is == State::kLazy) --lazy_;
    ++(state == State::kUrgent ? urgent_ : lazy_);
    is = state;
  }
  void all_written() {
    std::fill(pages_.begin(), pages_.end(), State::kWritten);
    urgent_ = lazy_ = 0;
  }
  // Those that are waited for first, then others as long as there is room; ascending. They count as
  // written from now on.
  [[nodiscard]] std::vector<uint32_t> pick(size_t pages_max) {
    std::vector<uint32_t> picked;
    for (const auto wanted : {State::kUrgent, State::kLazy}) {
      uint64_t& left = wanted == State::kUrgent ? urgent_ : lazy_;
      for (size_t page = 0; left > 0 && picked.size() < pages_max; ++page) {
        if (pages_[page] != wanted) continue;
        pages_[page] = State::kWritten;
        --left;
        picked.push_back(static_cast<uint32_t>(page));
      }
    }
    std::sort(picked.begin(), picked.end());
    return picked;
  }

 private:
  std::vector<State> pages_;
  uint64_t urgent_ = 0;
  uint64_t lazy_ = 0;
};

}  // namespace twinblock::metadata
