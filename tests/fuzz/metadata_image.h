// Metadata files that an input describes: sound ones, which are then damaged in ways that checksums
// are sure to find, and forged ones, whose checksums hold whatever they say.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "input.h"
#include "metadata/disk_format.h"
#include "metadata/load.h"

namespace twinblock::fuzz {

struct Shape {
  uint64_t volume_bytes;
  uint32_t region_bytes;
};
Shape shape_from(Input& input);

// A file with sectors that can't be read.
struct Image {
  std::vector<std::byte> file;
  std::vector<ByteRange> unreadable;

  [[nodiscard]] metadata::ReadAt reader() const;
  // Whether the range is there and can be read.
  [[nodiscard]] bool readable(uint64_t offset_bytes, uint64_t length_bytes) const;
};

// A node at rest or between the two copies of an update, and what its file says.
struct Sound {
  Shape shape;
  metadata::Layout layout;
  std::array<metadata::NodeRecord, 2> records;  // by slot
  std::array<uint64_t, 2> sequences;
  std::vector<uint64_t> words;  // the intents
  BlockMap dirty;               // what the snapshot holds, where a record has one
  Image image;
};
Sound sound_from(Input& input);

// Damages it; sequences of values from `input` until it is empty.
void damage(Input& input, const Sound& sound, Image& image);

struct Forged {
  Shape shape;
  Image image;
};
Forged forged_from(Input& input);

// For targets and tests that are about something else: what a node of volume r0 has on record, in generation 11; the
// file of a small node with this record; and what is loaded from it, which is sound.
metadata::NodeRecord plain_record(const std::string& node, const Shape& shape);
std::vector<std::byte> plain_file(const metadata::NodeRecord& record);
metadata::Loaded load_plain(const std::vector<std::byte>& file, const metadata::NodeRecord& record);

// `map` as it lies in a file from `offset` on; extends the file.
struct SnapshotSum {
  uint64_t bytes = 0;
  uint32_t crc = 0;
};
SnapshotSum write_snapshot(std::vector<std::byte>& file, uint64_t offset, const BlockMap& map);

}  // namespace twinblock::fuzz
