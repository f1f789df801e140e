// The bytes of the metadata file, format version 2: little-endian, fixed offsets and nothing else.
// Prose: FORMAT.md beside this file.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/limits.h"
#include "base/units.h"

namespace twinblock::metadata {

static_assert(std::endian::native == std::endian::little,
              "the structs are copied as they lie in memory; a big-endian port needs byte swaps");

constexpr uint64_t kSuperblockMagic = 0x31304D4B4C425754;  // "TWBLKM01" as bytes
constexpr uint32_t kFormatVersion = 2;
constexpr size_t kNameBytes = 64;
constexpr size_t kHistoryEntries = 8;
constexpr size_t kSessionEntries = 32;
constexpr size_t kSessionsStood = 24;
constexpr size_t kPageBytes = 4096;

// Bits of Superblock::flags.
enum SuperblockFlag : uint32_t {
  kFlagPrimary = 1,       // is primary; found at start: stopped without demotion
  kFlagPeerPrimary = 2,   // the peer was primary when it was last heard
  kFlagInconsistent = 4,  // a half-copied resync target, or a replica that missed writes
  kFlagDirty = 8,         // holds writes that the peer may miss
  kFlagShared = 16,       // the peer may have recorded the current generation as its own
  kFlagAllDirty = 32,     // every block may differ from the peer's
  kFlagSnapshot = 64,     // the snapshot is valid, and is the whole dirty set
  kFlagDiscard = 128,     // the operator's word: this node's writes are given up
  kFlagKeep = 256,        // the operator's word: the peer's writes are given up
  kFlagHeldData = 512,    // the backing holds data on stable storage; found empty, it was lost
  kFlagFlushFailed = 1024,  // a flush failed: what reads as written may not be on the disk
  kFlagUnwitnessed = 2048,  // when the two nodes met last, they did not both have the same kind of witness
  kFlagFlushing = 4096,     // a flush is under way, for long: if nothing else follows, nobody knows how it ended
  kFlagRepairing = 8192,    // the peer's replica was to be repaired from this one, and that is not complete
};
constexpr uint32_t kFlagsKnown = 16383;

// The state of one replica that an order gives up. The id decides; the rest is told to users.
struct GivenUp {
  uint64_t state_id;
  uint64_t generation;
  uint64_t term;
  uint64_t dirty_bytes;

  bool operator==(const GivenUp&) const = default;
};
static_assert(sizeof(GivenUp) == 32);

// What a half-copied node was before, as long as there is a copy of that: a way back.
struct WayBackEntry {
  uint64_t generation_current;  // 0: there is none
  uint64_t generation_base;
  uint64_t generation_history[kHistoryEntries];
  uint64_t term;
  uint64_t taken_s;       // Unix time
  uint64_t to_get_bytes;  // which might have differed from the source's then
};
static_assert(sizeof(WayBackEntry) == 104);

struct Superblock {
  uint64_t magic;
  uint32_t version;
  uint32_t crc;       // CRC-32C of the whole 4 KiB with this field zero
  uint64_t sequence;  // ascending; the good copy with the higher one counts
  uint8_t volume_uuid[16];
  uint64_t size_bytes;  // of the volume
  uint32_t flags;
  uint32_t region_bytes;  // what one intent bit stands for; a power of two
  uint64_t generation_current;
  uint64_t generation_base;
  uint64_t generation_history[kHistoryEntries];  // latest first
  char volume[kNameBytes];                       // NUL-padded
  char node[kNameBytes];
  uint64_t snapshot_bytes;             // with kFlagSnapshot: its length …
  uint64_t term;                       // of this node's last promotion; the higher was primary last
  uint64_t generation_since_s;         // Unix time at which the current generation began
  uint32_t snapshot_crc;               // … and CRC-32C
  uint32_t reserved0;                  // zero
  uint64_t heard_term;                 // the highest that the peer told of itself
  uint64_t boot;                       // of this host, when this node last took a peer along …
  uint64_t peer_instance;              // … the peer's process then …
  uint64_t peer_boot;                  // … and its host's boot; 0: not known
  uint64_t state_id;                   // random; another one with all that moves this replica on
  GivenUp given_up;                    // with kFlagDiscard or kFlagKeep: what the order named
  uint64_t begun_for;                  // the replica that is to record the current generation; 0
  uint64_t promoted_boot;              // of this host, at this node's last promotion; 0: not known
  uint64_t claim;                      // a generation that the witness was asked for; 0: none
  uint64_t named;                      // the generation that the witness' entry named last; 0
  uint64_t followed_boot;              // of this host, when this node was last whole beside a primary
  WayBackEntry way_back;               // with kFlagInconsistent: what the node was before
  uint64_t sessions[kSessionEntries];  // with the peer: kSessionsStood that stood, latest first, others that may have …
  uint64_t session_begun;              // … and one that has begun since; 0: none
  uint64_t backing_number;             // of the backing that this is about; 0: not known
  uint64_t metadata_number;            // of what this lay in when that was recorded; 0: not known
  uint8_t reserved[kPageBytes - 792];  // zero
};

static_assert(sizeof(Superblock) == kPageBytes);
static_assert(offsetof(Superblock, flags) == 48);
static_assert(offsetof(Superblock, generation_current) == 56);
static_assert(offsetof(Superblock, volume) == 136);
static_assert(offsetof(Superblock, snapshot_bytes) == 264);
static_assert(offsetof(Superblock, snapshot_crc) == 288);
static_assert(offsetof(Superblock, heard_term) == 296);
static_assert(offsetof(Superblock, boot) == 304);
static_assert(offsetof(Superblock, state_id) == 328);
static_assert(offsetof(Superblock, given_up) == 336);
static_assert(offsetof(Superblock, begun_for) == 368);
static_assert(offsetof(Superblock, promoted_boot) == 376);
static_assert(offsetof(Superblock, claim) == 384);
static_assert(offsetof(Superblock, way_back) == 408);
static_assert(offsetof(Superblock, sessions) == 512);
static_assert(offsetof(Superblock, backing_number) == 776);
static_assert(offsetof(Superblock, metadata_number) == 784);
static_assert(offsetof(Superblock, reserved) == 792);

constexpr uint32_t kIntentMagic = 0x544E4954;  // "TINT" as bytes
constexpr size_t kIntentWords = 508;
constexpr uint64_t kIntentPageRegions = kIntentWords * 64;

// Bit i of page p stands for region p * kIntentPageRegions + i.
struct IntentPage {
  uint32_t magic;
  uint32_t crc;       // CRC-32C of the whole page with this field zero
  uint64_t sequence;  // number of the commit that wrote it; 0: as created, never written since
  uint32_t index;     // which page this is
  uint32_t reserved;  // zero
  uint64_t tag;       // first 8 bytes of the volume's UUID: whose page this is
  uint64_t bits[kIntentWords];
};

static_assert(sizeof(IntentPage) == kPageBytes);
static_assert(offsetof(IntentPage, sequence) == 8);
static_assert(offsetof(IntentPage, tag) == 24);
static_assert(offsetof(IntentPage, bits) == 32);

// The snapshot is a sequence of these, ascending by chunk; kBitmap is followed by 4 KiB of bits.
struct SnapshotEntry {
  uint32_t chunk;  // of 128 MiB of the volume
  uint32_t kind;   // SnapshotKind
};
enum SnapshotKind : uint32_t {
  kSnapshotAll = 1,     // every block of the chunk
  kSnapshotBitmap = 2,  // a bit a block of 4 KiB
};
constexpr uint64_t kSnapshotChunkBytes = limits::kMapChunkBytes;  // 128 MiB
constexpr uint64_t kSnapshotBitmapBytes = kSnapshotChunkBytes / limits::kBlockBytes / 8;
static_assert(sizeof(SnapshotEntry) == 8 && kSnapshotChunkBytes == 128 * kMiB);

constexpr uint32_t kRegionBytesDefault = limits::kIntentRegionBytes;
constexpr uint32_t kRegionBytesMin = 64 * kKiB;
constexpr uint32_t kRegionBytesMax = 1 * kGiB;
constexpr bool region_bytes_valid(uint32_t bytes) {
  return std::has_single_bit(bytes) && bytes >= kRegionBytesMin && bytes <= kRegionBytesMax;
}

// The table of offsets. A superblock copy is written at SEQUENCE modulo 2; between the two lies a
// gap, so that no write of a larger sector or RAID chunk tears both.
constexpr uint64_t kSuperblockOffset[2] = {0, 64 * kKiB};
constexpr uint64_t kIntentOffset = 128 * kKiB;

struct Layout {
  uint64_t regions = 0;
  uint64_t intent_offset = 0;
  uint64_t intent_pages = 0;
  uint64_t snapshot_offset = 0;
  uint64_t file_bytes = 0;  // without a snapshot, which extends the file
};
constexpr Layout layout_of(uint64_t volume_bytes, uint32_t region_bytes) {
  const uint64_t regions = (volume_bytes + region_bytes - 1) / region_bytes;
  const uint64_t pages = (regions + kIntentPageRegions - 1) / kIntentPageRegions;
  const uint64_t snapshot = kIntentOffset + pages * kPageBytes;
  return Layout{regions, kIntentOffset, pages, snapshot, snapshot};
}

constexpr uint64_t snapshot_bytes_max(uint64_t volume_bytes) {
  const uint64_t chunks = (volume_bytes + kSnapshotChunkBytes - 1) / kSnapshotChunkBytes;
  return chunks * (sizeof(SnapshotEntry) + kSnapshotBitmapBytes);
}
// The room that the metadata of a volume may need: the size of the (sparse) file, and what a block
// device must have. A multiple of 4 KiB.
constexpr uint64_t metadata_bytes_max(uint64_t volume_bytes,
                                      uint32_t region_bytes = kRegionBytesDefault) {
  const uint64_t snapshot_pages = (snapshot_bytes_max(volume_bytes) + kPageBytes - 1) / kPageBytes;
  return layout_of(volume_bytes, region_bytes).snapshot_offset + snapshot_pages * kPageBytes;
}
static_assert(layout_of(64 * kTiB, kRegionBytesDefault).intent_pages == 517);

}  // namespace twinblock::metadata
