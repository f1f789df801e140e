// Intrusive lists of disk requests, linked through DiskRequest::next: no allocation, no bound of
// their own (a request is in at most one, so callers bound them all).
#pragma once

#include <utility>

#include "base/hand_over_stack.h"
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

// Lists in any thread's hands on their way to the one that takes all, in the order of put().
class CompletionStack {
 public:
  // After put() the caller may touch neither the requests nor this: the taker may have freed them.
  void put(RequestList& list) {
    DiskRequest* oldest = list.pop();
    if (oldest == nullptr) return;
    DiskRequest* newest = oldest;
    while (DiskRequest* request = list.pop()) {
      request->next = newest;
      newest = request;
    }
    stack_.put_chain(*newest, *oldest);
  }
  [[nodiscard]] RequestList take() {
    RequestList list;
    DiskRequest* oldest = stack_.take();
    while (oldest != nullptr) {
      DiskRequest* next = oldest->next;
      list.push(*oldest);
      oldest = next;
    }
    return list;
  }

 private:
  HandOverStack<DiskRequest> stack_;
};

}  // namespace twinblock
