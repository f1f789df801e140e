#include "control/compression_words.h"

#include "base/checks.h"
#include "base/units.h"

namespace twinblock {
namespace {

std::string microseconds(uint64_t ns) { return std::to_string(ns / kMicrosecond_ns) + " us"; }

std::string comparison(const CompressionDecision& decision) {
  return "at " + format_size(decision.rate_bytes_per_s) + "/s " +
         (decision.pieces_together == 1 ? "they take "
                                        : std::to_string(decision.pieces_together) + " at a time take ") +
         microseconds(decision.raw_ns) + " raw, " + microseconds(decision.compressed_ns) + " compressed" +
         (decision.sent_per_million == 0 ? ""
                                         : " (to " + std::to_string(decision.sent_per_million / 10'000) + "% lately)");
}

}  // namespace

std::string compression_words(Compression mode, const CompressionDecision& decision) {
  using Reason = CompressionDecision::Reason;
  if (mode == Compression::kOff) return "everything travels raw, as ordered";
  if (mode == Compression::kOn) return "everything that shrinks is compressed, as ordered";
  const std::string what = "pieces of up to " + format_size(decision.piece_bytes_max);
  switch (decision.reason) {
    case Reason::kNone:
      return "nothing was written yet";
    case Reason::kRateUnknown:
      return "raw: what the links carry is not known yet";
    case Reason::kLinksIdle:
      return "everything travels raw: what is written fills less than a quarter of the links' " +
             format_size(decision.rate_bytes_per_s) + "/s, so that compressing it would only cost CPU time";
    case Reason::kRandom:
      return what + " travel raw: the latest looks random";
    case Reason::kPays:
    case Reason::kNoGain:
    case Reason::kRetry:
      return what + (decision.pays ? " are compressed: " : " travel raw: ") + comparison(decision);
  }
  TB_CHECK(false, "every reason is handled");
  return "";
}

}  // namespace twinblock
