// A list that any thread puts objects on and one thread takes whole, linked through T::next: no
// lock, no allocation. An object is in at most one such list. Takers get the oldest first.
#pragma once

#include <atomic>
#include <utility>

namespace twinblock {

template <typename T>
class HandOverStack {
 public:
  // Whether it was empty, so that the taker has to be told. After that the caller may touch neither
  // the object nor this: the taker may have freed both.
  bool put(T& object) { return put_chain(object, object); }
  // Several at once, linked from the newest to the oldest.
  bool put_chain(T& newest, T& oldest) {
    T* head = head_.load(std::memory_order_relaxed);
    do oldest.next = head;
    while (!head_.compare_exchange_weak(head, &newest, std::memory_order_release,
                                        std::memory_order_relaxed));
    return head == nullptr;
  }
  // All of them, linked from the oldest to the newest; null: none.
  [[nodiscard]] T* take() {
    if (head_.load(std::memory_order_relaxed) == nullptr) return nullptr;
    T* newest = head_.exchange(nullptr, std::memory_order_acquire);
    T* oldest = nullptr;
    while (newest != nullptr) {
      T* next = std::exchange(newest->next, oldest);
      oldest = std::exchange(newest, next);
    }
    return oldest;
  }

 private:
  std::atomic<T*> head_{nullptr};
};

}  // namespace twinblock
