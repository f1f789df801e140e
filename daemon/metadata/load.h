// What a node finds in its metadata file when it starts. Blocking, before the loop runs.
//
// Damage never makes a node forget: it is refused with what to do, or it makes what may differ from
// the peer larger, with a warning. FORMAT.md has the table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "metadata/block_map.h"
#include "metadata/reader.h"
#include "metadata/superblock.h"

namespace twinblock::metadata {

struct Loaded {
  bool blank = false;  // no `init` yet: the file is empty, zero, or what a cut-off `init` left
  NodeRecord record;
  uint64_t sequence = 0;              // of the superblock
  std::vector<std::string> warnings;  // whole sentences, with the path
  // Bit i of word i / 64: region i. Empty when blank; else as many words as the regions need, no
  // bit past the last region.
  std::vector<uint64_t> intent_words;
  uint64_t intent_sequence = 0;   // the highest of any page
  // The volume's size: what is on record, and before there is a record, what the file says.
  [[nodiscard]] uint64_t volume_bytes(uint64_t in_file_bytes) const {
    return blank ? in_file_bytes : record.size_bytes;
  }
  std::optional<BlockMap> dirty;  // precise, from the snapshot: only with record.snapshot
};

// Reads the metadata of a volume that should have `volume_bytes`. A snapshot that can't be used is
// dropped with a warning; record.snapshot is then false.
Result<Loaded> load(const ReadAt& read, uint64_t file_bytes, uint64_t volume_bytes,
                    const std::string& path);

}  // namespace twinblock::metadata
