// What a client asks of the volume: made by a worker thread, owned by it, handed to the loop and
// back. The memory that it points to stays valid until `done`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/limits.h"
#include "cache/content_digest.h"
#include "mirror/inflight_filter.h"

namespace twinblock {

enum class ClientOp : uint8_t { kWrite, kZero, kFlush, kRead };

// One frame's worth of a write, as it travels.
struct WirePiece {
  std::span<const std::byte> payload;
  uint32_t crc = 0;         // CRC-32C of the payload
  bool compressed = false;  // the payload is one zstd frame, shorter than what it stands for
};

struct ClientRequest {
  ClientOp op = ClientOp::kWrite;
  bool fua = false;           // kWrite, kZero
  bool may_unmap = false;     // kZero
  bool fast_only = false;     // kZero: EOPNOTSUPP rather than writing zeroes
  bool all_zero = false;      // kWrite: the data is zeroes, which travel as a flag
  int local_error = 0;        // kRead: the errno value with which the worker's own read failed, …
  InflightFilter::Mark local_mark = 0;  // … and the mark that it had taken before
  int error = 0;              // result: 0 or an errno value
  uint64_t offset_bytes = 0;
  uint64_t length_bytes = 0;  // a range inside the volume, not empty, but for kFlush
  std::byte* data = nullptr;  // kWrite: the source (not changed); kRead: the destination
  // kWrite, unless all is zero: the data in pieces of this length (the last one is what is left;
  // at most limits::kFramePayloadBytesMax), made by the worker. What is compressed lies in memory
  // of the worker's, which stays valid as `data` does.
  uint64_t piece_bytes = limits::kFramePayloadBytesMax;
  std::span<const WirePiece> pieces;
  // kWrite, where there is a cache of reads: the digests of the whole blocks in it.
  std::span<const ContentTag> tags;
  uint64_t received_ns = 0;                  // when the plugin got it, …
  uint64_t prepared_ns = 0;                  // … and the worker handed it to the loop
  uint64_t compression_ns = 0;               // kWrite: of what lies between
  std::function<void(ClientRequest&)> done;  // loop thread; the request may be gone afterwards
  ClientRequest* next = nullptr;             // for queues of whoever holds it
};

}  // namespace twinblock
