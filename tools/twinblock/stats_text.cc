#include "twinblock/stats_text.h"

#include <algorithm>
#include <vector>

#include "base/units.h"
#include "twinblock/json_fields.h"
#include "twinblock/text_format.h"
#include "twinblock/text_wrap.h"

namespace twinblock {
namespace {

using nlohmann::json;

constexpr size_t kStatsLabelWidth = 15;
constexpr size_t kWidth = 80;

std::string size(const json& object, const char* key) { return format_size(count_at(object, key)); }

std::string time(const json& object, const char* key) {
  return format_duration(time_at_ns(object, key, 1e9));
}

std::string line(const std::string& label, const std::string& text) {
  return std::string(kStatsLabelWidth - std::min(kStatsLabelWidth, label.size()), ' ') + label + ": " +
         wrapped(text, kWidth - kStatsLabelWidth - 2, kStatsLabelWidth + 2) + "\n";
}

std::string sizes(const json& stats) {
  std::vector<std::string> parts;
  for (const json& each : array_at(stats, "write_sizes")) {
    const std::string name = text_at(each, "class");
    parts.push_back((name == "larger" ? "larger: " : "up to " + name + ": ") +
                    count_text(each, "writes"));
  }
  return parts.empty() ? "none" : joined(parts);
}

std::string simplex(const json& stats) {
  const json simplex = object_at(stats, "simplex");
  if (count_at(simplex, "times") == 0) return "never";
  return time(simplex, "s") + ", " + count_text(simplex, "times") + " times" +
         (flag_at(simplex, "now") ? ", now again" : "");
}

std::string compression(const json& stats) {
  const json all = object_at(stats, "compression");
  return count_text(all, "writes_compressed") + " writes compressed, " + size(all, "raw_bytes") +
         " to " + size(all, "sent_bytes") + "; " + count_text(all, "writes_raw") +
         " sent as they were; CPU time " + time(all, "compress_s") + " to compress, " +
         time(all, "decompress_s") + " to decompress";
}

std::string metadata(const json& stats) {
  const json all = object_at(stats, "metadata");
  return count_text(all, "intent_commits") + " intent commits, for which " +
         count_text(all, "intent_waits") + " writes waited; record written " +
         count_text(all, "record_writes") + " times";
}

std::string cache(const json& stats) {
  const json all = object_at(stats, "cache");
  if (all.empty()) return {};
  return line("read cache", count_text(all, "hits") + " hits (" + count_text(all, "equal_hits") + " by an equal block), " +
                                count_text(all, "misses") + " misses; " + size(all, "cached_bytes") + " kept, " +
                                size(all, "shared_bytes") + " read that were there; " + count_text(all, "places") +
                                " places known; memory " + size(all, "memory_bytes"));
}

}  // namespace

std::string stats_text(const json& stats) {
  std::string out =
      line("node", text_at(stats, "node") + " of " + text_at(stats, "volume") + ", up " +
                       clock_time(count_at(stats, "uptime_s")) + ", " +
                       count_text(stats, "clients") + " clients") +
      line("writes", count_text(stats, "writes") + ", " + size(stats, "write_bytes")) +
      line("write sizes", sizes(stats)) +
      line("reads", count_text(stats, "reads") + ", " + size(stats, "read_bytes")) +
      line("flushes", count_text(stats, "flushes")) +
      line("zeroes, trims", count_text(stats, "zeroes")) + line("simplex", simplex(stats)) +
      line("peer losses", count_text(stats, "peer_losses")) +
      line("resync", size(stats, "resync_bytes") + " sent to the peer") +
      line("compression", compression(stats)) + cache(stats) + line("metadata", metadata(stats));
  for (const json& link : array_at(stats, "links"))
    out += line("link " + text_at(link, "name"), size(link, "out_bytes") + " sent, " +
                                                     size(link, "in_bytes") + " received, " +
                                                     count_text(link, "failovers") + " failovers");
  return out;
}

}  // namespace twinblock
