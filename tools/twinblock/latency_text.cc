#include "twinblock/latency_text.h"

#include <array>
#include <vector>

#include "base/units.h"
#include "twinblock/json_fields.h"
#include "twinblock/latency_bar.h"
#include "twinblock/latency_verdict.h"
#include "twinblock/link_text.h"
#include "twinblock/text_format.h"
#include "twinblock/text_wrap.h"

namespace twinblock {
namespace {

using nlohmann::json;

constexpr size_t kWidth = 80;
constexpr size_t kBarWidth = 56;
// In the order in which a write goes through them.
constexpr std::array<const char*, 13> kStages{
    "prepare", "compression", "queue", "intent",     "send",      "crypto",     "link-queue",
    "wire",    "stack",       "peer-queue", "peer-disk", "local-disk", "completion"};
constexpr std::array<const char*, 7> kTripParts{
    "send-stack", "send-qdisc", "wire", "peer-receive", "peer-send", "receive", "tcp-ack"};

std::string window_text(const json& latency) {
  const std::string window = text_at(latency, "window");
  return window.empty() || window == "start"
             ? "since this node started"
             : "the last " + window.substr(0, window.size() - 1) + " s";
}

uint64_t mean_ns(const json& times, uint64_t count) {
  return count == 0 ? 0 : (count_at(times, "sum_ns") + count / 2) / count;
}

std::string head(const char* first, bool share) {
  return printed("  %-12s %10s %10s %10s %10s %10s%s\n", first, "p50", "p90", "p99", "max", "mean",
                 share ? "   share" : "");
}

std::string row(const std::string& name, const json& times, uint64_t count, uint64_t total_ns) {
  const auto at = [&times](const char* key) { return compact_duration(count_at(times, key)); };
  std::string line = printed("  %-12s %10s %10s %10s %10s %10s", name.c_str(), at("p50_ns").c_str(),
                             at("p90_ns").c_str(), at("p99_ns").c_str(), at("max_ns").c_str(),
                             compact_duration(mean_ns(times, count)).c_str());
  if (total_ns > 0)
    line += printed("  %5.1f%%", 100 * static_cast<double>(count_at(times, "sum_ns")) /
                                     static_cast<double>(total_ns));
  return line + "\n";
}

std::string class_title(const json& each) {
  const uint64_t bytes = count_at(each, "bytes_max");
  const std::string name = text_at(each, "class");
  const std::string what =
      bytes > 0 ? name + " (up to " + format_size(bytes) + ")" : "larger (more than 64 KiB)";
  return what + ": " + count_text(each, "writes") + " writes\n";
}

// Stages in which no write has spent any time are left out.
std::string class_table(const json& each) {
  const json total = object_at(each, "total");
  const json stages = object_at(each, "stages");
  const uint64_t writes = count_at(each, "writes");
  const uint64_t total_ns = count_at(total, "sum_ns");
  std::string out = class_title(each) + head("STAGE", true);
  for (const char* stage : kStages) {
    const json times = object_at(stages, stage);
    if (count_at(times, "sum_ns") > 0) out += row(stage, times, writes, total_ns);
  }
  return out + row("total", total, writes, total_ns);
}

// "wire 54%": what most of a class' time is.
std::string mostly(const json& each) {
  const json stages = object_at(each, "stages");
  const char* largest = "";
  uint64_t sum_ns = 0;
  for (const char* stage : kStages) {
    const uint64_t ns = count_at(object_at(stages, stage), "sum_ns");
    if (ns <= sum_ns) continue;
    largest = stage;
    sum_ns = ns;
  }
  const uint64_t total_ns = count_at(object_at(each, "total"), "sum_ns");
  return total_ns == 0 ? "" : printed("%s %.0f%%", largest,
                                      100 * static_cast<double>(sum_ns) / static_cast<double>(total_ns));
}

// A line for each size class.
std::string summary(const json& latency) {
  std::string out = printed("  %-7s %9s %9s %9s %9s %9s   %s\n", "SIZE", "writes", "p50", "p90", "p99", "max",
                            "mostly");
  for (const json& each : array_at(latency, "classes")) {
    const json total = object_at(each, "total");
    const auto at = [&total](const char* key) { return compact_duration(count_at(total, key)); };
    out += printed("  %-7s %9s %9s %9s %9s %9s   %s\n", text_at(each, "class").c_str(),
                   count_text(each, "writes").c_str(), at("p50_ns").c_str(), at("p90_ns").c_str(),
                   at("p99_ns").c_str(), at("max_ns").c_str(), mostly(each).c_str());
  }
  return out;
}

std::string tables(const json& latency) {
  std::string out;
  for (const json& each : array_at(latency, "classes")) out += class_table(each) + "\n";
  return out;
}

std::string bars(const json& latency, bool colour) {
  std::string out = "Mean write, by what it waited for\n";
  for (const json& each : array_at(latency, "classes")) {
    const uint64_t ns = mean_ns(object_at(each, "total"), count_at(each, "writes"));
    out += printed("  %-7s", text_at(each, "class").c_str());
    out += latency_bar(each, kBarWidth, colour);
    out += printed(" %10s\n", compact_duration(ns).c_str());
  }
  return out + latency_legend(colour) + "\n";
}

std::string link_title(const json& link) {
  const uint64_t rate = count_at(link, "rate_bits_per_s");
  const uint64_t samples = count_at(link, "samples");
  return "Link " +
         joined({text_at(link, "name"), rate == 0 ? "" : bit_rate(rate) + " nominal",
                 std::to_string(samples) + " round trips sampled"}) +
         "\n";
}

std::string links(const json& latency) {
  std::string out;
  for (const json& link : array_at(latency, "links")) {
    out += link_title(link);
    const json parts = object_at(link, "parts");
    const uint64_t samples = count_at(link, "samples");
    if (samples > 0) {
      out += head("PART", false);
      for (const char* part : kTripParts)
        if (parts.is_object() && parts.contains(part))
          out += row(part, object_at(parts, part), samples, 0);
    }
    out += "\n";
  }
  return out;
}

std::string verdict(const json& latency) {
  std::string out;
  std::vector<std::string> sentences = latency_verdict(latency);
  sentences.push_back(latency_doubt(latency));
  for (const std::string& sentence : sentences)
    if (!sentence.empty()) out += wrapped(sentence, kWidth, 0) + "\n";
  return out;
}

std::string title(const json& latency) {
  const uint64_t every = count_at(latency, "sample_every");
  return joined({text_at(latency, "volume") + " on " + text_at(latency, "node"),
                 window_text(latency),
                 every == 0 ? std::string("no write is sampled")
                            : "1 write of " + std::to_string(every) + " is sampled"}) +
         "\n\n";
}

std::string no_writes(const json& latency) {
  const bool start = text_at(latency, "window") == "start";
  const std::string volume = text_at(latency, "volume");
  return wrapped(start ? "No writes yet. Only the primary times writes: write something to the "
                         "volume there, or ask the other node if that is the primary (twinblock "
                         "status " +
                             volume + " says which is)."
                       : "No writes in " + window_text(latency) +
                             ". Only the primary times writes: write something to the volume "
                             "there, or look further back: twinblock latency " +
                             volume + " --window start",
                 kWidth, 0) +
         "\n";
}

}  // namespace

std::string latency_text(const json& latency, const LatencyDetail& detail, bool colour) {
  if (array_at(latency, "classes").empty()) return title(latency) + no_writes(latency);
  std::string out = title(latency) + verdict(latency) + "\n" + bars(latency, colour) + summary(latency);
  if (detail.sizes) out += "\n" + tables(latency);
  if (detail.links) out += "\n" + links(latency);
  if (!detail.sizes && !detail.links) out += "Each stage by size: --sizes. Round trips by link: --links.\n";
  return out;
}

}  // namespace twinblock
