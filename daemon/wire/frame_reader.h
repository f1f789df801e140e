// Cuts a connection's byte stream into checked frames. Payloads lie in receive slabs and are
// handed out by reference: a Payload keeps its slab alive, so a payload goes from the socket to the
// disk without a copy. Nothing is allocated by a length that has not been checked.
// Owned by a session; loop thread only.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "io/connection.h"
#include "wire/codec.h"
#include "wire/slab_pool.h"

namespace twinblock::wire {

struct Frame {
  FrameHeader header{};
  std::span<const std::byte> payload;
  std::shared_ptr<Slab> keeps_payload;  // hold it for as long as payload is used
  // When it was whole in this host's kernel, on the Clock; 0: not known. Exact where nothing else
  // was in the socket; else a little later perhaps.
  uint64_t arrived_ns = 0;
  bool arrived_alone = false;
};

// For who keeps a frame for long: a payload that is much shorter than the slab that it lies in gets one
// of its own, so that what is held is not a multiple of what was sent.
void keep_apart(Frame& frame);

class FrameReader {
 public:
  enum class Outcome { kFrame, kNothing, kError };

  // Data frames are bounded by this size from now on; 0 (the start) allows handshake frames only.
  void set_volume_bytes(uint64_t volume_bytes) { volume_bytes_ = volume_bytes; }

  // Of one read, from now on: who counts what arrives, and when, wants to know it finely.
  void set_read_bytes_max(size_t bytes) { read_bytes_max_ = bytes; }

  // Allows some reads from the connection again. Called once for each readable(), so that a peer
  // that sends without end does not keep the loop from its other work.
  void begin_turn() { reads_left_ = kReadsPerTurn; }

  // The next whole frame from the bytes at hand, reading from `connection` when they do not
  // suffice. kNothing: no more for now. kError: error() says what the peer sent; close.
  Outcome next(Connection& connection, Frame& frame);
  [[nodiscard]] const std::string& error() const { return error_; }
  // Whether the frame in error is what the peer meant to send, by its checksum: it would send the
  // same again. Else it was damaged on its way, or is no frame.
  [[nodiscard]] bool error_came_as_sent() const { return error_came_as_sent_; }
  // Bytes received since the start: liveness is counted in bytes, not in whole frames.
  [[nodiscard]] uint64_t received_bytes_total() const { return received_bytes_total_; }
  // Of them, those that no frame was made of yet.
  [[nodiscard]] size_t unread_bytes() const { return end_ - begin_; }

 private:
  static constexpr int kReadsPerTurn = 4;

  void make_room();
  Outcome parse(Frame& frame);

  SlabPool pool_;
  std::shared_ptr<Slab> slab_;
  size_t begin_ = 0;  // unread bytes are [begin_, end_) of the slab
  size_t end_ = 0;
  bool have_header_ = false;
  FrameHeader header_{};
  uint64_t volume_bytes_ = 0;
  size_t read_bytes_max_ = ~size_t{0};
  int reads_left_ = 0;
  uint64_t received_bytes_total_ = 0;
  size_t last_read_bytes_ = 0;
  std::string error_;
  bool error_came_as_sent_ = false;
};

}  // namespace twinblock::wire
