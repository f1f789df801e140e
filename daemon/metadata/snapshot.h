// The dirty map as it lies behind the intent pages: written at an orderly stop that leaves blocks
// which the peer misses, so that the next start knows them by the block and not by the region.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "io/disk.h"
#include "metadata/block_map.h"
#include "metadata/disk_format.h"
#include "metadata/reader.h"

namespace twinblock::metadata {

// Writes a map as a snapshot, in pieces of 1 MiB, and flushes. Loop thread only.
//
// The caller keeps the superblock from pointing at a snapshot while one is written, and records
// bytes and crc after `done`.
class SnapshotWriter {
 public:
  // `error` is 0 or an errno value (ENOSPC: the metadata device is too small).
  using Done = std::function<void(int error, uint64_t bytes, uint32_t crc)>;

  explicit SnapshotWriter(Disk& disk);
  SnapshotWriter(const SnapshotWriter&) = delete;
  SnapshotWriter& operator=(const SnapshotWriter&) = delete;

  // To snapshot_offset of the volume's layout. One at a time. The map stays where it is and as it is
  // until `done`, which is called later, never from within.
  void write(const BlockMap& map, uint64_t snapshot_offset, Done done);
  [[nodiscard]] bool idle() const { return map_ == nullptr; }

 private:
  void fill();
  void next_piece();
  void submit_flush();
  void step_done();

  Disk& disk_;
  uint64_t offset_bytes_ = 0;
  const BlockMap* map_ = nullptr;
  Done done_;
  uint64_t from_bytes_ = 0;  // the next chunk of the map
  uint64_t written_ = 0;     // of the snapshot, without padding
  uint32_t crc_ = 0;
  int error_ = 0;
  std::vector<std::byte> piece_;  // what is submitted, then what belongs to the next one
  DiskRequest request_;
};

// The snapshot of a volume of `volume_bytes`, streamed; or nothing, and `why` it can't be used.
std::optional<BlockMap> read_snapshot(const ReadAt& read, uint64_t file_bytes,
                                      uint64_t snapshot_offset, uint64_t snapshot_bytes,
                                      uint32_t snapshot_crc, uint64_t volume_bytes,
                                      std::string& why);

}  // namespace twinblock::metadata
