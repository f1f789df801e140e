// Intrusive lists of disk requests, linked through DiskRequest::next: no allocation, no bound of
// their own (a request is in at most one, so callers bound them all).
#pragma once

#include <atomic>
#include <utility>

#include "io/disk.h"

namespace twinblock {

// First in, first out. One thread at a time.
class RequestList {
 public:
  [[nodiscard]] bool empty() const { return head_ == nullptr; }
  void push(DiskRequest& request) {
    request.next = nullptr;
    (head_ == nullptr ? head_ : tail_->next) = &request;
    tail_ = &request;
  }
  // Null when empty.
  DiskRequest* pop() {
    DiskRequest* request = head_;
    if (request != nullptr) head_ = std::exchange(request->next, nullptr);
    return request;
  }
  RequestList take() { return std::exchange(*this, RequestList{}); }
  void append(RequestList& other) {
    while (DiskRequest* request = other.pop()) push(*request);
  }

 private:
  DiskRequest* head_ = nullptr;
  DiskRequest* tail_ = nullptr;
};

// Any thread puts, one takes all.
class CompletionStack {
 public:
  // After put() the caller may touch neither the requests nor this: the taker may have freed them.
  void put(RequestList& list) {
    DiskRequest* last = list.pop();
    if (last == nullptr) return;
    // Reversed here, and again by take(), so that order is kept.
    DiskRequest* first = last;
    while (DiskRequest* request = list.pop()) {
      request->next = first;
      first = request;
    }
    DiskRequest* head = head_.load(std::memory_order_relaxed);
    do last->next = head;
    while (!head_.compare_exchange_weak(head, first, std::memory_order_release,
                                        std::memory_order_relaxed));
  }
  [[nodiscard]] RequestList take() {
    RequestList list;
    if (head_.load(std::memory_order_relaxed) == nullptr) return list;
    DiskRequest* request = head_.exchange(nullptr, std::memory_order_acquire);
    DiskRequest* reversed = nullptr;
    while (request != nullptr) {
      DiskRequest* next = request->next;
      request->next = reversed;
      reversed = request;
      request = next;
    }
    while (reversed != nullptr) {
      DiskRequest* next = reversed->next;
      list.push(*reversed);
      reversed = next;
    }
    return list;
  }

 private:
  std::atomic<DiskRequest*> head_{nullptr};
};

}  // namespace twinblock
