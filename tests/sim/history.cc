#include "history.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "report.h"
#include "virtual_disk.h"

namespace twinblock::sim {
namespace {

// A sector is twice the same half, so that it can be compressed.
constexpr size_t kHalfBytes = kSectorBytes / 2;
using Half = std::array<uint64_t, kHalfBytes / sizeof(uint64_t)>;

Half make_half(uint64_t number, uint64_t sector, uint64_t salt) {
  Half words;
  words[0] = number;
  words[1] = sector;
  uint64_t word = number * 0x9E3779B97F4A7C15 + sector + salt;
  for (size_t i = 2; i < words.size(); ++i) words[i] = word += 0xD1B54A32D192ED03;
  return words;
}

std::string seconds(uint64_t ns) {
  return ns == ~uint64_t{0} ? "never" : std::to_string(static_cast<double>(ns) / 1e9);
}

}  // namespace

History::History(uint64_t volume_bytes) : sectors_(volume_bytes / kSectorBytes) {
  // Number 0: the zeroes that the volume begins with.
  writes_.push_back({0, volume_bytes, 0, 0, true, false, false});
  for (auto& clusters : sectors_) clusters.push_back({0, 0, 0, kNever});
}

void History::fill(uint64_t number, uint64_t offset_bytes, std::span<std::byte> data) const {
  const uint64_t salted = salt(number);
  for (size_t at = 0; at < data.size(); at += kSectorBytes) {
    const Half half = make_half(number, (offset_bytes + at) / kSectorBytes, salted);
    std::memcpy(data.data() + at, half.data(), kHalfBytes);
    std::memcpy(data.data() + at + kHalfBytes, half.data(), kHalfBytes);
  }
}

uint64_t History::number_of(uint64_t sector, std::span<const std::byte> data) const {
  uint64_t found[2];
  std::memcpy(found, data.data(), sizeof found);
  const Half expected = found[0] == 0 ? Half{} : make_half(found[0], sector, salt(found[0]));
  if (std::memcmp(data.data(), expected.data(), kHalfBytes) != 0 ||
      std::memcmp(data.data() + kHalfBytes, expected.data(), kHalfBytes) != 0 ||
      found[0] >= writes_.size())
    Report::violation("sector " + std::to_string(sector) + " holds what no write wrote there (" +
                      std::to_string(found[0]) + ", of sector " + std::to_string(found[1]) + ")");
  return found[0];
}

uint64_t History::number_said(uint64_t sector, std::span<const std::byte> data) const {
  uint64_t said[2];
  std::memcpy(said, data.data(), sizeof said);
  return said[0] < writes_.size() && (said[0] == 0 || said[1] == sector) ? said[0]
                                                                         : number_of(sector, data);
}

uint64_t History::write_begins(uint64_t offset_bytes, uint64_t length_bytes, bool zero,
                               uint64_t now_ns) {
  const uint64_t number = writes_.size();
  writes_.push_back({offset_bytes, length_bytes, now_ns, kNever, zero, false, false});
  unanswered_.push_back(number);
  for (uint64_t at = 0; at < length_bytes; at += kSectorBytes) {
    auto& clusters = sectors_[(offset_bytes + at) / kSectorBytes];
    if (clusters.size() >= 8 && std::has_single_bit(clusters.size())) prune(clusters);
    clusters.push_back({number, kNever, now_ns, kNever});
  }
  return number;
}

// Drops values that neither a read nor a power failure may bring back: they were replaced by one
// that is flushed, before any read that may still return them began.
void History::prune(std::vector<Cluster>& clusters) const {
  const uint64_t settled_ns = std::min(flushed_ns_, oldest_read_ns_);
  LatestBegin settled;
  for (const Cluster& value : clusters)
    if (value.first_end_ns < settled_ns) settled.add(value);  // as latest() has it
  std::erase_if(clusters, [&](const Cluster& value) {
    return value.end_ns() < settled.of_others_than(value);
  });
}

History::Cluster* History::find(uint64_t sector, uint64_t number) {
  auto& clusters = sectors_[sector];
  const auto found = std::find_if(clusters.rbegin(), clusters.rend(),
                                  [number](const Cluster& c) { return c.number == number; });
  return found == clusters.rend() ? nullptr : &*found;
}

void History::write_acknowledged(uint64_t number, bool fua, uint64_t now_ns) {
  Write& write = writes_[number];
  write.acknowledged_ns = now_ns;
  last_acknowledged_ns_ = now_ns;
  binding_ = true;
  write.fua = fua;
  std::erase(unanswered_, number);
  for (uint64_t at = 0; at < write.length_bytes; at += kSectorBytes) {
    const uint64_t sector = (write.offset_bytes + at) / kSectorBytes;
    Cluster* cluster = find(sector, number);
    if (cluster == nullptr) continue;
    cluster->first_end_ns = std::min(cluster->first_end_ns, now_ns);
    if (const Cluster* other = conflict(sector, *cluster))
      Report::violation("sector " + std::to_string(sector) + ": " + describe(number) +
                        " can't be ordered with " + describe(other->number));
  }
  // A FUA write covers what was acknowledged before it began, too.
  if (fua) flush_acknowledged(write.began_ns);
}

void History::write_failed(uint64_t number) { writes_[number].failed = true; }

void History::flush_acknowledged(uint64_t began_ns) {
  binding_ = true;
  flushed_ns_ = std::max(flushed_ns_, began_ns);
}

const History::Cluster* History::conflict(uint64_t sector, const Cluster& cluster) const {
  for (const Cluster& other : sectors_[sector]) {
    // In this order, since the first is rarely so.
    if (cluster.first_end_ns < other.last_begin_ns && other.first_end_ns < cluster.last_begin_ns &&
        other.number != cluster.number)
      return &other;
  }
  return nullptr;
}

void History::read_returned(uint64_t offset_bytes, std::span<const std::byte> data,
                            uint64_t began_ns, uint64_t now_ns) {
  for (size_t at = 0; at < data.size(); at += kSectorBytes) {
    const uint64_t sector = (offset_bytes + at) / kSectorBytes;
    const uint64_t number = number_of(sector, data.subspan(at, kSectorBytes));
    if (number == 0)
      read_zeroes(sector, began_ns, now_ns);
    else
      read_sector(sector, number, began_ns, now_ns);
  }
}

void History::read_sector(uint64_t sector, uint64_t number, uint64_t began_ns, uint64_t now_ns) {
  Cluster* cluster = find(sector, number);
  if (cluster == nullptr)
    Report::violation("a read of sector " + std::to_string(sector) + " returned " +
                      describe(number) + ", which was replaced or lost before");
  Cluster read = *cluster;
  read.first_end_ns = std::min({read.first_end_ns, read.happened_by_ns, now_ns});
  read.last_begin_ns = std::max(read.last_begin_ns, began_ns);
  if (binding_) *cluster = read;
  if (const Cluster* other = conflict(sector, read))
    Report::violation("a read of sector " + std::to_string(sector) + " that began at " +
                      seconds(began_ns) + " returned " + describe(number) + ", but " +
                      describe(other->number) + " had taken its place: known at " +
                      seconds(other->first_end_ns));
}

// Zeroes do not say which write they are from: one that fits is enough.
void History::read_zeroes(uint64_t sector, uint64_t began_ns, uint64_t now_ns) {
  const Cluster* newest = nullptr;
  for (const Cluster& cluster : sectors_[sector]) {
    if (cluster.first_end_ns != kNever && !writes_[cluster.number].zero) newest = &cluster;
    if (!writes_[cluster.number].zero) continue;
    Cluster read = cluster;
    read.first_end_ns = std::min({read.first_end_ns, read.happened_by_ns, now_ns});
    read.last_begin_ns = std::max(read.last_begin_ns, began_ns);
    if (conflict(sector, read) == nullptr) return;
  }
  Report::violation("a read of sector " + std::to_string(sector) + " that began at " +
                    seconds(began_ns) + " returned zeroes, but " +
                    (newest == nullptr ? "there were none" : describe(newest->number)) +
                    " had taken their place");
}

void History::failed_over(uint64_t now_ns) {
  binding_ = false;
  for (const uint64_t number : unanswered_) {
    const Write& write = writes_[number];
    for (uint64_t at = 0; at < write.length_bytes; at += kSectorBytes) {
      Cluster* cluster = find((write.offset_bytes + at) / kSectorBytes, number);
      if (cluster != nullptr) cluster->happened_by_ns = std::min(cluster->happened_by_ns, now_ns);
    }
  }
  unanswered_.clear();
}

History::LatestBegin History::latest(const std::vector<Cluster>& clusters, Kept kept) const {
  LatestBegin found;
  const uint64_t until_ns = kept == Kept::kAll ? kNever : flushed_ns_;
  for (const Cluster& value : clusters) {
    // Not at the same moment: a process that goes on after a pause does much at once, in any order.
    if (value.first_end_ns < until_ns ||
        (value.first_end_ns != kNever && writes_[value.number].fua))
      found.add(value);
  }
  return found;
}

// Which values may the sector have now? All that a flushed one had not replaced.
void History::settle_sector(std::vector<Cluster>& clusters, uint64_t now_ns) const {
  const LatestBegin flushed = latest(clusters, Kept::kFlushed);
  std::erase_if(clusters, [&](const Cluster& value) {
    return value.end_ns() < flushed.of_others_than(value);
  });
  for (Cluster& left : clusters) left = {left.number, kNever, 0, now_ns};
  if (clusters.size() == 1) clusters[0].first_end_ns = now_ns;
}

bool History::may_hold(uint64_t sector, uint64_t number, Kept kept) const {
  const auto& clusters = sectors_[sector];
  const LatestBegin latest_kept = latest(clusters, kept);
  return std::any_of(clusters.begin(), clusters.end(), [&](const Cluster& value) {
    const bool fits = number == 0 ? writes_[value.number].zero : value.number == number;
    return fits && value.end_ns() >= latest_kept.of_others_than(value);
  });
}

void History::unflushed_lost(uint64_t now_ns) {
  failed_over(now_ns);
  for (auto& clusters : sectors_)
    if (clusters.size() > 1) settle_sector(clusters, now_ns);
}

std::string History::describe(uint64_t number) const {
  const Write& write = writes_[number];
  return std::string(write.zero ? "zeroes " : "write ") + std::to_string(number) + " (offset " +
         std::to_string(write.offset_bytes) + ", " + std::to_string(write.length_bytes) +
         " bytes, began " + seconds(write.began_ns) + ", acknowledged " +
         seconds(write.acknowledged_ns) + (write.fua ? ", FUA" : "") +
         (write.failed ? ", failed" : "") + ")";
}

}  // namespace twinblock::sim
