// One disk under one file system: a page cache over a medium. Requests take effect and finish after
// random delays, in any order. The death of the process leaves the page cache; the loss of power
// leaves the medium, onto which each unflushed 512-byte sector has got in one of the states that it
// went through since the last flush. A failed flush is final for the process: all later ones fail.
// What it was to cover may be lost: the cache shows it, as if it were on the medium, until the page
// is dropped (here: when a process begins) or the power is gone. A later process sees nothing wrong,
// unless it compares the two (memory_deceives()).
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/limits.h"
#include "disk_image.h"
#include "io/disk.h"
#include "metadata/block_map.h"
#include "random.h"
#include "scheduler.h"

namespace twinblock::sim {

struct DiskFaults {
  double read_error_chance = 0;
  double write_error_chance = 0;
  double flush_error_chance = 0;
  int flush_error = EIO;
  bool full = false;            // writes fail with ENOSPC …
  double full_chance = 1;       // … so many of them
  uint64_t extra_delay_ns = 0;  // each request takes up to this much longer
  // A disk that works, but slowly: each request takes up to this long, zeroes as long for each
  // kSlowZeroBytes, and a flush for each kSlowFlushBytes that it writes. 0: as fast as others.
  uint64_t slow_ns = 0;
  uint64_t hung_until_ns = 0;   // nothing finishes before, …
  uint64_t half_hangs_for_ns = 0;  // … and every other one of what has been asked until then so much later
};

class VirtualDisk final : public Disk {
 public:
  VirtualDisk(Scheduler& scheduler, Random random, std::string name, uint64_t size_bytes);

  // The process that makes requests from now on. The kernel may have dropped pages since the last one ended; but not all
  // that tell of a failed flush, where nothing else does (`leaves_trace`): it was just now, and they are the last to go.
  void attach(ProcessPtr process, bool leaves_trace = false);
  // It is gone: what it had submitted has happened, in part or not at all; nothing is answered. A flush that fails
  // in its death (fail_with_process()) loses some of what it was to cover, and the next process sees nothing wrong.
  void process_ended();
  // For how long the oldest flush has been under way; 0: none is.
  [[nodiscard]] uint64_t flushing_ns() const;
  void fail_with_process() { fails_with_process_ = true; }
  void power_lost();

  void submit(DiskRequest& request) override;
  [[nodiscard]] uint64_t size_bytes() const override { return cache_.size(); }
  [[nodiscard]] Status grow(uint64_t bytes, bool extend) override;
  // What an operator does to a file or device: more room, which is all zeroes, or holds something.
  void enlarge(uint64_t size_bytes, std::byte with = std::byte{0});
  [[nodiscard]] bool fast_zero() const override { return fast_zero_; }
  [[nodiscard]] uint64_t device_work() const override;
  [[nodiscard]] uint64_t flushing_since_ns() const override;
  [[nodiscard]] DataFound look_for_data() const override { return is_new() ? DataFound::kNone : DataFound::kSome; }
  static constexpr uint64_t kSlowZeroBytes = 8 * kKiB;
  static constexpr uint64_t kSlowFlushBytes = 64 * kKiB;

  // What a crash at this moment would leave, by one of its chances: the death of the process only,
  // or the loss of power. Changes nothing.
  [[nodiscard]] DiskImage after_kill(Random& random) const;
  [[nodiscard]] DiskImage after_power_loss(Random& random) const;
  // Bytes that nobody wrote: the medium has gone bad without a word.
  void corrupt(uint64_t offset_bytes, uint64_t length_bytes);
  // Each read of these sectors fails from now on, until they are written anew …
  void spoil(uint64_t offset_bytes, uint64_t length_bytes);
  // … or the disk can read them after all.
  void unspoil();
  [[nodiscard]] uint64_t unspoiled_ns() const { return unspoiled_ns_; }  // when it began to
  // Whether a read of this range that began at `since_ns` may have met any of them. (Such an error is the place's, and
  // has_failed() counts none of them.)
  [[nodiscard]] bool was_spoiled(uint64_t offset_bytes, uint64_t length_bytes, uint64_t since_ns) const;
  [[nodiscard]] bool is_spoiled(uint64_t offset_bytes, uint64_t length_bytes) const {
    return was_spoiled(offset_bytes, length_bytes, kForEver_ns);
  }
  [[nodiscard]] bool any_spoiled() const { return is_spoiled(0, size_bytes()); }
  // Whether a write, or a part of one, is on its way.
  [[nodiscard]] bool writing() const;
  // Called after each request has taken effect, before its done().
  std::function<void()> observer;

  // What a reader sees now.
  [[nodiscard]] std::span<const std::byte> contents() const { return cache_; }
  // When a block of that changed last.
  [[nodiscard]] uint64_t changed_ns(uint64_t offset_bytes) const {
    return changed_ns_[offset_bytes / limits::kBlockBytes];
  }
  // As it was put in. A volume that clients have zeroed is told from a new disk, which a real host
  // can't always do (a file that was trimmed as a whole).
  [[nodiscard]] bool is_new() const { return !written_; }
  // Another's contents, as far as `end_bytes`, come into the place of what it holds, past all requests; durable
  // at once, as a reflink onto it that was synced.
  void restore(std::span<const std::byte> contents, uint64_t end_bytes);
  // Everything that is in the cache reaches the medium, at once.
  void flush_now() { persist(done_number_, 0); }
  // Whether it shows what a loss of power may take back.
  [[nodiscard]] bool unflushed() const { return !dirty_sectors_.empty(); }
  // That it was given, since it was made.
  [[nodiscard]] uint64_t flushes_total() const { return flushes_; }
  // Whether it has done all that it was given.
  [[nodiscard]] bool idle() const { return pending_.empty(); }
  int read_now(uint64_t offset_bytes, std::span<std::byte> into);
  // Whether an error has been given to the process that runs now.
  [[nodiscard]] bool has_failed() const { return errors_ > 0; }

  // Whether an error other than "full" has, which only another process, or disk, makes good.
  [[nodiscard]] bool has_failed_for_good() const { return errors_ > errors_of_room_; }

  // Whether a flush failed in the process that runs now.
  [[nodiscard]] bool flush_failed() const { return flush_error_ != 0; }
  [[nodiscard]] uint64_t flush_failed_ns() const { return flush_failed_ns_; }
  // The sectors that the cache shows as if they were on the medium, though they are not.
  [[nodiscard]] std::vector<size_t> deceiving_sectors() const;
  // As DiskFile::forget_cache(). Some hosts can't, but after a loss of power.
  bool forget_cache();
  // … another one can, as soon as it takes flushes.
  [[nodiscard]] bool cache_can_be_dropped() const { return cache_can_be_dropped_; }
  // As look_at_memory() of io/posix: whether the cache shows anything there that the medium does not hold, or that can't
  // be read, so that nobody knows. Changes nothing.
  [[nodiscard]] bool memory_deceives(std::span<const ByteRange> ranges) const;
  // This host does not tell that (no direct I/O), until the power is lost.
  void hide_medium() { hides_medium_ = true; }
  // Puts these bytes on the medium at once, with nothing under way. False: it does not take them.
  bool write_now(uint64_t offset_bytes, std::span<const std::byte> bytes);

  // The next flush of this process hangs, whatever else the disk does meanwhile, until it is failed, or
  // none is to hang any more.
  void hold_next_flush() { holds_next_flush_ = true; }
  [[nodiscard]] bool holds_flush() const { return held_flush_ != 0; }
  void fail_held_flush();
  void let_flushes_go();

  DiskFaults faults;

 private:
  static constexpr uint64_t kForEver_ns = ~uint64_t{0};
  // A write as it may reach the medium later.
  struct Write {
    std::vector<std::byte> bytes;  // empty: zeroes
    uint64_t done_number = ~uint64_t{0};
  };
  struct Version {
    std::shared_ptr<Write> write;
    uint64_t offset_in_write;
    [[nodiscard]] const std::byte* data() const {  // null: zeroes
      return write->bytes.empty() ? nullptr : write->bytes.data() + offset_in_write;
    }
  };
  struct Pending {
    DiskRequest* request;
    std::shared_ptr<Write> write;  // once it has begun to take effect
    uint64_t flush_mark;
    uint64_t applied_bytes = 0;
    uint64_t later_ns = 0;  // of one that hangs for longer
  };

  [[nodiscard]] uint64_t service_ns(const DiskRequest& request);
  [[nodiscard]] uint64_t slow_service_ns(const DiskRequest& request);
  void changed(uint64_t offset_bytes, uint64_t length_bytes);
  void mend_spoiled(uint64_t offset_bytes, uint64_t length_bytes);
  void check_overlap(const DiskRequest& request) const;
  void apply(Pending& pending, uint64_t up_to_bytes);
  void apply_half(uint64_t id);
  void finish(uint64_t id);
  int transfer(Pending& pending);
  int finish_write(Pending& pending);
  int flush(uint64_t mark);
  void evict(size_t sector);
  void answer_extent(DiskRequest& request) const;
  void persist(uint64_t mark, double lost_chance);
  [[nodiscard]] bool is_zero(uint64_t offset_bytes, uint64_t length_bytes) const;
  void copy_to_medium(size_t sector, const Version& version);
  static void overwrite(DiskImage& image, const Pending& pending, Random& random);

  Scheduler& scheduler_;
  Random random_;
  const std::string name_;
  const bool fast_zero_;
  const bool knows_extents_;
  const uint64_t extent_bytes_;   // what its holes are a multiple of
  const bool slow_flush_;  // written data stays in the cache for long
  ProcessPtr process_;
  std::vector<std::byte> cache_;
  std::vector<uint64_t> changed_ns_;  // of each block of the cache
  bool written_ = false;              // by anybody, since it was put in
  std::vector<std::byte> medium_;
  // By sector, in the order in which they took effect; and which sectors have any, each once.
  std::vector<std::vector<Version>> unflushed_;
  std::vector<size_t> dirty_sectors_;
  std::map<uint64_t, Pending> pending_;
  uint64_t next_id_ = 1;
  bool holds_next_flush_ = false;
  uint64_t held_flush_ = 0;  // its id; 0: none
  bool fails_with_process_ = false;
  bool hides_medium_ = false;
  bool holds_nothing_ = false;  // in memory: nobody has used it since the power was lost
  uint64_t done_number_ = 0;
  uint64_t errors_ = 0;
  uint64_t flushes_ = 0;
  mutable uint64_t device_work_ = 1;
  uint64_t errors_of_room_ = 0;  // of those, writes that failed with ENOSPC
  int flush_error_ = 0;          // of the first flush that failed
  uint64_t flush_failed_ns_ = 0;  // … and when
  uint64_t unspoiled_ns_ = 0;
  std::map<size_t, uint64_t> spoiled_;  // sectors that can't be read, and until when
  std::set<size_t> lost_;        // sectors that a failed flush was to write and did not
  Random cache_random_;          // apart, so that what others draw stays what it was
  const bool cache_can_be_dropped_;
};

}  // namespace twinblock::sim
