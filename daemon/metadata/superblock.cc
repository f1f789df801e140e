#include "metadata/superblock.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>

#include "base/bytes.h"
#include "base/checks.h"
#include "base/crc32c.h"

namespace twinblock::metadata {
namespace {

uint32_t checksum(Superblock copy) {
  copy.crc = 0;
  return crc32c(std::as_bytes(std::span<const Superblock, 1>(&copy, 1)));
}

struct Copy {
  NodeRecord record;
  uint64_t sequence;
};

template <size_t N>
std::string name_of(const char (&field)[N]) {
  return {field, strnlen(field, N)};
}

// The copy at `bytes`, or why it can't be used.
std::optional<Copy> decode(std::span<const std::byte> bytes, std::string& why) {
  if (bytes.size() < sizeof(Superblock)) {
    why = "truncated";
    return std::nullopt;
  }
  Superblock disk;
  std::memcpy(&disk, bytes.data(), sizeof disk);
  if (disk.magic != kSuperblockMagic) {
    why = "not a twinblock superblock";
    return std::nullopt;
  }
  if (disk.crc != checksum(disk)) {
    why = "wrong checksum";
    return std::nullopt;
  }
  if (disk.version != kFormatVersion || (disk.flags & ~kFlagsKnown) != 0) {
    why = "format version " + std::to_string(disk.version) + ", this twinblock knows version " +
          std::to_string(kFormatVersion);
    return std::nullopt;
  }
  Copy copy{{}, disk.sequence};
  NodeRecord& record = copy.record;
  std::copy_n(disk.volume_uuid, sizeof disk.volume_uuid, record.volume_uuid.begin());
  record.volume = name_of(disk.volume);
  record.node = name_of(disk.node);
  record.size_bytes = disk.size_bytes;
  record.generations.current = disk.generation_current;
  record.generations.base = disk.generation_base;
  std::copy_n(disk.generation_history, kHistoryEntries, record.generations.history.begin());
  record.primary = (disk.flags & kFlagPrimary) != 0;
  record.peer_primary = (disk.flags & kFlagPeerPrimary) != 0;
  record.inconsistent = (disk.flags & kFlagInconsistent) != 0;
  record.dirty = (disk.flags & kFlagDirty) != 0;
  record.shared = (disk.flags & kFlagShared) != 0;
  return copy;
}

void set_name(char (&field)[kNameBytes], const std::string& name) {
  TB_CHECK(name.size() < kNameBytes, "names are checked with the configuration");
  std::memcpy(field, name.data(), name.size());
}

}  // namespace

bool Generations::knows(uint64_t generation) const {
  return generation != 0 &&
         (generation == current || generation == base ||
          std::find(history.begin(), history.end(), generation) != history.end());
}

void Generations::advance(uint64_t fresh) {
  TB_CHECK(fresh != 0 && !knows(fresh), "a new generation must be new");
  if (base != current && base != 0) {
    // Without the peer a second time: the base stays, what was current joins the history.
    std::move_backward(history.begin(), history.end() - 1, history.end());
    history[0] = current;
  } else {
    base = current;
  }
  current = fresh;
}

void Generations::settle() {
  if (base != current && base != 0) {
    std::move_backward(history.begin(), history.end() - 1, history.end());
    history[0] = base;
  }
  base = current;
}

std::array<std::byte, sizeof(Superblock)> encode(const NodeRecord& record, uint64_t sequence) {
  Superblock disk{};
  disk.magic = kSuperblockMagic;
  disk.version = kFormatVersion;
  disk.sequence = sequence;
  std::copy(record.volume_uuid.begin(), record.volume_uuid.end(), disk.volume_uuid);
  disk.size_bytes = record.size_bytes;
  disk.flags = (record.primary ? uint32_t{kFlagPrimary} : 0) |
               (record.peer_primary ? uint32_t{kFlagPeerPrimary} : 0) |
               (record.inconsistent ? uint32_t{kFlagInconsistent} : 0) |
               (record.dirty ? uint32_t{kFlagDirty} : 0) |
               (record.shared ? uint32_t{kFlagShared} : 0);
  disk.generation_current = record.generations.current;
  disk.generation_base = record.generations.base;
  std::copy(record.generations.history.begin(), record.generations.history.end(),
            disk.generation_history);
  set_name(disk.volume, record.volume);
  set_name(disk.node, record.node);
  disk.crc = checksum(disk);
  std::array<std::byte, sizeof(Superblock)> bytes;
  std::memcpy(bytes.data(), &disk, sizeof disk);
  return bytes;
}

Result<Loaded> load(std::span<const std::byte> file, const std::string& path) {
  if (all_zero(file)) return Loaded{.blank = true, .record = {}, .sequence = 0, .warning = {}};
  std::array<std::optional<Copy>, 2> copies;
  std::array<std::string, 2> why;
  for (size_t i = 0; i < 2; ++i) {
    const uint64_t offset = std::min<uint64_t>(kSuperblockOffset[i], file.size());
    copies[i] =
        decode(file.subspan(offset, std::min(sizeof(Superblock), file.size() - offset)), why[i]);
  }
  if (!copies[0] && !copies[1])
    return Error{path + ": both copies of the metadata are bad (first: " + why[0] +
                     "; second: " + why[1] + ")",
                 "restore the file from a backup, or, to have this node copied anew from its peer, "
                 "move it away and run `twinblock init --join` here",
                 0};
  const bool second = !copies[0] || (copies[1] && copies[1]->sequence > copies[0]->sequence);
  Loaded loaded;
  loaded.record = copies[second ? 1 : 0]->record;
  loaded.sequence = copies[second ? 1 : 0]->sequence;
  const size_t damaged = copies[0] ? 1 : 0;
  // A fresh file has only ever had one copy written; all zero is not damage.
  const auto other = file.subspan(std::min<uint64_t>(kSuperblockOffset[damaged], file.size()));
  if (!copies[damaged] && !all_zero(other.first(std::min(sizeof(Superblock), other.size()))))
    loaded.warning = path + ": metadata copy " + std::to_string(damaged + 1) + " is bad (" +
                     why[damaged] + "); using the other one";
  return loaded;
}

std::string format_generation(uint64_t generation) {
  char text[24];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(generation));
  return text;
}

std::string format_uuid(const Uuid& uuid) {
  std::string text;
  for (size_t i = 0; i < uuid.size(); ++i) {
    char byte[4];
    std::snprintf(byte, sizeof byte, "%02x", uuid[i]);
    text += byte;
    if (i == 3 || i == 5 || i == 7 || i == 9) text += '-';
  }
  return text;
}

}  // namespace twinblock::metadata
