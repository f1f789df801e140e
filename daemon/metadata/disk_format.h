// The bytes of the metadata file, format version 1: little-endian, fixed offsets and nothing else.
// Prose: FORMAT.md beside this file.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace twinblock::metadata {

static_assert(std::endian::native == std::endian::little,
              "superblocks are copied as they lie in memory; a big-endian port needs byte swaps");

constexpr uint64_t kSuperblockMagic = 0x31304D4B4C425754;  // "TWBLKM01" as bytes
constexpr uint32_t kFormatVersion = 1;
constexpr size_t kNameBytes = 64;
constexpr size_t kHistoryEntries = 8;

// Bits of Superblock::flags.
enum SuperblockFlag : uint32_t {
  kFlagPrimary = 1,       // is primary; found at start: stopped without demotion
  kFlagPeerPrimary = 2,   // the peer was primary when it was last heard
  kFlagInconsistent = 4,  // a half-copied resync target, or a replica that missed writes
  kFlagDirty = 8,         // holds writes that the peer may miss; which ones is known in memory only
  kFlagShared = 16,       // the peer may have recorded the current generation as its own
};
constexpr uint32_t kFlagsKnown =
    kFlagPrimary | kFlagPeerPrimary | kFlagInconsistent | kFlagDirty | kFlagShared;

struct Superblock {
  uint64_t magic;
  uint32_t version;
  uint32_t crc;       // CRC-32C of the whole 4 KiB with this field zero
  uint64_t sequence;  // ascending; the good copy with the higher one counts
  uint8_t volume_uuid[16];
  uint64_t size_bytes;  // of the volume
  uint32_t flags;
  uint32_t reserved0;  // zero
  uint64_t generation_current;
  uint64_t generation_base;
  uint64_t generation_history[kHistoryEntries];  // latest first
  char volume[kNameBytes];                       // NUL-padded
  char node[kNameBytes];
  uint8_t reserved[4096 - 264];  // zero
};

static_assert(sizeof(Superblock) == 4096);
static_assert(offsetof(Superblock, flags) == 48);
static_assert(offsetof(Superblock, generation_current) == 56);
static_assert(offsetof(Superblock, volume) == 136);
static_assert(offsetof(Superblock, reserved) == 264);

// The table of offsets. A copy is written at SEQUENCE modulo 2; between the two lies a gap, so that
// no write of a larger sector or RAID chunk tears both.
constexpr uint64_t kSuperblockOffset[2] = {0, 64 * 1024};
constexpr uint64_t kFileBytes = 128 * 1024;

}  // namespace twinblock::metadata
