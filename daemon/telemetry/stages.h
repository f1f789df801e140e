// Where the time of a client's write goes, in stages that add up to its total exactly. The local
// disk and the peer work at the same time: what counts is the one that the write waited for last,
// as only a faster one of that kind would have made it faster.
//
//   received ─ prepare, compression ─▶ prepared ─ queue ─▶ admitted ─ intent ─▶ started
//   started ─┬─ local disk ───────────────────┬─ completion ─▶ done
//            └─ send, wire, stack, peer … ────┘
//
// Pure. All times are of this node's clock, in ns, but for durations that the peer measured.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace twinblock {

enum class Stage : uint8_t {
  kPrepare,      // checksums, the search for zeroes
  kCompression,  // … and compression
  kQueue,       // waits for twinblock's own loop, for the limits, for a write that overlaps; and an
                // answer that lies in the socket until the loop reads it
  kIntent,      // until the region's intent is on the metadata disk
  kSend,        // until the kernel takes the frame: the socket is full
  kCrypto,      // sealing it, with what goes in the same turn, and opening it at the peer, which is
                // taken to need as long
  kLinkQueue,   // behind what was sent earlier, at the rate that the link carries: it is full
  kWire,        // the link's rate and propagation
  kStack,       // the kernels of both hosts, on the way to their network devices
  kPeerQueue,   // at the peer, but for its disk: the socket, its loop, decompressing
  kPeerDisk,    // the peer's disk
  kLocalDisk,   // this node's disk, where that was later than the peer
  kCompletion,  // from the later of the two until the client is answered; simplex: until what the
                // peer misses is on record
};
constexpr size_t kStages = 13;
const char* stage_name(Stage stage);  // "peer-disk", …

using StageTimes = std::array<uint64_t, kStages>;

// Classes of write sizes: up to 4, 8, 16, 32, 64 KiB, larger.
constexpr size_t kSizeClasses = 6;
size_t size_class_of(uint64_t length_bytes);
uint64_t size_class_bytes_max(size_t size_class);  // of the largest: ~0
const char* size_class_name(size_t size_class);    // "4K", …, "larger"

// The part of a write that the peer answered last.
struct PeerTrip {
  uint64_t taken_ns = 0;      // the kernel took the frame's first bytes
  uint64_t arrived_ns = 0;    // the answer's last byte came into this node's kernel
  uint64_t answered_ns = 0;   // … and the loop read it
  uint64_t peer_ns = 0;       // at the peer, from the frame's arrival in its kernel to its answer
  uint64_t peer_disk_ns = 0;  // of that: its disk
  uint64_t stack_ns = 0;      // what of the rest is expected to be the kernels' (StackEstimate)
  uint64_t seal_ns = 0;       // before taken_ns: encryption
  // What the link needs for it, and for those sent before it that were not answered yet; 0: its rate
  // is not known.
  uint64_t line_ns = 0, ahead_ns = 0;
  uint64_t way_ns = 0;  // there and back, without the hosts, where nothing waits; 0: short, or not known
};

struct WriteTimes {
  uint64_t received_ns = 0;     // the plugin has it
  uint64_t prepared_ns = 0;     // the worker hands it to the loop
  uint64_t compression_ns = 0;  // of what lies between
  uint64_t admitted_ns = 0;     // no other write, and no limit, is in its way
  uint64_t started_ns = 0;      // its intent is on record: both disks may have it
  uint64_t local_ns = 0;        // the local disk is done; 0: not used
  bool peer = false;            // the peer has answered: `trip` is there
  PeerTrip trip;
  uint64_t done_ns = 0;  // the client is answered
};

// Each stage's part of done - received; none is negative, whatever the clocks said.
StageTimes split(const WriteTimes& times);

}  // namespace twinblock
