// Requests that were sent to the peer and wait for its answer, by sequence number. Loop thread
// only.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <utility>

#include "wire/frame_format.h"

namespace twinblock {

// Whoever waits for an answer. Its owner keeps it alive until answered() or until the table is
// emptied, which happens when the session is lost.
class PeerRequest {
 public:
  // `payload` is valid during the call only.
  virtual void answered(const wire::FrameHeader& ack, std::span<const std::byte> payload) = 0;

 protected:
  ~PeerRequest() = default;
};

class PeerRequests {
 public:
  struct Entry {
    PeerRequest* request = nullptr;  // null: answered
    uint64_t sent_end_bytes = 0;     // where its frame ends in the connection's byte stream
    uint64_t asked_ns = 0;
  };

  // The sequence number of a new request.
  uint64_t add(PeerRequest& request, uint64_t sent_end_bytes, uint64_t asked_ns) {
    entries_.push_back({&request, sent_end_bytes, asked_ns});
    return first_sequence_ + entries_.size() - 1;
  }
  // Takes the entry of an answer out; its request is null when there is none such.
  Entry take(uint64_t sequence) {
    if (sequence < first_sequence_ || sequence - first_sequence_ >= entries_.size()) return {};
    const Entry taken = std::exchange(entries_[sequence - first_sequence_], Entry{});
    while (!entries_.empty() && entries_.front().request == nullptr) {
      entries_.pop_front();
      ++first_sequence_;
    }
    return taken;
  }
  void clear() {
    first_sequence_ += entries_.size();
    entries_.clear();
  }
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  // When the oldest unanswered request was asked; only when not empty.
  [[nodiscard]] uint64_t oldest_asked_ns() const { return entries_.front().asked_ns; }

 private:
  std::deque<Entry> entries_;  // front() is never answered
  uint64_t first_sequence_ = 1;
};

}  // namespace twinblock
