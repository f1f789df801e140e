// Where the local disk could not be read, since this process began. A place counts once, however
// often a client asks for it. Owned by Core; loop thread only.
#pragma once

#include <cstdint>
#include <set>

#include "base/limits.h"

namespace twinblock {

class ReadErrors {
 public:
  // A read at this place failed. False: one did before, or there are too many to tell them apart.
  bool add(uint64_t offset_bytes) {
    ++total_;
    const uint64_t place = offset_bytes / limits::kBlockBytes;
    if (too_many()) return false;
    return places_.insert(place).second;
  }
  // The disk took these bytes anew, and with them perhaps another place for them: whether they can be
  // read now, the next read tells.
  void written(uint64_t offset_bytes, uint64_t length_bytes) {
    const uint64_t begin = (offset_bytes + limits::kBlockBytes - 1) / limits::kBlockBytes;
    const uint64_t end = (offset_bytes + length_bytes) / limits::kBlockBytes;
    if (places_.empty() || begin >= end) return;
    places_.erase(places_.lower_bound(begin), places_.lower_bound(end));
  }
  [[nodiscard]] uint64_t total() const { return total_; }  // reads that failed
  [[nodiscard]] size_t places() const { return places_.size(); }
  // A disk like this is not worth keeping.
  [[nodiscard]] bool too_many() const { return places_.size() >= limits::kBadPlacesMax; }

 private:
  uint64_t total_ = 0;
  std::set<uint64_t> places_;
};

}  // namespace twinblock
