#include "metadata/superblock.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "base/checks.h"
#include "base/crc32c.h"
#include "base/limits.h"

namespace twinblock::metadata {
namespace {

uint32_t checksum(Superblock copy) {
  copy.crc = 0;
  return crc32c(std::as_bytes(std::span<const Superblock, 1>(&copy, 1)));
}

template <size_t N>
std::string name_of(const char (&field)[N]) {
  return {field, strnlen(field, N)};
}

// Every flag and where it is kept.
struct FlagField {
  uint32_t flag;
  bool NodeRecord::*field;
};
constexpr FlagField kFlagFields[] = {
    {kFlagPrimary, &NodeRecord::primary},
    {kFlagPeerPrimary, &NodeRecord::peer_primary},
    {kFlagInconsistent, &NodeRecord::inconsistent},
    {kFlagDirty, &NodeRecord::dirty},
    {kFlagShared, &NodeRecord::shared},
    {kFlagAllDirty, &NodeRecord::all_dirty},
    {kFlagSnapshot, &NodeRecord::snapshot},
    {kFlagDiscard, &NodeRecord::discard},
    {kFlagKeep, &NodeRecord::keep},
    {kFlagHeldData, &NodeRecord::held_data},
    {kFlagFlushFailed, &NodeRecord::flush_failed},
    {kFlagUnwitnessed, &NodeRecord::unwitnessed},
    {kFlagFlushing, &NodeRecord::flushing},
    {kFlagRepairing, &NodeRecord::repairing},
};
constexpr uint32_t all_flags() {
  uint32_t flags = 0;
  for (const FlagField& each : kFlagFields) flags |= each.flag;
  return flags;
}
static_assert(all_flags() == kFlagsKnown);

// What another version of this software wrote, and this one does not know; empty: nothing.
std::string unknown_in(const Superblock& disk) {
  if (disk.version != kFormatVersion)
    return "format version " + std::to_string(disk.version) + ", and this twinblock knows version " +
           std::to_string(kFormatVersion);
  const bool reserved_is_zero =
      disk.reserved0 == 0 && std::all_of(std::begin(disk.reserved), std::end(disk.reserved),
                                         [](uint8_t byte) { return byte == 0; });
  return (disk.flags & ~kFlagsKnown) != 0 || !reserved_is_zero ? "fields that this twinblock does not know" : "";
}

// What a good checksum does not rule out: bugs of whoever wrote it.
std::string why_unusable(const Superblock& disk) {
  if (disk.size_bytes < limits::kVolumeBytesMin || disk.size_bytes > limits::kVolumeBytesMax)
    return "a volume of " + std::to_string(disk.size_bytes) + " bytes";
  if (!region_bytes_valid(disk.region_bytes))
    return "intent regions of " + std::to_string(disk.region_bytes) + " bytes";
  if (disk.generation_current == 0) return "no generation";
  if (disk.sequence > UINT64_MAX / 2) return "a number of updates that nobody can have written";
  if ((disk.flags & kFlagDiscard) != 0 && (disk.flags & kFlagKeep) != 0)
    return "orders to give up both nodes' writes";
  if (disk.way_back.generation_current != 0 && (disk.flags & kFlagInconsistent) == 0)
    return "a way back of a replica that is whole";
  return "";
}

// Those of the record and of a way back lie under the same names.
template <typename Disk>
void set_generations(Disk& disk, const Generations& generations) {
  disk.generation_current = generations.current;
  disk.generation_base = generations.base;
  std::copy(generations.history.begin(), generations.history.end(), disk.generation_history);
}

template <typename Disk>
Generations generations_of(const Disk& disk) {
  Generations generations{.current = disk.generation_current, .base = disk.generation_base};
  std::copy_n(disk.generation_history, kHistoryEntries, generations.history.begin());
  return generations;
}

WayBackEntry entry_of(const WayBack& way) {
  WayBackEntry entry{};
  set_generations(entry, way.generations);
  entry.term = way.term;
  entry.taken_s = way.taken_s;
  entry.to_get_bytes = way.to_get_bytes;
  return entry;
}

WayBack way_of(const WayBackEntry& entry) {
  return {generations_of(entry), entry.term, entry.taken_s, entry.to_get_bytes};
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

// What is left behind joins the history at once, the base too, so that the history is in the order
// of time: where an old entry fell off its end, all that are older have, and a replica from then
// has nothing in common with this one, which is what it has to find.
void Generations::advance(uint64_t fresh) {
  TB_CHECK(fresh != 0 && !knows(fresh), "a new generation must be new");
  std::move_backward(history.begin(), history.end() - 1, history.end());
  history[0] = current;
  // Without the peer a second time, the base stays.
  if (base == current || base == 0) base = current;
  current = fresh;
}

// Who is at `told` holds more than this replica does, and must not find itself in its past: it would be brought
// up to date by it without a question. What lies before `told` both still share, so that they have diverged.
void Generations::go_on_without(uint64_t told, uint64_t fresh) {
  TB_CHECK(fresh != 0 && fresh != told && !knows(fresh), "a new generation must be new");
  const auto end = std::remove(history.begin(), history.end(), told);
  std::fill(end, history.end(), 0);
  if (base == told) base = 0;
  if (current != told) {
    advance(fresh);
    return;
  }
  current = fresh;
  if (base == 0) base = fresh;
}

bool Sessions::knows(uint64_t session) const {
  return session == 0 || session == begun || std::find(stood.begin(), stood.end(), session) != stood.end();
}

void Sessions::begin(uint64_t session, const Sessions& peer) {
  const uint64_t theirs = peer.stood.front();
  if (begun != 0 && theirs == begun)
    stands(begun);
  else if (begun != 0)
    put(begun, theirs == stood.front() ? kSessionsStood : 1);
  if (theirs != 0 && theirs != stood.front() && knows(theirs)) put(theirs, 1);
  begun = session;
}

void Sessions::stands(uint64_t session) {
  if (stood.front() == session) return;
  put(session, 0);
  begun = 0;
}

// Before what was there, and away from where it was.
void Sessions::put(uint64_t session, size_t place) {
  const auto end_of = [this](size_t at) { return place_of(at < kSessionsStood ? kSessionsStood : stood.size()); };
  if (const auto was = std::find(stood.begin(), stood.end(), session); was != stood.end()) {
    const auto end = end_of(static_cast<size_t>(was - stood.begin()));
    *std::move(was + 1, end, was) = 0;
  }
  std::move_backward(place_of(place), end_of(place) - 1, end_of(place));
  *place_of(place) = session;
}

uint64_t intent_tag(const Uuid& volume_uuid) {
  uint64_t tag = 0;
  std::memcpy(&tag, volume_uuid.data(), sizeof tag);
  return tag;
}

std::array<std::byte, sizeof(Superblock)> encode(const NodeRecord& record, uint64_t sequence) {
  TB_CHECK(region_bytes_valid(record.region_bytes), "a record that can be read again");
  Superblock disk{};
  disk.magic = kSuperblockMagic;
  disk.version = kFormatVersion;
  disk.sequence = sequence;
  std::copy(record.volume_uuid.begin(), record.volume_uuid.end(), disk.volume_uuid);
  disk.size_bytes = record.size_bytes;
  for (const FlagField& each : kFlagFields)
    if (record.*each.field) disk.flags |= each.flag;
  disk.region_bytes = record.region_bytes;
  set_generations(disk, record.generations);
  set_name(disk.volume, record.volume);
  set_name(disk.node, record.node);
  disk.snapshot_bytes = record.snapshot_bytes;
  disk.snapshot_crc = record.snapshot_crc;
  disk.term = record.term;
  disk.heard_term = record.heard_term;
  disk.boot = record.boot;
  disk.peer_instance = record.peer_instance;
  disk.peer_boot = record.peer_boot;
  disk.generation_since_s = record.generation_since_s;
  disk.state_id = record.state_id;
  disk.given_up = record.given_up;
  disk.begun_for = record.begun_for;
  disk.promoted_boot = record.promoted_boot;
  disk.claim = record.claim;
  disk.named = record.named;
  disk.followed_boot = record.followed_boot;
  // There is no other copy beside the first one: it fits into a sector, so that a crash leaves all of it or nothing.
  if (sequence > 1) {
    std::copy(record.sessions.stood.begin(), record.sessions.stood.end(), disk.sessions);
    disk.session_begun = record.sessions.begun;
    disk.backing_number = record.backing_number;
    disk.metadata_number = record.metadata_number;
  }
  disk.way_back = entry_of(record.way_back);
  disk.crc = checksum(disk);
  std::array<std::byte, sizeof(Superblock)> bytes;
  std::memcpy(bytes.data(), &disk, sizeof disk);
  return bytes;
}

Result<DecodedSuperblock> decode(std::span<const std::byte, sizeof(Superblock)> bytes) {
  Superblock disk;
  std::memcpy(&disk, bytes.data(), sizeof disk);
  if (disk.magic != kSuperblockMagic) return Error{"not a twinblock superblock", "", 0};
  if (disk.crc != checksum(disk)) return Error{"wrong checksum", "", 0};
  if (const std::string unknown = unknown_in(disk); !unknown.empty())
    return Error{unknown,
                 "use the twinblock that wrote it; or move the metadata away on both nodes, run "
                 "`twinblock init` on the one whose data counts, and `twinblock init --join` on "
                 "the other",
                 0};
  if (const std::string why = why_unusable(disk); !why.empty()) return Error{why, "", 0};
  DecodedSuperblock decoded{{}, disk.sequence};
  NodeRecord& record = decoded.record;
  std::copy_n(disk.volume_uuid, sizeof disk.volume_uuid, record.volume_uuid.begin());
  record.volume = name_of(disk.volume);
  record.node = name_of(disk.node);
  record.size_bytes = disk.size_bytes;
  record.region_bytes = disk.region_bytes;
  record.generations = generations_of(disk);
  record.generation_since_s = disk.generation_since_s;
  record.term = disk.term;
  record.heard_term = disk.heard_term;
  record.boot = disk.boot;
  record.peer_instance = disk.peer_instance;
  record.peer_boot = disk.peer_boot;
  record.state_id = disk.state_id;
  record.given_up = disk.given_up;
  record.begun_for = disk.begun_for;
  record.promoted_boot = disk.promoted_boot;
  record.claim = disk.claim;
  record.named = disk.named;
  record.followed_boot = disk.followed_boot;
  std::copy_n(disk.sessions, kSessionEntries, record.sessions.stood.begin());
  record.sessions.begun = disk.session_begun;
  record.backing_number = disk.backing_number;
  record.metadata_number = disk.metadata_number;
  record.way_back = way_of(disk.way_back);
  record.snapshot_bytes = disk.snapshot_bytes;
  record.snapshot_crc = disk.snapshot_crc;
  for (const FlagField& each : kFlagFields) record.*each.field = (disk.flags & each.flag) != 0;
  return decoded;
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
