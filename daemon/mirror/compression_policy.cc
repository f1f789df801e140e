#include "mirror/compression_policy.h"

#include <algorithm>
#include <bit>

#include "base/checks.h"
#include "base/units.h"

namespace twinblock {
namespace {

// A sample is this many runs of bytes, spread over the whole piece: both parts of data that is laid
// out in some pattern are met.
constexpr size_t kSampleRuns = 32;
constexpr size_t kSampleRunBytes = 16;
// What has less coincidence than this is not tried: it would not shrink by an eighth by its bytes'
// frequencies alone. (Random bytes that come again are missed; they are rare, and travel raw.)
constexpr double kRandomCoincidence = 1.5;
// Compressed must be this much quicker (of 16 parts) to be "clearly" so.
constexpr uint64_t kClearly = 15;
// Pieces that wait for each other: with more of them nothing is decided differently.
constexpr uint64_t kTogetherMax = 32;
// Until measured, of an ordinary processor: time for a byte at level 1, and how a level multiplies
// it. One that is much quicker or slower is found out with the first retry.
constexpr uint64_t kAssumedPsPerByte = 2500;
constexpr double kAssumedSentShare = 0.35;
// Until the peer has shown what it needs (its answers tell how long it had each piece): three times
// as fast as we compress, and two hand-overs between threads.
constexpr uint64_t kAssumedSpeedUp = 3;
constexpr uint64_t kAssumedHandOver_ns = 30 * kMicrosecond_ns;

uint64_t time_ns(uint64_t bytes, uint64_t bytes_per_s) {
  return static_cast<uint64_t>(static_cast<double>(bytes) * 1e9 / static_cast<double>(bytes_per_s));
}

uint64_t assumed_ps_per_byte(int level) {
  // zstd gets slower by a third or so with each level.
  uint64_t ps = kAssumedPsPerByte;
  for (int i = 1; i < level; ++i) ps += ps / 3;
  return ps;
}

}  // namespace

double coincidence(std::span<const std::byte> data) {
  // Two tables: equal neighbours would wait for each other.
  std::array<std::array<uint16_t, 256>, 2> counts{};
  size_t sampled = 0;
  const auto count = [&](std::span<const std::byte> run) {
    for (size_t i = 0; i < run.size(); ++i) ++counts[i % 2][std::to_integer<uint8_t>(run[i])];
    sampled += run.size();
  };
  if (data.size() <= kSampleRuns * kSampleRunBytes) {
    count(data);
  } else {
    const size_t last = data.size() - kSampleRunBytes;
    for (size_t i = 0; i < kSampleRuns; ++i)
      count(data.subspan(last * i / (kSampleRuns - 1), kSampleRunBytes));
  }
  if (sampled < 2) return 1;
  uint64_t pairs = 0;
  for (size_t value = 0; value < 256; ++value) {
    const uint64_t n = uint64_t{counts[0][value]} + counts[1][value];
    pairs += n * (n - (n > 0 ? 1 : 0));
  }
  const double all = static_cast<double>(sampled) * static_cast<double>(sampled - 1);
  return static_cast<double>(pairs) * 256 / all;
}

void CompressionPolicy::Mean::add(uint64_t report, uint64_t parts) {
  const uint64_t before = value();
  // One that was interrupted says little of the others.
  const uint64_t bounded = before == 0 ? report : std::min(report, 4 * before);
  value_.store(before == 0 ? std::max<uint64_t>(report, 1)
                           : std::max(before - before / parts + bounded / parts, uint64_t{8}),
               std::memory_order_relaxed);
}

void CompressionPolicy::set(Setting setting) {
  const bool same_level = this->setting().level == setting.level;
  setting_.store(static_cast<uint32_t>(setting.mode) | static_cast<uint32_t>(setting.level) << 8,
                 std::memory_order_relaxed);
  reason_.store(Reason::kNone, std::memory_order_relaxed);
  if (same_level) return;
  for (LengthBucket& of_length : buckets_) {
    of_length.peer_compressed_ns.reset();
    of_length.retry.reset();
    for (CoincidenceBucket& bucket : of_length.by_coincidence) {
      bucket.compress_ps_per_byte.reset();
      bucket.sent_per_million.reset();
      bucket.retry.reset();
    }
  }
}

CompressionPolicy::Setting CompressionPolicy::setting() const {
  const uint32_t both = setting_.load(std::memory_order_relaxed);
  return {static_cast<Compression>(both & 0xFF), static_cast<int>(both >> 8)};
}

size_t CompressionPolicy::length_bucket(size_t raw_bytes) {
  TB_CHECK(raw_bytes > 0, "a piece has at least one byte");
  const size_t width = static_cast<size_t>(std::bit_width((raw_bytes - 1) / (4 * kKiB)));
  return std::min(width, kLengthBuckets - 1);
}

size_t CompressionPolicy::coincidence_bucket(double measured) {
  constexpr std::array<double, kCoincidenceBuckets - 1> kBelow = {2, 4, 16};
  return static_cast<size_t>(std::upper_bound(kBelow.begin(), kBelow.end(), measured) -
                             kBelow.begin());
}

// Of a lone piece every computation counts in full, although some of it happens while other pieces
// travel: where the processors are what there is too little of, nothing is gained by adding to
// their work, and a lone write waits for each of them. Where the links are full each piece waits
// for those before it, on the wire or, as if there were one processor, for compression: what is
// slower. The wait for a processor does not count else: raw pieces have it, too.
CompressionPolicy::Estimate CompressionPolicy::estimate(const Query& query, size_t bucket) const {
  const LengthBucket& of_length = buckets_[query.length_bucket];
  const uint64_t speed = of_length.by_coincidence[bucket].compress_ps_per_byte.value();
  const uint64_t share = of_length.by_coincidence[bucket].sent_per_million.value();
  const uint64_t compress_ns =
      (speed != 0 ? speed : assumed_ps_per_byte(setting().level)) * query.raw_bytes / 1000;
  const uint64_t peer_compressed_ns = of_length.peer_compressed_ns.value();
  const uint64_t peer_ns =
      peer_compressed_ns == 0
          ? compress_ns / kAssumedSpeedUp + kAssumedHandOver_ns
          : peer_compressed_ns - std::min(peer_compressed_ns, of_length.peer_raw_ns.value());
  const uint64_t alone_ns = time_ns(query.raw_bytes, query.rate_bytes_per_s);
  const double part = share == 0 ? kAssumedSentShare : static_cast<double>(share) / 1e6;
  const auto wire_ns = static_cast<uint64_t>(static_cast<double>(alone_ns) * part);
  Estimate result;
  result.raw_ns = query.together * alone_ns;
  result.compressed_ns =
      compress_ns + std::max(query.together * wire_ns, (query.together - 1) * compress_ns) +
      peer_ns;
  result.pays = result.compressed_ns < result.raw_ns * kClearly / 16;
  return result;
}

size_t CompressionPolicy::best_bucket(const Query& query) const {
  size_t best = 0;
  uint64_t least_ns = UINT64_MAX;
  for (size_t bucket = 0; bucket < kCoincidenceBuckets; ++bucket) {
    const uint64_t takes_ns = estimate(query, bucket).compressed_ns;
    if (takes_ns >= least_ns) continue;
    best = bucket;
    least_ns = takes_ns;
  }
  return best;
}

void CompressionPolicy::Retry::reset() {
  left.store(0, std::memory_order_relaxed);
  interval.store(kRetryMin, std::memory_order_relaxed);
}

bool CompressionPolicy::Retry::due() {
  const uint32_t wait = left.load(std::memory_order_relaxed);
  if (wait > 0) {
    left.store(wait - 1, std::memory_order_relaxed);
    return false;
  }
  const uint32_t next = interval.load(std::memory_order_relaxed);
  left.store(next, std::memory_order_relaxed);
  interval.store(std::min(2 * next, kRetryMax), std::memory_order_relaxed);
  return true;
}

void CompressionPolicy::note(Reason reason, const Query& query, size_t bucket) {
  reason_.store(reason, std::memory_order_relaxed);
  reason_length_bucket_.store(query.length_bucket, std::memory_order_relaxed);
  reason_bucket_.store(bucket, std::memory_order_relaxed);
  reason_rate_.store(query.rate_bytes_per_s, std::memory_order_relaxed);
  reason_together_.store(query.together, std::memory_order_relaxed);
}

CompressionPolicy::Choice CompressionPolicy::choose(std::span<const std::byte> piece, Links links) {
  const Compression mode = setting().mode;
  if (mode != Compression::kAuto) return {mode == Compression::kOn};
  const Query query{
      length_bucket(piece.size()), piece.size(), links.rate_bytes_per_s,
      std::clamp<uint64_t>(links.under_way_bytes / piece.size(), 1, kTogetherMax)};
  if (links.rate_bytes_per_s == 0 || !links.busy) {
    note(links.rate_bytes_per_s == 0 ? Reason::kRateUnknown : Reason::kLinksIdle, query, 0);
    return {};
  }
  LengthBucket& of_length = buckets_[query.length_bucket];
  // Whoever gains nothing by the best of buckets need not look which is his.
  const size_t best = best_bucket(query);
  const bool may_pay = estimate(query, best).pays;
  if (!may_pay && !of_length.retry.due()) {
    note(Reason::kNoGain, query, best);
    return {};
  }
  const double measured = coincidence(piece);
  if (measured < kRandomCoincidence) {
    incompressible_bytes_.add(piece.size());
    note(Reason::kRandom, query, 0);
    return {};
  }
  const size_t bucket = coincidence_bucket(measured);
  Retry& retry = of_length.by_coincidence[bucket].retry;
  Reason reason = Reason::kRetry;
  if (estimate(query, bucket).pays) {
    reason = Reason::kPays;
    for (Retry* each : {&retry, &of_length.retry})
      if (each->interval.load(std::memory_order_relaxed) != kRetryMin) each->reset();
  } else if (may_pay && !retry.due()) {
    reason = Reason::kNoGain;
  }
  note(reason, query, bucket);
  return {reason != Reason::kNoGain, bucket};
}

void CompressionPolicy::tried(Choice choice, size_t raw_bytes, size_t sent_bytes, uint64_t cpu_ns) {
  compress_cpu_ns_.add(cpu_ns);
  if (choice.bucket < kCoincidenceBuckets) {
    CoincidenceBucket& bucket = buckets_[length_bucket(raw_bytes)].by_coincidence[choice.bucket];
    bucket.compress_ps_per_byte.add(cpu_ns * 1000 / raw_bytes);
    const uint64_t share = sent_bytes == 0 ? 1'000'000 : sent_bytes * 1'000'000 / raw_bytes;
    // Data changes from one file to the next; processors do not.
    bucket.sent_per_million.add(share, 4);
  }
  if (sent_bytes == 0) {
    incompressible_bytes_.add(raw_bytes);
    return;
  }
  raw_bytes_.add(raw_bytes);
  sent_bytes_.add(sent_bytes);
}

void CompressionPolicy::prepared(bool compressed) {
  (compressed ? writes_compressed_ : writes_raw_).add(1);
}

void CompressionPolicy::decompressed(uint64_t cpu_ns) { decompress_cpu_ns_.add(cpu_ns); }

void CompressionPolicy::peer_took(size_t raw_bytes, bool compressed, uint64_t besides_disk_ns) {
  LengthBucket& of_length = buckets_[length_bucket(raw_bytes)];
  (compressed ? of_length.peer_compressed_ns : of_length.peer_raw_ns).add_to_least(besides_disk_ns);
}

CompressionPolicy::Figures CompressionPolicy::figures() const {
  return {.writes_compressed = writes_compressed_.value(),
          .writes_raw = writes_raw_.value(),
          .raw_bytes = raw_bytes_.value(),
          .sent_bytes = sent_bytes_.value(),
          .incompressible_bytes = incompressible_bytes_.value(),
          .compress_cpu_ns = compress_cpu_ns_.value(),
          .decompress_cpu_ns = decompress_cpu_ns_.value()};
}

CompressionDecision CompressionPolicy::decision() const {
  CompressionDecision decision{.reason = reason_.load(std::memory_order_relaxed),
                               .rate_bytes_per_s = reason_rate_.load(std::memory_order_relaxed)};
  const size_t length = reason_length_bucket_.load(std::memory_order_relaxed);
  decision.piece_bytes_max = (4 * kKiB) << length;
  if (decision.reason != Reason::kPays && decision.reason != Reason::kNoGain && decision.reason != Reason::kRetry)
    return decision;
  const size_t bucket = reason_bucket_.load(std::memory_order_relaxed);
  decision.pieces_together = reason_together_.load(std::memory_order_relaxed);
  const Estimate times =
      estimate({length, decision.piece_bytes_max, decision.rate_bytes_per_s, decision.pieces_together}, bucket);
  decision.raw_ns = times.raw_ns;
  decision.compressed_ns = times.compressed_ns;
  decision.pays = times.pays;
  decision.sent_per_million = buckets_[length].by_coincidence[bucket].sent_per_million.value();
  return decision;
}

}  // namespace twinblock
