#include "twinblock/sync_text.h"

#include <vector>

#include "base/units.h"
#include "twinblock/json_fields.h"
#include "twinblock/text_format.h"

namespace twinblock {
namespace {

using nlohmann::json;

constexpr size_t kRangesShown = 5;

bool is_number(const json& object, const char* key) {
  return object.is_object() && object.contains(key) && object[key].is_number();
}

// "50 MiB of 100 MiB, 10 MiB/s now, 9 MiB/s on average, 0:05 left"
std::vector<std::string> progress_parts(const json& progress) {
  std::vector<std::string> parts{format_size(count_at(progress, "bytes_done")) + " of " +
                                 format_size(count_at(progress, "bytes_total"))};
  const uint64_t now = count_at(progress, "rate_bytes_per_s");
  const uint64_t average = count_at(progress, "average_bytes_per_s");
  if (now > 0) parts.push_back(format_size(now) + "/s now");
  if (average > 0) parts.push_back(format_size(average) + "/s on average");
  parts.push_back(is_number(progress, "eta_s") ? clock_time(count_at(progress, "eta_s")) + " left"
                                               : "no estimate");
  return parts;
}

// "16 KiB differ, 16 KiB repaired"; empty when nothing does.
std::string found(const json& verify) {
  const uint64_t differing = count_at(verify, "differing_bytes");
  if (differing == 0) return {};
  const uint64_t repaired = count_at(verify, "repaired_bytes");
  return format_size(differing) + " differ, " +
         (repaired > 0 ? format_size(repaired) + " repaired" : "not repaired");
}

std::string ranges(const json& verify) {
  std::string text;
  size_t shown = 0;
  for (const json& range : array_at(verify, "differences")) {
    if (++shown > kRangesShown) return text + ", …";
    text += (text.empty() ? "first: " : ", ") + format_size(count_at(range, "length")) +
            " at byte " + std::to_string(count_at(range, "offset"));
  }
  return text;
}

}  // namespace

std::string resync_line(const json& resync) {
  std::vector<std::string> parts = progress_parts(resync);
  parts.insert(parts.begin(), printed("%.1f%%", number_at(resync, "percent")));
  return joined(parts);
}

std::string resync_hold(const json& resync, const std::string& volume) {
  const std::string pace = text_at(resync, "pace");
  if (pace == "paused")
    return "paused by an operator; go on with: twinblock resync " + volume + " resume";
  if (!pace.empty() && pace != "auto")
    return "limited to " + pace + "; lift that with: twinblock resync " + volume + " auto";
  return {};
}

std::string sent_line(const json& sent) {
  const uint64_t data = count_at(sent, "data_bytes");
  const uint64_t zeroes = count_at(sent, "zero_bytes");
  const uint64_t compared = count_at(sent, "compared_bytes");
  if (data + zeroes + compared == 0) return {};
  return joined({format_size(data) + " sent as data",
                 zeroes > 0 ? format_size(zeroes) + " as zeroes" : "",
                 compared > 0 ? format_size(compared) + " compared" : ""});
}

std::string last_resync_line(const json& last_resync) {
  if (!last_resync.is_object()) return {};
  const std::string sent =
      last_resync.contains("sent") ? sent_line(last_resync["sent"]) : std::string();
  return "the last one took " + format_duration(time_at_ns(last_resync, "duration_s", 1e9)) +
         " for " + format_size(count_at(last_resync, "bytes")) + (sent.empty() ? "" : ": " + sent);
}

double verify_percent(const json& verify) {
  const uint64_t total = count_at(verify, "bytes_total");
  return total == 0 ? 0
                    : 100 * static_cast<double>(count_at(verify, "bytes_done")) /
                          static_cast<double>(total);
}

std::string verify_line(const json& verify) {
  std::vector<std::string> parts = progress_parts(verify);
  parts.insert(parts.begin(), printed("%.1f%%", verify_percent(verify)));
  const std::string differs = found(verify);
  return joined(parts) + "; " + (differs.empty() ? "no difference so far" : differs);
}

std::string verify_result(const json& verify) {
  if (!verify.is_object()) return {};
  const std::string ended = text_at(verify, "ended");
  const bool complete = ended == "complete";
  const std::string compared = format_size(count_at(verify, "bytes_done"));
  const std::string total = format_size(count_at(verify, "bytes_total"));
  std::string text =
      complete ? compared + " compared: "
               : "ended early (" + ended + "), " + compared + " of " + total + " compared: ";
  const std::string differs = found(verify);
  if (differs.empty())
    return text + (complete ? "the replicas are identical" : "no difference found");
  text += differs;
  if (const std::string where = ranges(verify); !where.empty()) text += "; " + where;
  return text;
}

}  // namespace twinblock
