// Requests that were sent to the peer and wait for its answer, by sequence number, with what it
// takes to send them again over another link. Loop thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>

#include "mirror/link_meter.h"
#include "telemetry/stages.h"
#include "wire/frames.h"

namespace twinblock {

class Link;

// What the peer answered to a request.
struct PeerAnswer {
  uint64_t offset_bytes = 0;  // where the request's range begins, if it has one
  int error = 0;              // errno; 0: done
  uint64_t held_ns = 0;  // at the peer: from the request's arrival to the end of its disk work …
  uint64_t disk_ns = 0;  // … and of that, the disk work alone
  std::span<const std::byte> payload;  // valid during the call only
};

// Whoever waits for an answer. Its owner keeps it alive until answered() or until the table is
// emptied, which happens when the session is lost.
class PeerRequest {
 public:
  // Before answered(), of what did not travel on the control stream.
  virtual void timed(const PeerTrip&) {}
  virtual void answered(const PeerAnswer& answer) = 0;

 protected:
  ~PeerRequest() = default;
};

class PeerRequests {
 public:
  // Which connection carries a request: its incarnation, or one of these.
  static constexpr uint64_t kNoConnection = ~uint64_t{0};  // waits for a link
  static constexpr uint64_t kControlStream = kNoConnection - 1;

  struct Entry {
    PeerRequest* request = nullptr;  // null: answered
    wire::FrameHeader header{};
    uint64_t number = 0;
    uint64_t offset_bytes = 0;        // of its range, if it has one
    std::span<const std::byte> body;  // valid until the answer
    uint32_t body_crc = 0;
    uint64_t incarnation = kNoConnection;
    const Link* link = nullptr;    // over which it was sent last: a name only, which may be gone
    uint64_t sent_end_bytes = 0;  // where its frame ends in that connection's byte stream
    uint64_t asked_ns = 0;
    LinkMeter::Stamp stamp;
  };

  // What is asked, and of which range.
  struct Question {
    wire::FrameHeader header{};  // its number is filled in
    uint64_t offset_bytes = 0;
    std::span<const std::byte> body;
    uint32_t body_crc = 0;
  };
  // A new request, which waits for a link.
  const Entry& add(PeerRequest& request, const Question& question, uint64_t asked_ns) {
    Entry& entry = entries_.emplace_back();
    entry.request = &request;
    entry.header = question.header;
    entry.number = next_number_++;
    wire::set_request(entry.header, entry.number);
    entry.offset_bytes = question.offset_bytes;
    entry.body = question.body;
    entry.body_crc = question.body_crc;
    entry.asked_ns = asked_ns;
    return entry;
  }
  // It goes on the control stream.
  void put_in_order(const Entry& entry) { changed(entry).incarnation = kControlStream; }
  // It goes over a connection, and ends there.
  void put_over(const Entry& entry, const Link& link, uint64_t incarnation, uint64_t end_bytes,
                const LinkMeter::Stamp& stamp) {
    Entry& sent = changed(entry);
    sent.incarnation = incarnation;
    sent.link = &link;
    sent.sent_end_bytes = end_bytes;
    sent.stamp = stamp;
  }
  // There is none.
  void put_off(const Entry& entry) { changed(entry).incarnation = kNoConnection; }

  // The entry of an answer; null when there is none such.
  [[nodiscard]] const Entry* find(uint64_t number) const {
    const auto at = std::lower_bound(entries_.begin(), entries_.end(), number,
                                     [](const Entry& entry, uint64_t wanted) { return entry.number < wanted; });
    return at != entries_.end() && at->number == number && at->request != nullptr ? &*at : nullptr;
  }
  // Its answer has come; the entry is gone afterwards, and no pointer to another one is good any more.
  void remove(const Entry& entry) {
    changed(entry).request = nullptr;
    ++answered_;
    while (!entries_.empty() && entries_.front().request == nullptr) {
      entries_.pop_front();
      --answered_;
    }
    // Behind one that takes long any number may be answered.
    if (answered_ < kAnsweredMax || answered_ * 2 < entries_.size()) return;
    std::erase_if(entries_, [](const Entry& each) { return each.request == nullptr; });
    answered_ = 0;
  }
  // Calls `send` with each that is on connection `incarnation`, oldest first.
  template <typename Send>
  void each_on(uint64_t incarnation, Send&& send) const {
    for (const Entry& entry : entries_)
      if (entry.request != nullptr && entry.incarnation == incarnation) send(entry);
  }
  // Calls `look` with each, oldest first, while it returns true.
  template <typename Look>
  void each_while(Look&& look) const {
    for (const Entry& entry : entries_)
      if (entry.request != nullptr && !look(entry)) return;
  }
  void clear() {
    entries_.clear();
    answered_ = 0;
  }
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  // When the oldest unanswered request was asked; only when not empty.
  [[nodiscard]] uint64_t oldest_asked_ns() const { return entries_.front().asked_ns; }
  // How many are kept, answered ones, too: at most twice as many as wait, and kAnsweredMax.
  [[nodiscard]] size_t kept() const { return entries_.size(); }
  static constexpr size_t kAnsweredMax = 1024;

 private:
  Entry& changed(const Entry& entry) { return const_cast<Entry&>(entry); }  // one of entries_

  std::deque<Entry> entries_;  // by number; front() is never answered
  size_t answered_ = 0;        // how many of them are
  uint64_t next_number_ = 1;
};

}  // namespace twinblock
