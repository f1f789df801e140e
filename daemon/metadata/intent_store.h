// The intent map on the metadata disk: which regions of the volume may differ from the peer's after a
// crash. A region's bit is on stable storage before the first write into the region begins, and stays for
// as long as the engine needs it. Owned by the engine; loop thread only; memory: what the bits take
// (intent_map.h), and what one commit copies.
//
// Group commit: one commit is under way at a time. It takes copies of all changed pages, writes
// them, flushes once, and then tells everybody whose regions it covered; who came meanwhile shares
// the next one. Clearing a bit needs no waiting and is written along, or by the next age().
// When it begins: commit_gathering.h.
//
// Errors are errno values and final: the metadata disk has failed, nothing more is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "io/clock.h"
#include "io/disk.h"
#include "metadata/commit_gathering.h"
#include "metadata/disk_format.h"
#include "metadata/intent_map.h"

namespace twinblock::metadata {

class IntentStore {
 public:
  class Waiter {
   public:
    virtual void intent_recorded(int error) = 0;

   protected:
    ~Waiter() = default;
  };

  // The disk has room for layout_of(volume_bytes, region_bytes). Without a clock every commit
  // begins at once.
  IntentStore(Disk& disk, uint64_t volume_bytes, uint32_t region_bytes, Clock* clock = nullptr);
  IntentStore(const IntentStore&) = delete;
  IntentStore& operator=(const IntentStore&) = delete;

  // Begins with what metadata::load() returned. The bits count as set, but not as durable: a
  // process that died may have left them in the page cache only. They are written with the next
  // commits.
  void load(const std::vector<uint64_t>& words, uint64_t tag, uint64_t sequence);
  // Begins anew: all clear, every page written, one flush. `done` is called later (at once if the
  // store has failed before). The superblock that makes the pages count is written after it.
  void create(uint64_t tag, std::function<void(int error)> done);
  // Until a create() has ended there may be no other one.
  [[nodiscard]] bool creating() const { return creation_.wanted; }
  // The volume is to become larger: writes the pages that it needs then, clear, and flushes them. `done`
  // is called later, with 0 or an errno value (at once if the store has failed before). Nothing else changes: a
  // superblock of the old size does not look at them. One at a time, with room on the disk for them.
  void prepare_growth(uint64_t volume_bytes, std::function<void(int error)> done);
  // It is larger, after prepare_growth().
  void grow(uint64_t volume_bytes);

  // Whether all regions that the range touches are set durably; marks them as touched. A range of
  // at least one byte, inside the volume.
  [[nodiscard]] bool covered(uint64_t offset_bytes, uint64_t length_bytes) {
    return map_.covered(offset_bytes, length_bytes);
  }
  // Sets the regions that the range touches; `waiter` is told when they are durable, later, never
  // from within. Returns 0, or the error of a store that has failed: the waiter isn't told then.
  [[nodiscard]] int cover(uint64_t offset_bytes, uint64_t length_bytes, Waiter& waiter);

  // Ends a round; call every limits::kIntentAge_ns. Clears regions that were not touched in this
  // round and the one before, are not waited for, and that `needed` doesn't want (in flight, in an
  // open epoch, dirty). Looks at IntentMap::kAgeLooksMax regions at the most and goes on there the
  // next time.
  void age(const std::function<bool(uint64_t offset_bytes, uint64_t length_bytes)>& needed);
  // Forgets all, but for what is waited for: this node's replica is what the peer's is.
  void clear_all();

  // The disk does not answer: it has failed, and everybody who waits is told, whatever comes of what is under way.
  void give_up(int error);

  // Of what is set (IntentMap).
  void for_each_set(const std::function<void(uint64_t offset_bytes, uint64_t length_bytes)>& visit) const {
    map_.for_each_set(visit);
  }
  [[nodiscard]] bool any(uint64_t offset_bytes, uint64_t length_bytes) const {
    return map_.any(offset_bytes, length_bytes);
  }
  [[nodiscard]] uint64_t set_bytes() const { return map_.set_bytes(); }
  [[nodiscard]] uint32_t region_bytes() const { return map_.region_bytes(); }

  [[nodiscard]] int error() const { return error_; }
  [[nodiscard]] bool idle() const { return step_ == Step::kIdle; }
  // Whether anybody waits for the disk.
  [[nodiscard]] bool awaited() const { return !waiting_.empty() || creation_.done || growth_.done; }
  [[nodiscard]] uint64_t commits_total() const { return commits_; }  // flushes begun
  [[nodiscard]] uint64_t waits_total() const { return waits_; }      // cover() calls accepted

 private:
  enum class Step : uint8_t { kIdle, kWrite, kFlush, kCreateWrite, kCreateFlush, kTell };
  struct Waiting {
    Waiter* waiter;
    IntentMap::Regions regions;
  };
  // Images that one commit copies at the most: a load or clear_all() may change more pages, which
  // then follow in further commits.
  static constexpr size_t kCommitPagesMax = 64;

  void forget_bits();
  void begin_when_worth();
  void begin();
  void begin_create();
  void submit_pages();
  void submit_flush(Step step);
  void create_pages();
  void request_done(const DiskRequest& request);
  void step_done();
  void commit_done();
  void tell();
  void growth_step();

  Disk& disk_;
  Layout layout_;
  uint64_t tag_ = 0;
  uint64_t sequence_ = 0;  // of the last commit
  int error_ = 0;

  IntentMap map_;
  std::vector<Waiting> waiting_;

  // The commit under way.
  Step step_ = Step::kIdle;
  int step_error_ = 0;
  size_t outstanding_ = 0;
  std::vector<IntentPage> images_;  // of the pages that it writes, ascending
  std::vector<DiskRequest> writes_;
  DiskRequest flush_;
  struct Creation {
    std::function<void(int)> done;
    bool wanted = false;
    uint64_t written_pages = 0;
  } creation_;
  CommitGathering gathering_;
  // Pages that are not in use yet, apart from the commits.
  struct Growth {
    uint64_t volume_bytes = 0;  // 0: none
    std::function<void(int)> done;
    std::vector<IntentPage> images;
    DiskRequest request;
  } growth_;

  uint64_t commits_ = 0;
  uint64_t waits_ = 0;
};

}  // namespace twinblock::metadata
