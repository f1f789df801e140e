// What compression decided last, and by which figures: codes, for which control/compression_words has the sentence.
#pragma once

#include <cstdint>

namespace twinblock {

struct CompressionDecision {
  enum class Reason : uint32_t {
    kNone,         // nothing was written yet
    kRateUnknown,  // what the links carry is not known yet
    kLinksIdle,    // clients write less than matters
    kPays,         // it is clearly quicker
    kNoGain,       // it is not
    kRandom,       // the latest sample looked random
    kRetry,        // it was not, when last tried, and is tried again
  };
  Reason reason = Reason::kNone;
  uint64_t rate_bytes_per_s = 0;  // of the links together
  uint64_t piece_bytes_max = 0;   // of the pieces that it is about
  // Where there are times to compare (kPays, kNoGain, kRetry):
  uint64_t pieces_together = 1;   // that wait for each other
  uint64_t raw_ns = 0;            // until they are at the peer
  uint64_t compressed_ns = 0;     // … compressed and decompressed
  bool pays = false;              // as measured by now
  uint64_t sent_per_million = 0;  // bytes after, of a million before, lately; 0: not known
};

}  // namespace twinblock
