#include "metadata/load.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "base/units.h"
#include "metadata/disk_format.h"
#include "metadata/intent_page.h"
#include "metadata/snapshot.h"

namespace twinblock::metadata {
namespace {

constexpr size_t kReadBytes = 1 * kMiB;
constexpr size_t kReadPages = kReadBytes / kPageBytes;

struct File {
  const ReadAt& read;
  uint64_t bytes;
  const std::string& path;

  // As much of the range as there is; the rest of `into` is zero. How much, or an error.
  [[nodiscard]] Result<size_t> read_up_to_end(uint64_t offset, std::span<std::byte> into) const {
    const uint64_t there = bytes > offset ? bytes - offset : 0;
    const size_t length = std::min<uint64_t>(there, into.size());
    std::fill(into.begin(), into.end(), std::byte{0});
    if (length == 0) return length;
    if (Status got = read(offset, into.first(length)); !got) return got.error();
    return length;
  }
};

// One superblock slot.
struct Slot {
  std::optional<DecodedSuperblock> good;
  bool zero = false;
  std::string why;     // it can't be used
  std::string action;  // what helps, if it is not the usual: another twinblock wrote it …
  bool newer = false;  // … which knows more than this one
};

Slot read_slot(const File& file, uint64_t offset) {
  Slot slot;
  std::array<std::byte, sizeof(Superblock)> bytes;
  const Result<size_t> got = file.read_up_to_end(offset, bytes);
  if (!got) {
    slot.why = got.error().what;
    return slot;
  }
  slot.zero = all_zero(bytes);
  if (slot.zero) {
    slot.why = "empty";
  } else if (got.value() < bytes.size()) {
    slot.why = "truncated";
  } else if (Result<DecodedSuperblock> decoded = decode(bytes); decoded.ok()) {
    slot.good = std::move(decoded.value());
  } else {
    slot.why = decoded.error().what;
    slot.action = decoded.error().action;
    Superblock disk;
    std::memcpy(&disk, bytes.data(), sizeof disk);
    slot.newer = !slot.action.empty() && disk.version >= kFormatVersion;
  }
  return slot;
}

// Reads intent pages; those that can't be read are zero, and what lies behind the file's end is.
// False: a page can't be read.
bool read_pages(const File& file, uint64_t first, std::span<IntentPage> pages) {
  const Result<size_t> got =
      file.read_up_to_end(kIntentOffset + first * kPageBytes, std::as_writable_bytes(pages));
  if (!got.ok()) std::fill(pages.begin(), pages.end(), IntentPage{});
  return got.ok();
}

// Calls visit(first page, pages) for all of `pages`, piece by piece. False: some can't be read.
template <typename Visit>
bool for_pages(const File& file, uint64_t pages, const Visit& visit) {
  bool readable = true;
  std::vector<IntentPage> piece(std::min<uint64_t>(pages, kReadPages));
  for (uint64_t first = 0; first < pages; first += kReadPages) {
    const std::span some(piece.data(), std::min<uint64_t>(kReadPages, pages - first));
    // One bad sector costs one page.
    if (!read_pages(file, first, some))
      for (size_t i = 0; i < some.size(); ++i)
        readable = read_pages(file, first + i, some.subspan(i, 1)) && readable;
    visit(first, std::span<const IntentPage>(some));
  }
  return readable;
}

// Whether nothing but zeroes lies before the pages.
bool front_empty(const File& file) {
  std::vector<std::byte> front(kIntentOffset);
  return file.read_up_to_end(0, front).ok() && all_zero(front);
}

// Whether the pages are none at all, or what an `init` wrote that was cut off before its
// superblock: nothing in them has ever been used. What can't be read may have been; of a page that
// the file's end cuts off counts what is left, as it is there again when the file grows. How many
// there are is not known without a superblock: as many as there can be.
bool pages_unused(const File& file, uint64_t volume_bytes) {
  bool unused = true;
  const Layout layout = layout_of(volume_bytes, kRegionBytesMin);
  const auto look = [&](uint64_t first, std::span<const IntentPage> pages) {
    for (size_t i = 0; i < pages.size(); ++i) {
      const IntentPage& page = pages[i];
      const bool fresh =
          page.sequence == 0 && page_good(page, static_cast<uint32_t>(first + i), page.tag, 0);
      unused = unused && (fresh || all_zero(std::as_bytes(pages.subspan(i, 1))));
    }
  };
  return for_pages(file, layout.intent_pages, look) && unused;
}

void read_intents(const File& file, Loaded& loaded) {
  const NodeRecord& record = loaded.record;
  const Layout layout = layout_of(record.size_bytes, record.region_bytes);
  const uint64_t tag = intent_tag(record.volume_uuid);
  loaded.intent_words.resize((layout.regions + 63) / 64);
  uint64_t damaged = 0;
  // Those that can't be read are zero, and so not good; nor is one that is cut off.
  (void)for_pages(
      file, layout.intent_pages, [&](uint64_t first, std::span<const IntentPage> pages) {
        for (size_t i = 0; i < pages.size(); ++i) {
          const uint64_t index = first + i;
          const uint64_t regions =
              std::min(kIntentPageRegions, layout.regions - index * kIntentPageRegions);
          uint64_t* words = loaded.intent_words.data() + index * kIntentWords;
          const bool there = kIntentOffset + (index + 1) * kPageBytes <= file.bytes;
          if (there && page_good(pages[i], static_cast<uint32_t>(index), tag, regions)) {
            std::copy_n(pages[i].bits, (regions + 63) / 64, words);
            loaded.intent_sequence = std::max(loaded.intent_sequence, pages[i].sequence);
            continue;
          }
          ++damaged;
          for (uint64_t word = 0; word * 64 < regions; ++word)
            words[word] = low_bits(regions - word * 64);
        }
      });
  if (damaged > 0)
    loaded.warnings.push_back(
        file.path + ": " + std::to_string(damaged) + " of " + std::to_string(layout.intent_pages) +
        " intent pages are bad; all blocks that they stand for may differ from the peer's");
}

void read_dirty(const File& file, Loaded& loaded) {
  NodeRecord& record = loaded.record;
  if (!record.snapshot) return;
  std::string why;
  loaded.dirty = read_snapshot(file.read, file.bytes,
                               layout_of(record.size_bytes, record.region_bytes).snapshot_offset,
                               record.snapshot_bytes, record.snapshot_crc, record.size_bytes, why);
  if (loaded.dirty) return;
  record.snapshot = false;
  loaded.warnings.push_back(file.path + ": the list of changed blocks can't be used (" + why +
                            "); the regions that hold them are compared with the peer instead");
}

Result<Loaded> without_superblock(const File& file, uint64_t volume_bytes,
                                  const std::array<Slot, 2>& slots) {
  static const std::string kAnew =
      "move the file away, start twinblockd and run `twinblock init --join` here, so that this node is copied anew "
      "from its peer; a backup of the file would describe older data, and must not be used";
  for (const Slot& slot : slots)
    if (!slot.action.empty())
      return Error{file.path + ": the metadata has " + slot.why, slot.action, 0};
  if (!slots[0].zero || !slots[1].zero)
    return Error{file.path + ": both copies of the metadata are bad (first: " + slots[0].why +
                     "; second: " + slots[1].why + ")",
                 kAnew, 0};
  if (!front_empty(file))
    return Error{file.path + " is not empty, and is no twinblock metadata",
                 "name another file or device; if nobody needs what it holds, fill its first " +
                     format_size(kIntentOffset) + " with zeroes",
                 0};
  if (!pages_unused(file, volume_bytes))
    return Error{file.path +
                     ": both copies of the metadata are empty, but the intent map behind "
                     "them has been in use, or can't be read",
                 kAnew + "; of a device, fill the first " +
                     format_size(layout_of(volume_bytes, kRegionBytesMin).snapshot_offset) +
                     " with zeroes instead, which is enough if no node has ever used it",
                 0};
  Loaded loaded;
  loaded.blank = true;
  return loaded;
}

}  // namespace

Result<Loaded> load(const ReadAt& read, uint64_t file_bytes, uint64_t volume_bytes,
                    const std::string& path) {
  const File file{read, file_bytes, path};
  std::array<Slot, 2> slots;
  for (size_t i = 0; i < 2; ++i) slots[i] = read_slot(file, kSuperblockOffset[i]);
  if (!slots[0].good && !slots[1].good) return without_superblock(file, volume_bytes, slots);
  // It was cut off before it wrote the other copy, which is what it was before.
  for (size_t i = 0; i < 2; ++i)
    if (slots[i].newer)
      return Error{path + ": metadata copy " + std::to_string(i + 1) + " has " + slots[i].why +
                       ": newer software wrote it, and what the other copy says is out of date",
                   slots[i].action, 0};
  const bool second =
      !slots[0].good || (slots[1].good && slots[1].good->sequence > slots[0].good->sequence);
  Loaded loaded;
  loaded.record = slots[second ? 1 : 0].good->record;
  loaded.sequence = slots[second ? 1 : 0].good->sequence;
  const size_t other = second ? 0 : 1;
  // The first update may have been cut off after the first copy: then empty is not damage.
  const bool first_update = slots[other].zero && loaded.sequence <= 1;
  if (!slots[other].good && !first_update)
    loaded.warnings.push_back(path + ": metadata copy " + std::to_string(other + 1) + " is bad (" +
                              slots[other].why + "); using the other one");
  // The next update begins with the copy that is bad, and leaves the good one until that is well (SuperblockStore).
  if (!slots[other].good && loaded.sequence > 1 && loaded.sequence % 2 == other) ++loaded.sequence;
  // Whoever waited for it has ended, and was told how it ended in nobody's stead.
  if (std::exchange(loaded.record.flushing, false)) loaded.record.flush_failed = true;
  read_intents(file, loaded);
  read_dirty(file, loaded);
  return loaded;
}

}  // namespace twinblock::metadata
