#include "twinblock/latency_verdict.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "base/units.h"
#include "twinblock/forecast.h"
#include "twinblock/json_fields.h"
#include "twinblock/simplex_part.h"
#include "twinblock/text_format.h"

namespace twinblock {
namespace {

using nlohmann::json;

// Less of a write's time on the wire is not worth a faster link.
constexpr double kWorthwhile = 0.1;
// Of the sampled writes so many had the link for themselves, where writes do not wait for each other.
constexpr double kMostlyAlone = 0.95;
constexpr std::array<const char*, 7> kPeerStages{"send",  "crypto",     "link-queue", "wire",
                                                 "stack", "peer-queue", "peer-disk"};

double sum_of(const json& write_class, const char* stage) {
  return static_cast<double>(
      count_at(object_at(object_at(write_class, "stages"), stage), "sum_ns"));
}

double at_peer_of(const json& write_class) {
  double sum = 0;
  for (const char* stage : kPeerStages) sum += sum_of(write_class, stage);
  return sum;
}

double total_of(const json& write_class) {
  return static_cast<double>(count_at(object_at(write_class, "total"), "sum_ns"));
}

// The wire, and the queue for it.
double link_of(const json& write_class) {
  return sum_of(write_class, "wire") + sum_of(write_class, "link-queue");
}

double wire_share(const json& write_class) {
  const double total = total_of(write_class);
  return total <= 0 ? 0 : link_of(write_class) / total;
}

double mean_ns(const json& write_class, double sum_ns) {
  return sum_ns / static_cast<double>(std::max<uint64_t>(1, count_at(write_class, "writes")));
}

std::string mean(const json& write_class, double sum_ns) {
  return compact_duration(static_cast<uint64_t>(mean_ns(write_class, sum_ns) + 0.5));
}

std::string percent(double share) { return printed("%.0f%%", share * 100); }

std::string named(const json& write_class) {
  const std::string name = text_at(write_class, "class");
  return name == "larger" ? "a write of more than 64K" : "a " + name + " write";
}

// "Most is peer disk, 40.0 us (36%)."
std::string largest_but_wire(const json& write_class) {
  const json stages = object_at(write_class, "stages");
  std::string name;
  double largest = 0;
  for (const auto& [stage, times] : stages.items()) {
    const auto sum = static_cast<double>(count_at(times, "sum_ns"));
    if (stage == "wire" || stage == "link-queue" || sum <= largest) continue;
    largest = sum;
    name = stage;
  }
  const double total = total_of(write_class);
  if (name.empty() || total <= 0) return {};
  return name + ", " + mean(write_class, largest) + " (" + percent(largest / total) + ")";
}

// Whether each write had its link for itself, but for a few.
enum class Others { kNone, kOnTheLink, kNotKnown };

Others others_beside(const json& latency) {
  Others others = Others::kNotKnown;
  for (const json& link : array_at(latency, "links")) {
    if (count_at(link, "samples") == 0 || !link.contains("alone_share")) continue;
    if (number_at(link, "alone_share") < kMostlyAlone) return Others::kOnTheLink;
    others = Others::kNone;
  }
  return others;
}

// How clients wait, now and over a link twice as fast; nothing where the link's rate is not known.
struct Model {
  double line_bytes_per_s;
  double wire_part;
  Forecast now, doubled;
};
std::optional<Model> model_of(const json& latency) {
  const std::optional<Workload> workload = workload_of(latency, 0);
  if (!workload || workload->line_bytes_per_s <= 0) return std::nullopt;
  return Model{workload->line_bytes_per_s, workload->wire_part, as_measured(*workload),
               forecast(*workload, 2 * workload->line_bytes_per_s, 0)};
}

// What a link of twice the rate would save of a write of this size, in ns. By the model, where there is one.
// Else what it can save at most. Of a write alone: half of its wire. Where writes wait for each other, the
// wait may go altogether; but who sends no more than before is not served more than twice as fast.
struct Saving {
  double ns = 0;
  bool at_most = true;
};
Saving saving_of(const std::optional<Model>& model, const json& write_class, Others others) {
  if (model)
    for (size_t i = 0; i < model->now.classes.size(); ++i)
      if (model->now.classes[i].name == text_at(write_class, "class"))
        return {std::max(0.0, model->now.classes[i].mean_ns - model->doubled.classes[i].mean_ns), false};
  const double link = mean_ns(write_class, link_of(write_class));
  const double half = mean_ns(write_class, total_of(write_class)) / 2;
  return {others == Others::kNone ? link / 2 : std::min(link, half), true};
}

// A link of which nothing is left is said first.
std::string full_link(const std::optional<Model>& model) {
  if (!model || model->now.busy < kFull) return {};
  const bool packed = model->wire_part < 1;
  return "The link is full: clients move " + rate_moved(model->now.bytes_per_s) +
         (packed ? ", which travel as " + rate_moved(model->now.bytes_per_s * model->wire_part) + "," : "") +
         " of the " + rate_moved(model->line_bytes_per_s) + " that it carries.";
}

// `mixed`: beside writes that waited for the peer are too many that had none, so that their means say nothing of links.
std::string sentence_on(const std::optional<Model>& model, const json& write_class, Others others, bool mixed) {
  const std::string of =
      "Of " + named(write_class) + "'s " + mean(write_class, total_of(write_class)) + ", ";
  if (at_peer_of(write_class) == 0)
    return of +
           "nothing is waiting for the peer: in simplex, or the local disk was the later of "
           "the two." + (mixed ? "" : " A faster link would not help.");
  const double wire = link_of(write_class);
  const Saving saving = saving_of(model, write_class, others);
  const std::string saved =
      (saving.at_most ? "at most " : "") + compact_duration(static_cast<uint64_t>(saving.ns + 0.5));
  const double share = wire_share(write_class);
  const std::string largest = largest_but_wire(write_class);
  std::string text = of + mean(write_class, wire) + " (" + percent(share) + ") are wire";
  if (mixed) return text + "." + (largest.empty() ? "" : " The largest other part is " + largest + ".");
  text += ": ";
  if (share < kWorthwhile) {
    text += "a faster link would hardly help, one twice as fast by " + saved + ".";
    return largest.empty() ? text : text + " Most is " + largest + ".";
  }
  text += "a link twice as fast would save " + saved + " (" +
          percent(saving.ns / mean_ns(write_class, total_of(write_class))) +
          (others == Others::kOnTheLink ? "), as writes wait for each other." : ").");
  return largest.empty() ? text : text + " The largest other part is " + largest + ".";
}

// With a nominal rate: what of the wire a faster link can shorten.
std::string on_the_line(const json& latency, const json& write_class) {
  const uint64_t bytes = count_at(write_class, "bytes_max");
  const json links = array_at(latency, "links");
  if (links.size() != 1 || bytes == 0) return {};
  const uint64_t rate = count_at(links[0], "rate_bits_per_s");
  if (rate == 0) return {};
  const double line_ns = static_cast<double>(bytes) * 8e9 / static_cast<double>(rate);
  // Less: most writes are shorter, or the link lets bursts pass.
  if (mean_ns(write_class, sum_of(write_class, "wire")) < line_ns) return {};
  return "At the link's nominal rate, " + format_size(bytes) + " are on the line for " +
         compact_duration(static_cast<uint64_t>(line_ns)) +
         "; what the wire takes beyond that is distance and queues.";
}

}  // namespace

std::vector<std::string> latency_verdict(const json& latency) {
  const json classes = array_at(latency, "classes");
  const json* most = nullptr;
  const json* longest_wire = nullptr;
  bool at_peer = false;
  for (const json& each : classes) {
    if (count_at(each, "writes") == 0) continue;
    // Not by the wire alone: perhaps no sample saw any of it.
    at_peer |= at_peer_of(each) > 0;
    if (most == nullptr || count_at(each, "writes") > count_at(*most, "writes")) most = &each;
    if (longest_wire == nullptr || wire_share(each) > wire_share(*longest_wire))
      longest_wire = &each;
  }
  if (most == nullptr) return {};
  const Others others = others_beside(latency);
  const std::optional<Model> model = model_of(latency);
  const SimplexPart simplex = simplex_part_of(latency);
  const bool mixed = at_peer && simplex.too_much();
  std::vector<std::string> sentences;
  if (mixed)
    sentences.push_back(simplex.what + ", which says nothing of links; " + without_simplex(latency, "latency") + ".");
  if (const std::string full = full_link(model); !full.empty()) sentences.push_back(full);
  sentences.push_back(sentence_on(model, *most, others, mixed));
  if (longest_wire != most && wire_share(*longest_wire) > 0)
    sentences.push_back(sentence_on(model, *longest_wire, others, mixed));
  if (!at_peer || mixed) return sentences;
  for (const json* each : {most, longest_wire}) {
    const std::string line = on_the_line(latency, *each);
    if (line.empty()) continue;
    sentences.push_back(line);
    break;
  }
  return sentences;
}

std::string latency_doubt(const json& latency) {
  uint64_t samples = 0;
  for (const json& link : array_at(latency, "links")) samples += count_at(link, "samples");
  if (samples > 0) return {};
  const std::string why = count_at(latency, "sample_every") == 0
                              ? "Sampling is off"
                              : "No round trip was sampled in this time";
  return why +
         ": how the time between the nodes is shared between wire and stack is an estimate. "
         "Sample more writes: twinblock latency " +
         text_at(latency, "volume") + " --sample 8";
}

}  // namespace twinblock
