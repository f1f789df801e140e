// The control stream of a session: frames whose order matters and that must not be lost when the
// link that carries them dies. They are numbered, kept until the peer's heartbeats show that it has
// them, sent over one connection at a time, and all again over the next one when that one is gone.
// The receiver drops what it has. Loop thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "io/connection.h"
#include "wire/codec.h"

namespace twinblock {

class ControlStream {
 public:
  enum class Arrival { kNext, kRepeated, kGap };

  // A new session begins.
  void reset() { *this = ControlStream(); }

  // `connection`: null: none is up, it leaves with attach().
  void send(wire::FrameHeader header, std::span<const std::byte> payload, Connection* connection) {
    wire::set_order(header, ++last_sent_);
    kept_bytes_ += sizeof header + payload.size();
    kept_.push_back({wire::seal(header, payload), {payload.begin(), payload.end()}});
    if (connection != nullptr) put(kept_.back(), *connection);
  }
  // Everything that the peer may not have goes over `connection` from now on.
  void attach(Connection& connection) {
    for (const Kept& frame : kept_) put(frame, connection);
  }
  // The peer has everything up to `number`; false when that was not sent.
  bool peer_has(uint64_t number) {
    if (number > last_sent_) return false;
    while (!kept_.empty() && last_sent_ - kept_.size() < number) {
      kept_bytes_ -= sizeof kept_.front().header + kept_.front().payload.size();
      kept_.pop_front();
    }
    return true;
  }

  // What the peer may not have yet.
  [[nodiscard]] uint64_t kept_bytes() const { return kept_bytes_; }

  // A frame of the stream has come.
  Arrival arrived(const wire::FrameHeader& header) {
    const uint64_t number = wire::order_of(header);
    if (number <= received_) return Arrival::kRepeated;
    if (number != received_ + 1) return Arrival::kGap;
    received_ = number;
    return Arrival::kNext;
  }
  [[nodiscard]] uint64_t received() const { return received_; }
  // … of which the peer has been told.
  void confirmed() { confirmed_ = received_; }
  [[nodiscard]] uint64_t unconfirmed() const { return received_ - confirmed_; }

 private:
  struct Kept {
    wire::HeaderBytes header;
    std::vector<std::byte> payload;
  };
  static void put(const Kept& frame, Connection& connection) {
    connection.send(frame.header);
    if (!frame.payload.empty()) connection.send(frame.payload);
  }

  std::deque<Kept> kept_;  // the last one has number last_sent_
  uint64_t last_sent_ = 0;
  uint64_t kept_bytes_ = 0;
  uint64_t received_ = 0;
  uint64_t confirmed_ = 0;
};

}  // namespace twinblock
