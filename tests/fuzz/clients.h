// Clients of an engine, as nbdkit keeps them: they ask only while they have the export open, close
// it after their last answer, and hear of each request once.
#pragma once

#include <cerrno>
#include <deque>
#include <memory>
#include <vector>

#include "base/crc32c.h"
#include "input.h"
#include "volume/engine.h"
#include "wire/compression.h"

namespace twinblock::fuzz {

class Clients {
 public:
  // Whether the export is open now.
  bool open(Engine& engine) {
    if (!open_) open_ = engine.clients().opened().ok();
    return open_;
  }
  void close(Engine& engine) {
    if (!open_ || outstanding_ > 0) return;
    engine.clients().closed();
    open_ = false;
  }
  // A range of whole sectors within the volume.
  void submit(Engine& engine, const Clock& clock, ClientOp op, uint64_t offset_bytes,
              uint64_t length_bytes, uint8_t manner) {
    if (!open(engine)) return;
    requests_.push_back(std::make_unique<Request>());
    Request& request = *requests_.back();
    ClientRequest& client = request.client;
    client.op = op;
    client.offset_bytes = op == ClientOp::kFlush ? 0 : offset_bytes;
    client.length_bytes = op == ClientOp::kFlush ? 0 : length_bytes;
    client.fua = (manner & 1) != 0;
    client.may_unmap = op == ClientOp::kZero && (manner & 2) != 0;
    client.local_error = op == ClientOp::kRead && (manner & 4) != 0 ? EIO : 0;
    client.received_ns = clock.now_ns();
    if (op == ClientOp::kWrite || op == ClientOp::kRead)
      request.buffer.assign(length_bytes, std::byte{manner});
    client.data = request.buffer.data();
    if (op == ClientOp::kWrite) {
      client.all_zero = manner == 0;
      const uint64_t piece_bytes = engine.worker_view().wire_piece_bytes();
      if (!client.all_zero) cut(request, piece_bytes, (manner & 8) != 0);
    }
    client.done = [this, &request](ClientRequest&) {
      require(!request.done, "a client is answered twice");
      request.done = true;
      --outstanding_;
    };
    ++outstanding_;
    engine.clients().submit(client);
  }
  // Whether a client waits for exactly this write or zero.
  [[nodiscard]] bool asked_for(const DiskRequest& disk) const {
    for (const auto& request : requests_)
      if (!request->done && request->client.offset_bytes == disk.offset_bytes &&
          request->client.length_bytes == disk.length_bytes)
        return true;
    return false;
  }
  // The engine is gone: nobody is answered any more.
  void abandon() {
    open_ = false;
    outstanding_ = 0;
  }
  [[nodiscard]] size_t outstanding() const { return outstanding_; }

 private:
  struct Request {
    ClientRequest client;
    std::vector<std::byte> buffer;
    std::vector<WirePiece> pieces;
    std::deque<std::vector<std::byte>> compressed;
    bool done = false;
  };
  // As a worker does.
  static void cut(Request& request, uint64_t piece_bytes, bool compress) {
    const std::span<const std::byte> bytes(request.buffer);
    for (size_t at = 0; at < bytes.size(); at += piece_bytes) {
      auto piece = bytes.subspan(at, std::min<size_t>(piece_bytes, bytes.size() - at));
      size_t length = 0;
      if (compress) {
        request.compressed.emplace_back(wire::compressed_bytes_max(piece.size()));
        length = wire::compress(piece, 1, request.compressed.back());
        if (length > 0) piece = std::span(request.compressed.back()).first(length);
      }
      request.pieces.push_back({piece, crc32c(piece), length > 0});
    }
    request.client.piece_bytes = piece_bytes;
    request.client.pieces = request.pieces;
  }
  std::vector<std::unique_ptr<Request>> requests_;
  size_t outstanding_ = 0;
  bool open_ = false;
};

// Operators' orders: each is answered once, at once or later, with words.
class Orders {
 public:
  OperatorOrders::Reply reply() {
    ++waiting_;
    return [this, answered = false](const Result<std::string>& result) mutable {
      require(!std::exchange(answered, true), "an order is answered twice");
      const std::string& text = result.ok() ? result.value() : result.error().what;
      require(!text.empty() && printable_line(text), "an answer that is no line", text);
      --waiting_;
    };
  }
  [[nodiscard]] size_t waiting() const { return waiting_; }

 private:
  size_t waiting_ = 0;
};

}  // namespace twinblock::fuzz
