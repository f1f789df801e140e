// Whether to compress a piece of a write before it travels. In mode auto that is decided anew for
// each piece, from measured figures: what the links carry, how fast this node compresses pieces of
// that length and coincidence, how far they have shrunk lately, and how much longer the peer takes
// over compressed ones. Pure, but for one thing: worker threads ask and report side by side, so
// that everything is atomic; a report that is lost to another one at the same instant is missed by
// nobody.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "config/config.h"
#include "mirror/compression_decision.h"

namespace twinblock {

// The index of coincidence of a sample of `data`, times 256: how much more often two of its bytes
// are the same than two random ones are. About 1 for what is random, encrypted or compressed
// already, 2 when each byte holds 7 bits of information. Takes less than a microsecond.
double coincidence(std::span<const std::byte> data);

class CompressionPolicy {
 public:
  struct Setting {
    Compression mode = Compression::kOff;
    int level = 1;
    bool operator==(const Setting&) const = default;
  };
  // What has happened since the start.
  struct Figures {
    uint64_t writes_compressed;  // of whose pieces at least one was compressed
    uint64_t writes_raw;         // none was
    uint64_t raw_bytes;          // of the pieces that were compressed: before …
    uint64_t sent_bytes;         // … and after
    uint64_t incompressible_bytes;  // looked at or tried in vain
    uint64_t compress_cpu_ns;
    uint64_t decompress_cpu_ns;
  };

  static constexpr size_t kCoincidenceBuckets = 4;

  explicit CompressionPolicy(Setting setting) { set(setting); }

  // A new level begins with no figures.
  void set(Setting setting);
  [[nodiscard]] Setting setting() const;

  // What the links carry together, 0: not known; whether clients write so much that it matters; and
  // the writes under way, the piece's own included, where these fill the links and wait for each
  // other.
  struct Links {
    uint64_t rate_bytes_per_s = 0;
    bool busy = false;
    uint64_t under_way_bytes = 0;
  };
  // Whether to try a piece, and the bucket of its coincidence: pieces of one bucket shrink about as
  // far. (kCoincidenceBuckets: nobody has looked.)
  struct Choice {
    bool compress = false;
    size_t bucket = kCoincidenceBuckets;
  };
  [[nodiscard]] Choice choose(std::span<const std::byte> piece, Links links);
  // A piece was tried: what was chosen for it, its length before and after (0: it does not shrink
  // enough), and what it took of the processor's time.
  void tried(Choice choice, size_t raw_bytes, size_t sent_bytes, uint64_t cpu_ns);
  // All pieces of a write were looked at, and at least one of them was compressed, or none.
  void prepared(bool compressed);
  // What came from the peer took so much of the processor's time.
  void decompressed(uint64_t cpu_ns);
  // The peer had a piece for so long before and after its disk's work.
  void peer_took(size_t raw_bytes, bool compressed, uint64_t besides_disk_ns);

  [[nodiscard]] Figures figures() const;
  // What was decided last and why.
  [[nodiscard]] CompressionDecision decision() const;

 private:
  // Pieces of 4 KiB or less, 8 KiB, … 1 MiB have figures of their own: much of what they cost does
  // not depend on their length.
  static constexpr size_t kLengthBuckets = 9;
  // A piece that is not worth it is tried now and then all the same, since the data may have
  // changed: first after some pieces, then ever more seldom.
  static constexpr uint32_t kRetryMin = 8;
  static constexpr uint32_t kRetryMax = 256;

  class Count {
   public:
    void add(uint64_t more) { value_.fetch_add(more, std::memory_order_relaxed); }
    [[nodiscard]] uint64_t value() const { return value_.load(std::memory_order_relaxed); }

   private:
    std::atomic<uint64_t> value_{0};
  };
  // A mean in which the latest reports count most.
  class Mean {
   public:
    void reset() { value_.store(0, std::memory_order_relaxed); }
    // 0: nothing was reported yet.
    [[nodiscard]] uint64_t value() const { return value_.load(std::memory_order_relaxed); }
    // Counts as one part of so many.
    void add(uint64_t report, uint64_t parts = 8);
    // Stays near the least that is reported: what lasted longer had to wait for something else.
    void add_to_least(uint64_t report) { add(report, report < value() ? 2 : 4096); }

   private:
    std::atomic<uint64_t> value_{0};
  };
  struct Retry {
    void reset();
    [[nodiscard]] bool due();
    std::atomic<uint32_t> left{0};  // pieces
    std::atomic<uint32_t> interval{kRetryMin};
  };
  struct CoincidenceBucket {
    Mean compress_ps_per_byte;
    Mean sent_per_million;  // bytes after, of a million before
    Retry retry;
  };
  struct LengthBucket {
    std::array<CoincidenceBucket, kCoincidenceBuckets> by_coincidence;
    Mean peer_raw_ns, peer_compressed_ns;
    Retry retry;  // where no bucket pays
  };
  struct Estimate {
    uint64_t raw_ns = 0;         // until the piece is at the peer
    uint64_t compressed_ns = 0;  // … compressed and decompressed
    bool pays = false;
  };
  using Reason = CompressionDecision::Reason;

  [[nodiscard]] static size_t length_bucket(size_t raw_bytes);
  [[nodiscard]] static size_t coincidence_bucket(double measured);
  // What an estimate is of.
  struct Query {
    size_t length_bucket = 0;
    size_t raw_bytes = 0;
    uint64_t rate_bytes_per_s = 0;
    uint64_t together = 1;  // pieces that wait for each other
  };
  [[nodiscard]] Estimate estimate(const Query& query, size_t bucket) const;
  // The one of coincidence for which compressing takes the least.
  [[nodiscard]] size_t best_bucket(const Query& query) const;
  void note(Reason reason, const Query& query, size_t bucket);

  std::atomic<uint32_t> setting_{0};  // mode and level
  std::array<LengthBucket, kLengthBuckets> buckets_;
  // The last decision, for status.
  std::atomic<Reason> reason_{Reason::kNone};
  std::atomic<size_t> reason_length_bucket_{0};
  std::atomic<size_t> reason_bucket_{0};
  std::atomic<uint64_t> reason_rate_{0};
  std::atomic<uint64_t> reason_together_{1};
  // Of Figures.
  Count writes_compressed_, writes_raw_;
  Count raw_bytes_, sent_bytes_, incompressible_bytes_;
  Count compress_cpu_ns_, decompress_cpu_ns_;
};

}  // namespace twinblock
