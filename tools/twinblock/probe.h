// What a probe of a link has measured, and what that means: the three speeds of a link, where a stream paused,
// who limits it, and which settings hurt. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace twinblock {

// A stream as it came in: bytes of equal intervals, from the first byte on.
struct Arrivals {
  struct Gap {
    size_t begin = 0;  // intervals
    size_t count = 0;
  };
  std::vector<uint64_t> bytes;
  double interval_s = 0;
  size_t steady_from = 0;        // where the stream had come up to speed
  double bytes_per_s = 0;        // from there on, gaps included: what the stream carries
  double plateau_bytes_per_s = 0;  // … gaps left out
  std::vector<Gap> gaps;         // from there on
  double gap_share = 0;          // of that time
  double longest_gap_s = 0;
};

// An interval belongs to a gap when nothing came in it, and something would have at the stream's own rate: of
// slow links, packets of `packet_bytes` are further apart than one interval. Of an encrypted link these are records of
// TLS, none of whose bytes come before all of them are there.
Arrivals arrivals_of(const std::vector<uint64_t>& bytes, double interval_s, double packet_bytes);

// Who keeps a stream from being faster.
enum class StreamLimit { kLink, kSender, kSendBuffer, kReceiveBuffer, kReceiver };
const char* stream_limit_word(StreamLimit limit);

// By what the sending kernel says it waited for, from the middle of the stream on; `probe` as the node tells it.
StreamLimit stream_limit(const nlohmann::json& probe);

// What `probe --json` shows of one link; docs/json.md says what the keys mean. `probe` has ended well.
nlohmann::json probe_json(const nlohmann::json& probe, const std::string& node, const std::string& peer);

}  // namespace twinblock
