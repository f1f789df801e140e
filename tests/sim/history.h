// What clients were promised, and whether what they read keeps it. Knows nothing of the simulator.
//
// Each write has a number, which its sectors carry, so that a read tells which write each sector is
// from. A sector is an atomic register with unique values: with the operations on one value (its
// write and the reads that returned it) taken as a cluster, the history is linearizable if no two
// clusters each have an operation that ended before one of the other began (Gibbons and Korach,
// "Testing shared memories", 1997). Unanswered writes may have happened or not. When unflushed data
// may have been lost, each sector is back at any value that no flushed one had replaced.
//
// A promotion without writes leaves no trace (design, section 6): what was read from a new primary
// binds only from its first acknowledged write or flush on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "random.h"

namespace twinblock::sim {

class History {
 public:
  explicit History(uint64_t volume_bytes);

  // The number of a new write; `zero`: its sectors read as zeroes.
  uint64_t write_begins(uint64_t offset_bytes, uint64_t length_bytes, bool zero, uint64_t now_ns);
  void write_acknowledged(uint64_t number, bool fua, uint64_t now_ns);
  // An error: it may have happened in part, now or later.
  void write_failed(uint64_t number);
  // A flush that began at `began_ns` has been acknowledged.
  void flush_acknowledged(uint64_t began_ns);
  void read_returned(uint64_t offset_bytes, std::span<const std::byte> data, uint64_t began_ns,
                     uint64_t now_ns);
  // No read that is still under way began before this.
  void set_oldest_read(uint64_t began_ns) { oldest_read_ns_ = began_ns; }
  // The node that served is gone: what was under way has happened by now, or never will.
  void failed_over(uint64_t now_ns);
  // … and what was acknowledged but not flushed may be lost.
  void unflushed_lost(uint64_t now_ns);
  // When a write was last acknowledged; 0: never.
  [[nodiscard]] uint64_t last_acknowledged_ns() const { return last_acknowledged_ns_; }
  [[nodiscard]] uint64_t writes_total() const { return writes_.size() - 1; }
  [[nodiscard]] std::string describe(uint64_t number) const;

  // From now on this is the history of one side of a split brain: what is written here differs from
  // what is written in the original that this was copied from.
  void branch(uint64_t salt) { branches_.push_back({writes_.size(), salt}); }
  // What of the acknowledged writes a replica holds at least.
  enum class Kept { kFlushed, kAll };
  // Whether such a replica may hold this: none of those writes had replaced it.
  [[nodiscard]] bool may_hold(uint64_t sector, uint64_t number, Kept kept) const;

  // The bytes of a write, and the number that a sector carries (0: zeroes).
  void fill(uint64_t number, uint64_t offset_bytes, std::span<std::byte> data) const;
  [[nodiscard]] uint64_t number_of(uint64_t sector, std::span<const std::byte> data) const;
  // The same, believing what the sector's first words say.
  [[nodiscard]] uint64_t number_said(uint64_t sector, std::span<const std::byte> data) const;

 private:
  static constexpr uint64_t kNever = ~uint64_t{0};

  struct Write {
    uint64_t offset_bytes, length_bytes, began_ns, acknowledged_ns;
    bool zero, fua, failed;
  };
  struct Branch {
    uint64_t first_number, salt;
  };
  // The operations on one value of one sector.
  struct Cluster {
    uint64_t number;
    uint64_t first_end_ns;  // of those that have ended; kNever: nobody knows it to have happened
    uint64_t last_begin_ns;
    uint64_t happened_by_ns;  // if it happened at all
    // Since when one of its operations must have taken effect.
    [[nodiscard]] uint64_t end_ns() const { return std::min(first_end_ns, happened_by_ns); }
  };
  // The latest begin of an operation on any of some values of a sector. The operations on another
  // value that have ended before it show that it was replaced.
  class LatestBegin {
   public:
    void add(const Cluster& value) {
      if (value.last_begin_ns > latest_ns_) {
        second_ns_ = std::exchange(latest_ns_, value.last_begin_ns);
        number_ = value.number;
      } else {
        second_ns_ = std::max(second_ns_, value.last_begin_ns);
      }
    }
    [[nodiscard]] uint64_t of_others_than(const Cluster& value) const {
      return value.number == number_ ? second_ns_ : latest_ns_;
    }

   private:
    uint64_t latest_ns_ = 0, second_ns_ = 0;
    uint64_t number_ = kNever;
  };

  [[nodiscard]] Cluster* find(uint64_t sector, uint64_t number);
  // The cluster that can't go together with one more read of `cluster`; null when all can.
  [[nodiscard]] const Cluster* conflict(uint64_t sector, const Cluster& cluster) const;
  void read_sector(uint64_t sector, uint64_t number, uint64_t began_ns, uint64_t now_ns);
  void read_zeroes(uint64_t sector, uint64_t began_ns, uint64_t now_ns);
  void prune(std::vector<Cluster>& clusters) const;
  void settle_sector(std::vector<Cluster>& clusters, uint64_t now_ns) const;
  // Of the values that are kept: one that had ended before has been replaced for good.
  [[nodiscard]] LatestBegin latest(const std::vector<Cluster>& clusters, Kept kept) const;
  [[nodiscard]] uint64_t salt(uint64_t number) const {
    uint64_t found = 0;
    for (const Branch& each : branches_)
      if (number >= each.first_number) found = each.salt;
    return found;
  }

  std::vector<Write> writes_;
  std::vector<uint64_t> unanswered_;
  bool binding_ = true;
  uint64_t last_acknowledged_ns_ = 0;
  uint64_t oldest_read_ns_ = 0;
  uint64_t flushed_ns_ = 0;  // what is known to have happened by then is on stable storage
  std::vector<Branch> branches_;
  std::vector<std::vector<Cluster>> sectors_;
};

}  // namespace twinblock::sim
