// Whether the local disk was given anything other than zeroes, by this process or one before: from the first flush on, or
// the first write with FUA, a backing without any data is one that was lost. Owned by Core; loop thread only.
#pragma once

namespace twinblock {

class WrittenData {
 public:
  void wrote() { any_ = true; }
  [[nodiscard]] bool any() const { return any_; }

 private:
  bool any_ = false;
};

}  // namespace twinblock
