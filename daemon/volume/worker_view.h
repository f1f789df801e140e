// What threads other than the loop's may know of a node: workers that read by themselves, and that
// prepare writes. Atomics only, so that none of them waits for the loop; the cache of reads, where there is one, has
// locks of its own, which are held for some tens of nanoseconds a block. Owned by Core; what is said to be the loop's is called there,
// all else on any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "base/limits.h"
#include "cache/content_cache.h"
#include "io/clock.h"
#include "mirror/inflight_filter.h"
#include "mirror/link_demand.h"

namespace twinblock {

class WorkerView {
 public:
  // For workers that read by themselves: a mark before they read, which there is none of while a write
  // is in flight there; then whether they may; and afterwards whether what they read is free of writes
  // that have begun since the mark (mirror/inflight_filter.h). Where they may not any more, set_local_reads()
  // has taken earlier marks away, so that nobody learns of a disk that was given up what lies at the peer.
  [[nodiscard]] bool local_reads(const Clock& clock) const {
    return local_reads_.load(std::memory_order_acquire) && lease_holds(clock);
  }
  // Until then the peer is known not to have been promoted without this node (Consent).
  [[nodiscard]] bool lease_holds(const Clock& clock) const {
    const uint64_t until_ns = lease_until_ns_.load(std::memory_order_acquire);
    return until_ns == kNoLease || clock.now_ns() < until_ns;
  }
  [[nodiscard]] std::optional<InflightFilter::Mark> mark_read(uint64_t offset_bytes,
                                                              uint64_t length_bytes) const {
    return inflight_.mark(offset_bytes, length_bytes);
  }
  // Both. In this order: a disk that is given up after the mark takes the mark away.
  [[nodiscard]] std::optional<InflightFilter::Mark> mark_local_read(const Clock& clock, uint64_t offset_bytes,
                                                                    uint64_t length_bytes) const {
    const auto mark = mark_read(offset_bytes, length_bytes);
    return local_reads(clock) ? mark : std::nullopt;
  }
  [[nodiscard]] bool unchanged(uint64_t offset_bytes, uint64_t length_bytes,
                               InflightFilter::Mark mark) const {
    return inflight_.unchanged(offset_bytes, length_bytes, mark);
  }
  // What is known of what lies where (nullptr: there is no cache). Who asks it has a mark, and asks afterwards whether that
  // is unchanged, as if the disk had been read.
  [[nodiscard]] ContentCache* cache() const { return cache_.get(); }
  // … whether no write is in flight there.
  [[nodiscard]] bool quiet(uint64_t offset_bytes, uint64_t length_bytes) const {
    return inflight_.quiet(offset_bytes, length_bytes);
  }
  // How large the volume is for who opens it now.
  [[nodiscard]] uint64_t volume_bytes() const {
    return volume_bytes_.load(std::memory_order_acquire);
  }
  void count_read(uint64_t bytes) {
    reads_.fetch_add(1, std::memory_order_relaxed);
    read_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  [[nodiscard]] uint64_t reads() const { return reads_.load(std::memory_order_relaxed); }
  [[nodiscard]] uint64_t read_bytes() const { return read_bytes_.load(std::memory_order_relaxed); }

  // For workers that prepare writes: whether the peer receives them, …
  [[nodiscard]] bool peer_receives() const {
    return peer_receives_.load(std::memory_order_relaxed);
  }
  // … how long a piece is, …
  [[nodiscard]] uint64_t wire_piece_bytes() const {
    return wire_piece_bytes_.load(std::memory_order_relaxed);
  }
  // … what the links that are up carry together (0: not known), and what is asked of them.
  [[nodiscard]] uint64_t link_rate_bytes_per_s() const {
    return link_rate_bytes_per_s_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] LinkDemand& link_demand() { return link_demand_; }

  // The loop's.
  void set_volume_bytes(uint64_t bytes) { volume_bytes_.store(bytes, std::memory_order_release); }
  // What was learned of the disk before it may be read here, or may not any more, counts for nothing.
  void set_local_reads(bool may) {
    if (local_reads_.exchange(may, std::memory_order_acq_rel) != may) forget_places();
  }
  // Before the node starts. It knows nothing of what lies behind the volume's end of then.
  void set_cache(std::unique_ptr<ContentCache> cache) { cache_ = std::move(cache); }
  // Nothing is known any more of what lies where, and what is being read now is not learned either: its mark has gone.
  void forget_places() {
    if (!cache_) return;
    const uint64_t bytes = volume_bytes();
    inflight_.raise(0, bytes);
    cache_->forget_all();
    inflight_.lower(0, bytes);
  }
  static constexpr uint64_t kNoLease = ~uint64_t{0};  // none is needed
  void set_lease(uint64_t until_ns) { lease_until_ns_.store(until_ns, std::memory_order_release); }
  void set_peer_receives(bool does) { peer_receives_.store(does, std::memory_order_relaxed); }
  void set_links(uint64_t piece_bytes, uint64_t rate_bytes_per_s) {
    wire_piece_bytes_.store(piece_bytes, std::memory_order_relaxed);
    link_rate_bytes_per_s_.store(rate_bytes_per_s, std::memory_order_relaxed);
  }
  // Before a write touches the local disk, whoever writes, and after it was acknowledged or failed. In this order: see
  // cache/content_cache.h.
  void write_begins(uint64_t offset_bytes, uint64_t length_bytes) {
    inflight_.raise(offset_bytes, length_bytes);
    if (cache_) cache_->forget(offset_bytes, length_bytes);
  }
  void write_ended(uint64_t offset_bytes, uint64_t length_bytes) {
    inflight_.lower(offset_bytes, length_bytes);
  }

 private:
  InflightFilter inflight_;
  std::unique_ptr<ContentCache> cache_;
  std::atomic<uint64_t> volume_bytes_{0};
  std::atomic<uint64_t> reads_{0};
  std::atomic<uint64_t> read_bytes_{0};
  std::atomic<bool> local_reads_{false};
  std::atomic<uint64_t> lease_until_ns_{kNoLease};
  std::atomic<bool> peer_receives_{false};
  std::atomic<uint64_t> wire_piece_bytes_{limits::kFramePayloadBytesMax};
  std::atomic<uint64_t> link_rate_bytes_per_s_{0};
  LinkDemand link_demand_;
};

}  // namespace twinblock
