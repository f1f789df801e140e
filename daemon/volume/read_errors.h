// Where the local disk could not be read, since this process began. A place counts once, however
// often a client asks for it, and with whatever lies around it. Owned by DiskHealth; loop thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/limits.h"

namespace twinblock {

class ReadErrors {
 public:
  // A read of these bytes failed; which of the blocks is the bad one is not known. What overlaps an earlier one is the
  // same place, which lies in both. False: there was one, or there are too many to tell them apart.
  bool add(uint64_t offset_bytes, uint64_t length_bytes) {
    ++total_;
    const uint64_t end_bytes = offset_bytes + std::max<uint64_t>(length_bytes, 1);
    const Blocks read{offset_bytes / limits::kBlockBytes,
                      (end_bytes + limits::kBlockBytes - 1) / limits::kBlockBytes};
    for (Blocks& place : places_) {
      const Blocks both{std::max(place.begin, read.begin), std::min(place.end, read.end)};
      if (both.begin >= both.end) continue;
      place = both;
      return false;
    }
    if (too_many()) return false;
    places_.push_back(read);
    return true;
  }
  // The disk took these bytes anew, and with them perhaps another place for them: whether they can be
  // read now, the next read tells. What lies on both sides of them stays one place, the whole: of several blocks most
  // are good, so that most of what is written among them was not the bad one.
  void written(uint64_t offset_bytes, uint64_t length_bytes) {
    const Blocks good{(offset_bytes + limits::kBlockBytes - 1) / limits::kBlockBytes,
                      (offset_bytes + length_bytes) / limits::kBlockBytes};
    if (good.begin >= good.end) return;
    std::erase_if(places_, [good](Blocks& place) {
      const bool head = good.begin <= place.begin && good.end > place.begin;
      const bool tail = good.end >= place.end && good.begin < place.end;
      if (head && !tail) place.begin = good.end;
      if (tail && !head) place.end = good.begin;
      return head && tail;
    });
  }
  [[nodiscard]] uint64_t total() const { return total_; }  // reads that failed
  [[nodiscard]] size_t places() const { return places_.size(); }
  // A disk like this is not worth keeping.
  [[nodiscard]] bool too_many() const { return places_.size() >= limits::kBadPlacesMax; }

 private:
  struct Blocks {
    uint64_t begin, end;
  };

  uint64_t total_ = 0;
  std::vector<Blocks> places_;  // no two overlap
};

}  // namespace twinblock
