// One read of a client's beside the loop: what is cached is copied, the disk is asked for the rest, and that is kept.
// Before it, its owner has taken a mark of the worker's view, and before the client is answered he asks whether that is
// unchanged, as for any read of the disk. Without a cache all is read from the disk. What another reader is just reading from
// the disk, by its digest, is waited for: read what is missing(), keep() it or do not, end(); while one waits(), wait, then
// take_what_came() and read what is missing() now. Owned by who reads, the plugin's worker
// or the simulator's client; on its thread. Whole blocks only: what a request has of a block in part is read from the disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "volume/worker_view.h"

namespace twinblock {

class CachedRead {
 public:
  struct Run {
    uint64_t at_bytes, length_bytes;  // within the request
  };

  // Copies what is cached. Without a cache (nullptr) all is missing.
  CachedRead(ContentCache* cache, const WorkerView& view, InflightFilter::Mark mark, uint64_t offset_bytes,
             std::span<std::byte> into, uint64_t now_ns);
  ~CachedRead() { end(); }
  CachedRead(const CachedRead&) = delete;
  CachedRead& operator=(const CachedRead&) = delete;

  // What is still to be read from the disk, in order: the gaps, or all at once where most of it is missing.
  [[nodiscard]] std::span<const Run> missing() const { return all_ ? std::span(&whole_, 1) : std::span(gaps_); }
  // That was read, and the mark was unchanged afterwards. It may have changed again by now. If there is time for it, or
  // others are waiting for that …
  [[nodiscard]] bool worth_keeping(uint64_t now_ns) const;
  // … it is kept.
  void keep() const;
  // What was missing has been read, or could not be: who waits for it goes on.
  void end();
  // Whether some blocks were to come for other readers, …
  [[nodiscard]] bool joined() const { return !coming_.empty(); }
  // … and still are; not for ever.
  [[nodiscard]] bool waits(uint64_t now_ns) const;
  // Blocks until it does not.
  void wait(const Clock& clock);
  // After end(), when it does not wait any more. What did not come is missing.
  void take_what_came();

 private:
  void join_others(std::span<const PlaceIndex::Place> places, uint64_t now_ns);
  void find_gaps();

  ContentCache* const cache_;
  const WorkerView& view_;
  const InflightFilter::Mark mark_;
  const uint64_t offset_bytes_;
  const Run whole_;
  uint64_t first_block_ = 0;
  uint64_t blocks_begin_bytes_ = 0;  // within the request
  std::span<std::byte> blocks_;  // the whole ones
  std::vector<bool> found_;  // is here, or comes for another reader
  struct Coming {
    size_t block;
    ContentTag tag;
    std::shared_ptr<ReadsUnderWay::Reading> reading;
  };
  std::vector<Coming> coming_;
  std::shared_ptr<ReadsUnderWay::Reading> mine_;  // what others may be waiting for
  bool all_ = true;
  std::vector<Run> gaps_;
};

}  // namespace twinblock
