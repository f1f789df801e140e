// Whether this process gave the local disk anything other than zeroes, and whether a flush covered
// that: from then on, a backing without any data is one that was lost. Owned by Core; loop thread
// only.
#pragma once

namespace twinblock {

class WrittenData {
 public:
  void wrote() { any_ = true; }
  void flushed() { stable_ = true; }  // what was written before the flush began
  [[nodiscard]] bool any() const { return any_; }
  [[nodiscard]] bool stable() const { return stable_; }

 private:
  bool any_ = false;
  bool stable_ = false;
};

}  // namespace twinblock
