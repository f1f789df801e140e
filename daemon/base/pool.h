// Objects that come and go all the time and are kept for their next use, so that no operation on
// the path of a write allocates once as many have been under way before. An object keeps its
// address until clear() or the pool's end, and what its last use left in it: who takes it resets
// it. One thread.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/checks.h"

namespace twinblock {

template <typename T>
class Pool {
 public:
  // One that is free, or a new one, made of `arguments`.
  template <typename... Arguments>
  [[nodiscard]] T& take(Arguments&&... arguments) {
    if (free_.empty()) {
      all_.push_back(std::make_unique<T>(std::forward<Arguments>(arguments)...));
      return *all_.back();
    }
    T& taken = *free_.back();
    free_.pop_back();
    return taken;
  }
  void give_back(T& object) {
    TB_CHECK(free_.size() < all_.size(), "no object of a pool comes back twice");
    free_.push_back(&object);
  }
  // The free ones, too: the caller knows by their state.
  [[nodiscard]] const std::vector<std::unique_ptr<T>>& all() const { return all_; }
  // Frees the memory. None is taken.
  void clear() {
    TB_CHECK(free_.size() == all_.size(), "a pool that is cleared has all its objects back");
    free_.clear();
    all_.clear();
  }

 private:
  std::vector<std::unique_ptr<T>> all_;
  std::vector<T*> free_;
};

}  // namespace twinblock
