// What a node finds in its metadata file: metadata/load.h, and the engine that starts from it.
//
// A sound file that was damaged in ways that checksums are sure to find: each piece either is what
// it was, or is refused, or makes what may differ from the peer larger. A forged one, whose
// checksums hold whatever it says: refused, or a record that does not contradict itself, can be
// written and read again, and that an engine can start from, or refuse with words.
#include <algorithm>
#include <bit>
#include <cstring>

#include "base/bytes.h"
#include "clients.h"
#include "fuzz_node.h"
#include "input.h"
#include "metadata/intent_page.h"
#include "metadata/superblock.h"
#include "metadata_image.h"

namespace twinblock::fuzz {
namespace {

using metadata::kPageBytes;
using metadata::Loaded;
using metadata::NodeRecord;

constexpr uint64_t kEngineVolumeBytesMax = 4 * kMiB + 4 * kKiB;

Result<Loaded> load(const Image& image, uint64_t volume_bytes) {
  return metadata::load(image.reader(), image.file.size(), volume_bytes, "r0.meta");
}

void check_words(const Loaded& loaded) {
  const NodeRecord& record = loaded.record;
  const metadata::Layout layout = metadata::layout_of(record.size_bytes, record.region_bytes);
  require(loaded.intent_words.size() == (layout.regions + 63) / 64, "not the words of this volume");
  if (layout.regions % 64 != 0)
    require((loaded.intent_words.back() & ~metadata::low_bits(layout.regions % 64)) == 0,
            "an intent past the last region");
}

void check_map(const BlockMap& map, uint64_t volume_bytes) {
  uint64_t set_bytes = 0;
  for (uint64_t from = 0; const auto run = map.next_run(from, kTiB); from = run->end_bytes) {
    require(run->begin_bytes >= from && run->length() > 0 && run->end_bytes <= volume_bytes,
            "a run outside the volume");
    set_bytes += run->length();
  }
  require(set_bytes == map.set_bytes(), "a map that has miscounted");
}

bool same_map(const BlockMap& a, const BlockMap& b) {
  uint64_t from = 0;
  for (;;) {
    const auto left = a.next_chunk(from), right = b.next_chunk(from);
    if (!left || !right) return !left && !right;
    if (left->offset_bytes != right->offset_bytes || left->length_bytes != right->length_bytes ||
        !std::equal(left->bits.begin(), left->bits.end(), right->bits.begin(), right->bits.end()))
      return false;
    from = left->offset_bytes + left->length_bytes;
  }
}

// Whatever was loaded, it has to make sense by itself.
void check_consistent(const Loaded& loaded) {
  for (const std::string& warning : loaded.warnings)
    require(printable_line(warning), "a warning that is no line", warning);
  if (loaded.blank) {
    require(loaded.intent_words.empty() && !loaded.dirty && loaded.record == NodeRecord{},
            "blank, and knows something all the same");
    return;
  }
  const NodeRecord& record = loaded.record;
  require(metadata::region_bytes_valid(record.region_bytes) &&
              record.size_bytes >= limits::kVolumeBytesMin &&
              record.size_bytes <= limits::kVolumeBytesMax,
          "a volume that can't be");
  require(record.generations.current != 0, "initialised, but without a generation");
  require(!record.discard || !record.keep, "orders to give up both sides' writes");
  require(record.snapshot == loaded.dirty.has_value(),
          "a snapshot without its map, or the reverse");
  check_words(loaded);
  const auto again = metadata::decode(metadata::encode(record, loaded.sequence));
  require(again.ok() && again.value().record == record && again.value().sequence == loaded.sequence,
          "a record that is not what it was when it is written again");
  if (!loaded.dirty) return;
  check_map(*loaded.dirty, record.size_bytes);
  std::vector<std::byte> file;
  const SnapshotSum sum = write_snapshot(file, 0, *loaded.dirty);
  std::string why;
  const auto map = metadata::read_snapshot(metadata::reader_of(file), file.size(), 0, sum.bytes,
                                           sum.crc, record.size_bytes, why);
  require(map.has_value(), "a snapshot that is refused when it is written again", why);
  require(same_map(*map, *loaded.dirty), "a snapshot that is another one when it is written again");
}

bool intact(const Sound& sound, const Image& image, uint64_t offset, uint64_t length) {
  return image.readable(offset, length) &&
         std::memcmp(image.file.data() + offset, sound.image.file.data() + offset, length) == 0;
}

void check_pages(const Sound& sound, const Image& image, const Loaded& loaded) {
  for (uint64_t page = 0; page < sound.layout.intent_pages; ++page) {
    const bool good = intact(sound, image, metadata::kIntentOffset + page * kPageBytes, kPageBytes);
    const uint64_t first = page * metadata::kIntentWords;
    const uint64_t end = std::min<uint64_t>(sound.words.size(), first + metadata::kIntentWords);
    for (uint64_t word = first; word < end; ++word) {
      const uint64_t all = metadata::low_bits(sound.layout.regions - word * 64);
      require(
          loaded.intent_words[word] == (good ? sound.words[word] : all),
          good ? "an intent page is not what was written" : "a damaged intent page is not full");
    }
    require(good || !loaded.warnings.empty(), "a damaged page without a warning");
  }
}

// After damage, each piece is what it was, or bad.
void check_damaged(const Sound& sound, const Image& image) {
  const bool good[2] = {intact(sound, image, metadata::kSuperblockOffset[0], kPageBytes),
                        intact(sound, image, metadata::kSuperblockOffset[1], kPageBytes)};
  const Result<Loaded> result = load(image, sound.shape.volume_bytes);
  if (!good[0] && !good[1]) {
    if (!result.ok()) {
      require(!result.error().action.empty(), "refused without saying what to do");
      return;
    }
    // Only what can't be told from a file that never held anything.
    require(result.value().blank, "both superblocks are bad, and something was loaded");
    const uint64_t there = std::min<uint64_t>(image.file.size(), sound.layout.snapshot_offset);
    require(image.readable(0, there), "what can't be read passes for blank");
    require(
        all_zero(std::span(image.file).first(std::min<uint64_t>(there, metadata::kIntentOffset))),
        "a damaged superblock passes for blank");
    for (uint64_t at = metadata::kIntentOffset; at < there; at += kPageBytes) {
      metadata::IntentPage page{};  // the last one may be cut off
      std::memcpy(&page, image.file.data() + at, std::min<uint64_t>(sizeof page, there - at));
      require(all_zero(std::as_bytes(std::span(page.bits))),
              "an intent map in use passes for blank");
    }
    return;
  }
  require(result.ok(), "a good superblock is refused", result.ok() ? "" : result.error().what);
  const Loaded& loaded = result.value();
  require(!loaded.blank, "a good superblock passes for blank");
  const size_t slot =
      good[0] && good[1] ? (sound.sequences[1] > sound.sequences[0] ? 1 : 0) : (good[0] ? 0 : 1);
  NodeRecord expected = sound.records[slot];
  const bool list_good = expected.snapshot && intact(sound, image, sound.layout.snapshot_offset,
                                                     expected.snapshot_bytes);
  require(!expected.snapshot || list_good || !loaded.warnings.empty(),
          "a damaged snapshot without a warning");
  expected.snapshot = list_good;
  require(loaded.record == expected, "a record that was not the last one written");
  // Where one copy is bad, the next update begins with that one (SuperblockStore).
  const uint64_t next = loaded.sequence + 1;
  require(good[1 - slot] ? loaded.sequence == sound.sequences[slot]
                         : next > sound.sequences[slot] && next % 2 != slot,
          "an update after this one is not the next, or begins with the only good copy");
  require((good[0] && good[1]) || !loaded.warnings.empty(), "a bad superblock without a warning");
  require(!list_good || same_map(*loaded.dirty, sound.dirty), "a snapshot that nobody wrote");
  check_pages(sound, image, loaded);
  check_consistent(loaded);
}

// A node's life from here: whatever is on record, it starts, serves and stops, or says why not.
void live(const Config& config, const Image& image, Loaded loaded, uint8_t manner) {
  std::vector<std::byte> file = image.file;
  const uint64_t room = metadata::metadata_bytes_max(config.size_bytes, loaded.record.region_bytes);
  file.resize(std::max<size_t>(file.size(), room));
  FuzzNode node(config, "alpha", std::move(file), std::move(loaded),
                (manner & 1) != 0 ? DataFound::kNone : DataFound::kSome);
  Orders orders;
  Clients clients;
  if (const Status started = node.engine->start(); !started.ok()) {
    require(printable_line(started.error().what), "a refusal that is no line",
            started.error().what);
    return;
  }
  node.look();
  node.run(kMillisecond_ns);
  node.engine->orders().promote(true, orders.reply());
  node.run(100 * kMillisecond_ns);
  clients.submit(*node.engine, *node.clock, ClientOp::kWrite, 4096, 8192, manner);
  clients.submit(*node.engine, *node.clock, ClientOp::kFlush, 0, 0, 0);
  node.run(100 * kMillisecond_ns);
  node.look();
  if ((manner & 2) != 0) {
    clients.close(*node.engine);
    node.engine->orders().demote(orders.reply());
  }
  node.run(kSecond_ns);
  require(orders.waiting() == 0 && clients.outstanding() == 0, "somebody waits for ever");
  node.look();
  // As another process would find it now.
  const Result<Loaded> again =
      metadata::load(metadata::reader_of(node.metadata.contents), node.metadata.contents.size(),
                     config.size_bytes, "r0.meta");
  require(again.ok(), "a node can't start again", again.ok() ? "" : again.error().what);
  check_consistent(again.value());
}

void start_from(Input& input, const Image& image, Result<Loaded> result, uint64_t volume_bytes) {
  if (!result.ok()) {
    require(printable_line(result.error().what), "a refusal that is no line", result.error().what);
    return;
  }
  check_consistent(result.value());
  const uint8_t manner = input.byte();
  if ((manner & 4) == 0 || volume_bytes > kEngineVolumeBytesMax) return;
  static const Config small = make_config(64 * kKiB), middle = make_config(1 * kMiB),
                      odd = make_config(4 * kMiB + 4 * kKiB);
  const Config& config = volume_bytes == small.size_bytes    ? small
                         : volume_bytes == middle.size_bytes ? middle
                                                             : odd;
  live(config, image, std::move(result.value()), manner);
}

}  // namespace
}  // namespace twinblock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace twinblock;
  using namespace twinblock::fuzz;
  Input input(data, size);
  const uint8_t kind = input.byte();
  if (kind % 2 == 0) {
    const Sound sound = sound_from(input);
    Image image = sound.image;
    const uint8_t manner = input.byte();
    damage(input, sound, image);
    check_damaged(sound, image);
    if ((manner & 1) != 0)
      start_from(input, image, fuzz::load(image, sound.shape.volume_bytes),
                 sound.shape.volume_bytes);
    return 0;
  }
  const Forged forged = forged_from(input);
  // A forged size may stand for a file of gigabytes, which takes its time.
  for (const uint64_t offset : metadata::kSuperblockOffset) {
    if (!forged.image.readable(offset, kPageBytes)) continue;
    const auto decoded = metadata::decode(
        std::span(forged.image.file).subspan(offset).first<metadata::kPageBytes>());
    if (decoded.ok() &&
        metadata::layout_of(decoded.value().record.size_bytes, decoded.value().record.region_bytes)
                .regions > 4'000'000)
      return 0;
  }
  start_from(input, forged.image, fuzz::load(forged.image, forged.shape.volume_bytes),
             forged.shape.volume_bytes);
  return 0;
}
