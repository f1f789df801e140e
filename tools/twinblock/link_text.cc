#include "twinblock/link_text.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/units.h"
#include "twinblock/json_fields.h"
#include "twinblock/text_format.h"
#include "twinblock/text_wrap.h"

namespace twinblock {
namespace {

using nlohmann::json;

constexpr size_t kLineWidth = 76;
constexpr size_t kNoteIndent = 4;

bool is_up(const json& link) { return text_at(link, "state") == "up"; }

std::string round_trip(const json& link) {
  if (!link.is_object() || !link.contains("round_trip_us") || !link["round_trip_us"].is_number())
    return "-";
  return compact_duration(time_at_ns(link, "round_trip_us", 1e3));
}

std::vector<std::string> row_of(const json& link) {
  const auto rate = [&link](const char* key) {
    return is_up(link) ? compact_size(count_at(link, key)) + "/s" : std::string("-");
  };
  return {text_at(link, "name"),
          text_at(link, "state"),
          round_trip(link),
          rate("out_bytes_per_s"),
          rate("in_bytes_per_s"),
          is_up(link) ? compact_size(count_at(link, "in_flight_bytes")) : "-",
          count_text(link, "failovers")};
}

std::string ends(const json& link) {
  const std::string local = text_at(link, "local");
  const std::string peer = text_at(link, "peer");
  return local.empty() || peer.empty() ? local + peer : local + " to " + peer;
}

std::string retry(const json& link) {
  const uint64_t retry_ms = count_at(link, "retry_in_ms");
  return retry_ms == 0 ? std::string()
                       : "tried again in " + compact_duration(retry_ms * kMillisecond_ns);
}

std::string note(const std::string& text) {
  return text.empty() ? std::string()
                      : std::string(kNoteIndent, ' ') +
                            wrapped(text, kLineWidth - kNoteIndent, kNoteIndent) + "\n";
}

// "backup may be silent for 1s before it is given up: it was back at once several times".
std::string patience(const json& link) {
  if (!link.is_object() || link.value("silence_limit_raised", json()) != json(true)) return {};
  return note(text_at(link, "name") + " may be silent for " +
              compact_duration(count_at(link, "silence_limit_ms") * kMillisecond_ns) +
              " for now, which is more than link_timeout: it was given up several times, and was "
              "back at once");
}

// What is wrong with a link that is not up: "backup, 10.0.0.1:7700 to 10.0.0.2:7700: refused".
std::string complaint(const json& link) {
  if (is_up(link)) return patience(link);
  if (text_at(link, "state") == "disabled") return {};
  const std::string why = joined({text_at(link, "last_error"), retry(link)});
  if (why.empty()) return {};
  return note(joined({text_at(link, "name"), ends(link)}) + ": " + why);
}

std::string details(const json& link) {
  const uint64_t nominal = count_at(link, "nominal_bits_per_s");
  const uint64_t measured = count_at(link, "measured_bytes_per_s");
  const uint64_t out = count_at(link, "out_bytes");
  const uint64_t in = count_at(link, "in_bytes");
  const std::string error = text_at(link, "last_error");
  std::string text = note(joined({ends(link), nominal == 0 ? "" : bit_rate(nominal) + " nominal",
                                  measured == 0 ? "" : format_size(measured) + "/s measured"}));
  if (out + in > 0) text += note(format_size(out) + " sent, " + format_size(in) + " received");
  text += patience(link);
  if (error.empty()) return text;
  return text + note(joined({(is_up(link) ? "before: " : "") + error, retry(link)}));
}

using Below = std::string (*)(const json& link);

// A line for each link, with what `below` has to say after it, or all of that at the end.
std::string table(const json& links, Below below, bool at_once) {
  std::vector<std::vector<std::string>> rows{
      {"LINK", "STATE", "RTT", "OUT", "IN", "IN FLIGHT", "FAILOVERS"}};
  if (links.is_array())
    for (const json& link : links) rows.push_back(row_of(link));
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string out;
  std::string end;
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (size_t i = 0; i < rows[r].size(); ++i)
      line += "  " + rows[r][i] + std::string(widths[i] - rows[r][i].size(), ' ');
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    if (r > 0) (at_once ? out : end) += below(links[r - 1]);
  }
  return out + end;
}

}  // namespace

std::string bit_rate(uint64_t bits_per_s) {
  constexpr std::array<std::pair<const char*, uint64_t>, 3> units{
      {{"Gbit/s", 1'000'000'000}, {"Mbit/s", 1'000'000}, {"kbit/s", 1000}}};
  for (const auto& [name, factor] : units)
    if (bits_per_s >= factor)
      return printed("%.4g %s", static_cast<double>(bits_per_s) / static_cast<double>(factor),
                     name);
  return std::to_string(bits_per_s) + " bit/s";
}

std::string links_table(const json& links) { return table(links, complaint, false); }

std::string links_text(const json& links) { return table(links, details, true); }

std::string compression_text(const json& compression) {
  const std::string mode = text_at(compression, "mode");
  if (mode.empty()) return {};
  const uint64_t raw = count_at(compression, "raw_bytes");
  const uint64_t sent = count_at(compression, "sent_bytes");
  const uint64_t compressed = count_at(compression, "writes_compressed");
  const uint64_t as_is = count_at(compression, "writes_raw");
  const uint64_t incompressible = count_at(compression, "incompressible_bytes");
  const auto cpu = [&compression](const char* key, const char* what) {
    const uint64_t ns = time_at_ns(compression, key, 1e9);
    return ns == 0 ? std::string() : format_duration(ns) + " of CPU time " + what;
  };
  const std::string ratio =
      sent == 0 ? "" : printed(" (%.1f:1)", static_cast<double>(raw) / static_cast<double>(sent));
  const std::string done = joined(
      {sent == 0 ? "" : format_size(raw) + " sent as " + format_size(sent) + ratio,
       compressed + as_is == 0 ? ""
                               : std::to_string(compressed) + " of " +
                                     std::to_string(compressed + as_is) + " writes compressed",
       incompressible == 0 ? "" : format_size(incompressible) + " incompressible",
       cpu("compress_s", "compressing"), cpu("decompress_s", "decompressing")});
  const uint64_t level = count_at(compression, "level");
  std::string text = mode;
  if (mode != "off" && level > 0) text += ", level " + std::to_string(level);
  if (!done.empty() && (mode != "off" || sent > 0)) text += ": " + done;
  // The other modes decide nothing.
  const std::string decision = mode == "auto" ? text_at(compression, "decision") : "";
  if (!decision.empty()) text += "\n" + decision;
  return text;
}

}  // namespace twinblock
