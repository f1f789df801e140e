#include "metadata_image.h"

#include <cerrno>
#include <cstring>

#include "base/crc32c.h"
#include "metadata/intent_page.h"
#include "metadata/snapshot.h"
#include "metadata/superblock.h"

namespace twinblock::fuzz {
namespace {

using metadata::IntentPage;
using metadata::kPageBytes;
using metadata::NodeRecord;
using metadata::Superblock;

constexpr uint64_t kSectorBytes = 512;
constexpr bool NodeRecord::*kFlags[] = {&NodeRecord::primary,      &NodeRecord::peer_primary,
                                        &NodeRecord::inconsistent, &NodeRecord::dirty,
                                        &NodeRecord::shared,       &NodeRecord::all_dirty,
                                        &NodeRecord::snapshot,     &NodeRecord::held_data,
                                        &NodeRecord::flush_failed};

// Does at once what it is asked for, but answers when the caller has returned.
class DirectDisk final : public Disk {
 public:
  explicit DirectDisk(std::vector<std::byte>& file) : file_(file) {}
  void submit(DiskRequest& request) override {
    if (request.op == DiskOp::kWrite)
      std::memcpy(file_.data() + request.offset_bytes, request.data, request.length_bytes);
    pending_ = &request;
  }
  [[nodiscard]] uint64_t size_bytes() const override { return file_.size(); }
  [[nodiscard]] bool fast_zero() const override { return false; }
  [[nodiscard]] Status grow(uint64_t bytes, bool) override {
    return bytes <= size_bytes() ? ok_status() : Status(Error{"it has no more room", "", ENOSPC});
  }
  void finish_all() {
    while (DiskRequest* request = std::exchange(pending_, nullptr)) request->done(*request);
  }

 private:
  std::vector<std::byte>& file_;
  DiskRequest* pending_ = nullptr;
};

void put(std::vector<std::byte>& file, uint64_t offset, std::span<const std::byte> bytes) {
  if (file.size() < offset + bytes.size()) file.resize(offset + bytes.size());
  if (!bytes.empty()) std::memcpy(file.data() + offset, bytes.data(), bytes.size());
}

metadata::Generations generations_from(Input& input) {
  metadata::Generations generations;
  generations.current = 1 + input.byte();
  generations.base = 1 + input.byte();
  for (size_t i = 0, known = input.below(metadata::kHistoryEntries + 1); i < known; ++i)
    generations.history[i] = input.byte();
  return generations;
}

NodeRecord record_from(Input& input, const Shape& shape) {
  NodeRecord record;
  record.volume_uuid[0] = 7;
  record.volume = "r0";
  record.node = "alpha";
  record.size_bytes = shape.volume_bytes;
  record.region_bytes = shape.region_bytes;
  const auto flags = input.take<uint16_t>();
  for (size_t i = 0; i < std::size(kFlags); ++i) record.*kFlags[i] = (flags >> i & 1) != 0;
  record.discard = (flags >> 14) == 1;
  record.keep = (flags >> 14) == 2;
  record.generations = generations_from(input);
  record.term = input.byte();
  record.heard_term = input.byte();
  record.boot = input.byte();
  record.peer_instance = input.byte();
  record.peer_boot = input.byte();
  record.generation_since_s = input.take<uint32_t>();
  record.state_id = input.byte();
  record.begun_for = input.byte();
  record.promoted_boot = input.byte();
  record.given_up = {input.byte(), input.byte(), input.byte(), input.take<uint32_t>()};
  return record;
}

// Some ranges of the volume, and the regions that cover them.
void draw_dirty(Input& input, Sound& sound) {
  const uint64_t blocks = sound.shape.volume_bytes / limits::kBlockBytes;
  for (uint64_t left = input.below(8); left > 0; --left) {
    const uint64_t first = input.take<uint32_t>() % blocks;
    const uint64_t count = std::min<uint64_t>(1 + input.take<uint16_t>(), blocks - first);
    sound.dirty.set(first * limits::kBlockBytes, count * limits::kBlockBytes);
    const uint64_t blocks_a_region = sound.shape.region_bytes / limits::kBlockBytes;
    for (uint64_t region = first / blocks_a_region; region <= (first + count - 1) / blocks_a_region;
         ++region)
      sound.words[region / 64] |= uint64_t{1} << (region % 64);
  }
}

void put_pages(Image& image, const Sound& sound, uint64_t sequence) {
  const uint64_t tag = metadata::intent_tag(sound.records[0].volume_uuid);
  for (uint64_t page = 0; page < sound.layout.intent_pages; ++page) {
    const auto rest = std::span(sound.words).subspan(page * metadata::kIntentWords);
    const IntentPage encoded =
        metadata::encode_page(static_cast<uint32_t>(page), sequence, tag,
                              rest.first(std::min(rest.size(), metadata::kIntentWords)));
    put(image.file, metadata::kIntentOffset + page * kPageBytes,
        std::as_bytes(std::span(&encoded, 1)));
  }
}

uint32_t with_zeroed(std::span<std::byte> bytes, size_t field) {
  std::memset(bytes.data() + field, 0, sizeof(uint32_t));
  const uint32_t crc = crc32c(bytes);
  std::memcpy(bytes.data() + field, &crc, sizeof crc);
  return crc;
}

// A copy of `sound` in which some bytes are others, and (mostly) the checksum is right.
template <typename T>
std::vector<std::byte> forged_copy(Input& input, const T& sound, size_t crc_field) {
  const auto from = std::as_bytes(std::span<const T, 1>(&sound, 1));
  std::vector<std::byte> bytes(from.begin(), from.end());
  const uint8_t manner = input.byte();
  for (int left = manner & 7; left > 0; --left) {
    // Mostly in the fields, not in what is reserved or in the bits.
    const size_t at = (manner & 8) != 0 ? input.below(sizeof(T)) : input.below(256) * 5 / 4;
    const auto patch = input.bytes(1 + input.below(8));
    for (size_t i = 0; i < patch.size() && at + i < bytes.size(); ++i) bytes[at + i] = patch[i];
  }
  if ((manner & 0x30) != 0x30) with_zeroed(bytes, crc_field);
  return bytes;
}

void forge_snapshot(Input& input, const Shape& shape, Image& image, NodeRecord& record) {
  const uint64_t offset =
      metadata::layout_of(shape.volume_bytes, shape.region_bytes).snapshot_offset;
  std::vector<std::byte> snapshot;
  for (uint64_t left = input.below(6); left > 0; --left) {
    const uint8_t kind = input.byte();
    const metadata::SnapshotEntry entry{input.byte(), kind % 4u};
    const auto head = std::as_bytes(std::span(&entry, 1));
    snapshot.insert(snapshot.end(), head.begin(), head.end());
    if ((kind & 0x80) == 0 && entry.kind != metadata::kSnapshotBitmap) continue;
    std::vector<std::byte> bits(metadata::kSnapshotBitmapBytes);
    for (uint64_t set = input.below(6); set > 0; --set)
      bits[input.take<uint16_t>() % ((kind & 0x40) != 0 ? bits.size() : 2)] |=
          std::byte{input.byte()};
    snapshot.insert(snapshot.end(), bits.begin(), bits.end());
  }
  snapshot.resize(snapshot.size() - std::min<size_t>(snapshot.size(), input.below(16)));
  put(image.file, offset, snapshot);
  record.snapshot_bytes = snapshot.size();
  record.snapshot_crc = crc32c(snapshot);
}

}  // namespace

Shape shape_from(Input& input) {
  // Few intent pages, but more than one where regions are small; ends within a word, a chunk, a
  // page.
  static constexpr Shape kShapes[] = {
      {64 * kKiB, 64 * kKiB},
      {1 * kMiB, 64 * kKiB},
      {1 * kMiB, 4 * kMiB},
      {4 * kMiB + 4 * kKiB, 64 * kKiB},
      {256 * kMiB + 68 * kKiB, 64 * kKiB},
      {256 * kMiB, 4 * kMiB},
      {2 * kGiB + 4 * kKiB, 64 * kKiB},
      {5 * kGiB, 1024 * 1024 * 1024},
  };
  return input.one_of(kShapes);
}

metadata::ReadAt Image::reader() const {
  return [this](uint64_t offset_bytes, std::span<std::byte> into) -> Status {
    require(offset_bytes <= file.size() && into.size() <= file.size() - offset_bytes,
            "a read past the file's end");
    if (!readable(offset_bytes, into.size())) {
      std::memset(into.data(), 0xEE, into.size() / 2);
      return Error{"read: Input/output error", "", EIO};
    }
    if (!into.empty()) std::memcpy(into.data(), file.data() + offset_bytes, into.size());
    return ok_status();
  };
}

bool Image::readable(uint64_t offset_bytes, uint64_t length_bytes) const {
  if (offset_bytes > file.size() || length_bytes > file.size() - offset_bytes) return false;
  return std::none_of(unreadable.begin(), unreadable.end(), [&](const ByteRange& bad) {
    return bad.begin_bytes < offset_bytes + length_bytes && offset_bytes < bad.end_bytes;
  });
}

SnapshotSum write_snapshot(std::vector<std::byte>& file, uint64_t offset, const BlockMap& map) {
  std::vector<std::byte> roomy(std::move(file));
  const size_t before = roomy.size();
  uint64_t chunks = 0;
  uint64_t from = 0;
  while (const auto chunk = map.next_chunk(from)) {
    from = chunk->offset_bytes + chunk->length_bytes;
    ++chunks;
  }
  roomy.resize(std::max<size_t>(before, offset + chunks * 4104 + kPageBytes));
  SnapshotSum sum;
  DirectDisk disk(roomy);
  metadata::SnapshotWriter writer(disk);
  bool written = false;
  writer.write(map, offset, [&](int error, uint64_t bytes, uint32_t crc) {
    require(error == 0, "a snapshot without room");
    sum = {bytes, crc};
    written = true;
  });
  disk.finish_all();
  require(written && writer.idle(), "a snapshot that does not end");
  const uint64_t padded = (sum.bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  roomy.resize(std::max<size_t>(before, offset + padded));
  file = std::move(roomy);
  return sum;
}

Sound sound_from(Input& input) {
  const Shape shape = shape_from(input);
  const metadata::Layout layout = metadata::layout_of(shape.volume_bytes, shape.region_bytes);
  Sound sound{shape, layout, {}, {}, {}, BlockMap(shape.volume_bytes), {}};
  sound.words.resize((layout.regions + 63) / 64);
  NodeRecord record = record_from(input, shape);
  draw_dirty(input, sound);
  const uint64_t sequence = 3 + input.byte();  // not the first update, of which one copy suffices
  sound.image.file.resize(layout.file_bytes);
  const SnapshotSum sum = write_snapshot(sound.image.file, layout.snapshot_offset, sound.dirty);
  record.snapshot_bytes = record.snapshot ? sum.bytes : 0;
  record.snapshot_crc = record.snapshot ? sum.crc : 0;
  sound.records = {record, record};
  sound.sequences = {sequence, sequence};
  if ((input.byte() & 1) != 0) {  // the second copy of the update has not been written yet
    const size_t older = (sequence + 1) % 2;
    sound.sequences[older] = sequence - 1;
    sound.records[older].primary = !record.primary;
    sound.records[older].generations.current += 1;
  }
  put_pages(sound.image, sound, input.byte());
  for (size_t slot = 0; slot < 2; ++slot)
    put(sound.image.file, metadata::kSuperblockOffset[slot],
        metadata::encode(sound.records[slot], sound.sequences[slot]));
  return sound;
}

void damage(Input& input, const Sound& sound, Image& image) {
  for (int left = 12; left > 0 && !input.empty(); --left) {
    const uint64_t size = image.file.size();
    const uint8_t kind = input.byte();
    // At one of the structures, or anywhere.
    const uint64_t places[] = {0,
                               metadata::kSuperblockOffset[1],
                               metadata::kIntentOffset,
                               metadata::kIntentOffset + kPageBytes,
                               sound.layout.snapshot_offset,
                               input.take<uint32_t>() % (size + 1)};
    const uint64_t at = std::min(input.one_of(places), size);
    const uint64_t sector = at / kSectorBytes * kSectorBytes;
    const uint64_t sectors_end = std::min(size, sector + (1 + input.byte()) * kSectorBytes);
    switch (kind % 6) {
      case 0: {  // a burst of at most 32 bits
        const auto mask = input.take<uint32_t>();
        const uint64_t from = std::min(size, at + input.take<uint16_t>() % kPageBytes);
        for (size_t i = 0; i < sizeof mask && from + i < size; ++i)
          image.file[from + i] ^= static_cast<std::byte>(mask >> (8 * i) & 0xFF);
        break;
      }
      case 1:  // lost sectors
        std::fill(image.file.begin() + static_cast<std::ptrdiff_t>(sector),
                  image.file.begin() + static_cast<std::ptrdiff_t>(sectors_end),
                  std::byte{(kind & 0x80) != 0 ? uint8_t{0xFF} : uint8_t{0}});
        break;
      case 2:
        image.file.resize(at);
        break;
      case 3:
        image.unreadable.push_back({sector, sectors_end});
        break;
      case 4:  // a write that went to the wrong place
        if (sound.layout.intent_pages > 1 && metadata::kIntentOffset + 2 * kPageBytes <= size)
          std::memcpy(image.file.data() + metadata::kIntentOffset,
                      image.file.data() + metadata::kIntentOffset + kPageBytes, kPageBytes);
        break;
      default: {  // a page of a volume that was here before
        const IntentPage foreign = metadata::encode_page(0, input.byte(), 99, {});
        if (metadata::kIntentOffset + kPageBytes <= size)
          std::memcpy(image.file.data() + metadata::kIntentOffset, &foreign, sizeof foreign);
        break;
      }
    }
  }
}

Forged forged_from(Input& input) {
  Forged forged{shape_from(input), {}};
  const Shape& shape = forged.shape;
  const metadata::Layout layout = metadata::layout_of(shape.volume_bytes, shape.region_bytes);
  forged.image.file.resize(layout.file_bytes);
  NodeRecord record = record_from(input, shape);
  forge_snapshot(input, shape, forged.image, record);
  for (size_t slot = 0; slot < 2; ++slot) {
    const uint8_t kind = input.byte();
    if (kind % 8 == 0) continue;  // stays zero
    Superblock disk;
    std::memcpy(&disk, metadata::encode(record, kind / 8).data(), sizeof disk);
    put(forged.image.file, metadata::kSuperblockOffset[slot],
        forged_copy(input, disk, offsetof(Superblock, crc)));
  }
  const uint64_t tag = metadata::intent_tag(record.volume_uuid);
  for (uint64_t page = 0; page < layout.intent_pages; ++page) {
    if ((input.byte() & 3) == 0) continue;
    std::vector<uint64_t> words(metadata::kIntentWords);
    for (uint64_t left = input.below(4); left > 0; --left)
      words[input.take<uint16_t>() % words.size()] = input.take<uint64_t>();
    const IntentPage good =
        metadata::encode_page(static_cast<uint32_t>(page), input.byte(), tag, words);
    put(forged.image.file, metadata::kIntentOffset + page * kPageBytes,
        forged_copy(input, good, offsetof(IntentPage, crc)));
  }
  const uint8_t end = input.byte();
  if (end >= 0xF0)
    forged.image.file.resize(input.take<uint32_t>() % (forged.image.file.size() + 1));
  return forged;
}

NodeRecord plain_record(const std::string& node, const Shape& shape) {
  NodeRecord record;
  record.volume_uuid[0] = 1;
  record.volume = "r0";
  record.node = node;
  record.size_bytes = shape.volume_bytes;
  record.region_bytes = shape.region_bytes;
  record.generations.current = record.generations.base = 11;
  return record;
}

metadata::Loaded load_plain(const std::vector<std::byte>& file, const NodeRecord& record) {
  Result<metadata::Loaded> loaded =
      metadata::load(metadata::reader_of(file), file.size(), record.size_bytes, "r0.meta");
  require(loaded.ok() && !loaded.value().blank, "the test's own metadata");
  return std::move(loaded.value());
}

std::vector<std::byte> plain_file(const NodeRecord& record) {
  const Shape shape{record.size_bytes, record.region_bytes};
  const metadata::Layout layout = metadata::layout_of(shape.volume_bytes, shape.region_bytes);
  Sound sound{shape, layout, {record, record}, {1, 1}, {}, BlockMap(shape.volume_bytes), {}};
  sound.words.resize((layout.regions + 63) / 64);
  sound.words[0] = 1;
  sound.image.file.resize(metadata::metadata_bytes_max(shape.volume_bytes, shape.region_bytes));
  put_pages(sound.image, sound, 1);
  for (const uint64_t offset : metadata::kSuperblockOffset)
    put(sound.image.file, offset, metadata::encode(record, 1));
  return std::move(sound.image.file);
}

}  // namespace twinblock::fuzz
