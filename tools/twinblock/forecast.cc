#include "twinblock/forecast.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "twinblock/json_fields.h"
#include "twinblock/simplex_part.h"

namespace twinblock {
namespace {

using nlohmann::json;

// Of what an interface moves, at an MTU of 1500: 1448 bytes of data in 1514 and the 24 that are not in the frame
// are less, but rates are told without these; a frame's header for at most 128 KiB is next to nothing.
constexpr double kPayloadPart = 1448.0 / 1514.0;
// Writes that are hardly ever under way together.
constexpr double kAlone = 1.05;
// What a client over a socket of this host needs from an answer to its next request, at the most: less is seen of
// an idle machine, more is the measuring's error.
constexpr double kPauseMost_ns = 100'000;
constexpr double kPauseByte_ns = 0.5;

double mean_of(const Workload& workload, double Workload::Class::*member) {
  double sum = 0, writes = 0;
  for (const Workload::Class& each : workload.classes) {
    sum += each.writes * (each.*member);
    writes += each.writes;
  }
  return writes > 0 ? sum / writes : 0;
}

// Of a lone client's pause: the rest is its own, which it does not see as a part of any write (fio needs 16 us of 55
// at 4 KiB, 57 of 315 at 1 MiB, to begin the next one).
constexpr double kPauseSeen = 0.7;
// A processor that has slept for long wakes up late, and its caches are cold: two threads of one host that wake
// each other need 8 us after 0.3 ms of sleep, 20 us after 5 ms and 27 us after 40 ms; and all that a write of 16 KiB
// to 1 MiB takes but its line, 1.2 to 2.2 times as long behind 200 Mbit/s as behind 10 Gbit/s.
constexpr double kSleep_ns = 3.5e6, kSlowest = 0.75;

// By how much longer the software takes where a client's writes are so far apart.
double slowed_by(double apart_ns) { return 1 + kSlowest * apart_ns / (apart_ns + kSleep_ns); }

// How a write's own time on the line adds to the rest of it.
enum class Line {
  // As on a cable: it comes on top.
  kAdds,
  // As behind a token bucket, which clouds and policers have: what a client does not send while it does something
  // else passes at once later. Only what exceeds the rest shows.
  kSavesUp,
};

struct Model {
  double clients, pause_ns;
  double bytes;        // of a write
  double rest_ns;      // of a write: all but the line and the queue for it
  Line line;
  double now_line_ns;  // the present line's time for a write
  bool full;           // the present link
};

bool alone(const Workload& workload) { return workload.clients < kAlone; }

// What a client sees of its pause, at p50 and at p99. Nobody times its pauses one by one. Where several writes are
// under way, so are several answers, and some find their client busy with another.
double seen_p50_ns(const Workload& workload, double pause_ns) {
  return alone(workload) ? kPauseSeen * pause_ns : pause_ns;
}
double seen_p99_ns(const Workload& workload, double pause_ns) {
  return alone(workload) ? pause_ns : 2 * pause_ns;
}

double cycle_ns(const Workload& workload) {
  const double mean_ns = mean_of(workload, &Workload::Class::mean_ns);
  return (mean_ns + workload.pause_ns) / workload.clients;  // between the ends of two writes
}

Model model_of(const Workload& workload) {
  Model model{};
  model.clients = workload.clients;
  model.pause_ns = workload.pause_ns;
  model.bytes = mean_of(workload, &Workload::Class::bytes);
  const double link_ns = mean_of(workload, &Workload::Class::link_ns);
  const double software_ns = mean_of(workload, &Workload::Class::mean_ns) - link_ns;
  model.now_line_ns = model.bytes * workload.wire_part * 1e9 / workload.line_bytes_per_s;
  model.full = model.now_line_ns >= kFull * cycle_ns(workload);
  const double else_ns = (software_ns + workload.pause_ns) / workload.clients;
  // What the line needs and nobody saw. A full link with several writes under way hides it.
  const double saved_ns = model.now_line_ns - link_ns;
  const bool saves = saved_ns > 0.5 * std::min(model.now_line_ns, else_ns);
  model.line = saves ? Line::kSavesUp : Line::kAdds;
  // On the wire beyond the line: distance.
  const double far_ns =
      model.full || saves ? 0.0 : std::max(0.0, std::min(link_ns - model.now_line_ns, link_ns));
  // With several under way what is beyond the line is a queue, too.
  model.rest_ns = software_ns + (alone(workload) ? far_ns : 0.0);
  return model;
}

// From one write of a lone client to the next, over a line that needs so long for it.
double apart_ns(const Model& model, double line_ns) {
  const double else_ns = model.rest_ns + model.pause_ns;
  return model.line == Line::kAdds ? else_ns + line_ns : std::max(else_ns, line_ns);
}

double mean_saved_ns(const Workload& workload, const Change& change) {
  double sum = 0, writes = 0;
  for (size_t i = 0; i < workload.classes.size(); ++i) {
    sum += change.saved_ns.empty() ? 0 : workload.classes[i].writes * change.saved_ns[i];
    writes += workload.classes[i].writes;
  }
  return writes > 0 ? sum / writes : 0;
}

// There and back where nothing waits, over the links that are up: no rate makes it shorter.
double way_ns_of(const json& latency) {
  double sum_ns = 0, links = 0;
  for (const json& link : array_at(latency, "links")) {
    if (is_down(link)) continue;
    sum_ns += static_cast<double>(count_at(link, "way_ns"));
    ++links;
  }
  return links > 0 ? sum_ns / links : 0;
}

// What the links that are up carry together; 0: not known. One whose rate nobody knows may carry nearly all.
double line_of(const json& latency) {
  double line = 0;
  for (const json& link : array_at(latency, "links")) {
    if (is_down(link)) continue;
    const auto nominal = static_cast<double>(count_at(link, "rate_bits_per_s"));
    const auto carried = static_cast<double>(count_at(link, "carried_bytes_per_s"));
    if (nominal == 0 && carried == 0) return 0;
    const double most = payload_bytes_per_s(nominal);
    line += nominal == 0 ? carried : carried == 0 ? most : std::min(carried, most);
  }
  return line;
}

double share_of_bytes(const Workload::Class& each, const Workload& workload) {
  double all = 0;
  for (const Workload::Class& one : workload.classes) all += one.writes * one.bytes;
  return all > 0 ? each.writes * each.bytes / all : 0;
}

}  // namespace

bool is_down(const json& link) { return link.contains("up") && !flag_at(link, "up"); }

double payload_bytes_per_s(double bits_per_s) { return bits_per_s / 8 * kPayloadPart; }

double wire_part_of(const json& latency) {
  return latency.contains("wire_part") ? std::clamp(number_at(latency, "wire_part"), 0.0, 1.0) : 1;
}

std::optional<Workload> workload_of(const json& latency, double bits_per_s) {
  Workload workload;
  double waited_ns = 0, all_ns = 0, writes = 0;
  const double way_ns = way_ns_of(latency);
  for (const json& each : array_at(latency, "classes")) {
    const auto count = static_cast<double>(count_at(each, "writes"));
    if (count == 0) continue;
    const json total = object_at(each, "total"), stages = object_at(each, "stages");
    const auto sum = [&stages](const char* stage) {
      return static_cast<double>(count_at(object_at(stages, stage), "sum_ns"));
    };
    const auto total_ns = static_cast<double>(count_at(total, "sum_ns"));
    workload.classes.push_back({text_at(each, "class"), count,
                                static_cast<double>(count_at(each, "bytes")) / count,
                                total_ns / count, static_cast<double>(count_at(total, "p50_ns")),
                                static_cast<double>(count_at(total, "p99_ns")),
                                std::max(0.0, sum("wire") / count - way_ns) + sum("link-queue") / count,
                                sum("crypto") / count,
                                sum("compression") / count, sum("peer-disk") / count, sum("local-disk") / count});
    all_ns += total_ns;
    writes += count;
    for (const char* stage : {"wire", "link-queue", "stack", "peer-queue", "peer-disk"})
      waited_ns += sum(stage);
  }
  if (waited_ns == 0 || simplex_part_of(latency).too_much()) return std::nullopt;
  workload.wire_part = wire_part_of(latency);
  workload.zero_part = std::clamp(number_at(latency, "zero_part"), 0.0, 1.0);
  const json load = object_at(latency, "load");
  workload.busy_ns = static_cast<double>(count_at(load, "busy_ns"));
  if (workload.busy_ns <= 0) return std::nullopt;
  workload.window_ns = std::max(workload.busy_ns, static_cast<double>(count_at(load, "window_ns")));
  const double depth = all_ns / workload.busy_ns;
  if (depth < kAlone) {
    workload.clients = 1;
    workload.pause_ns = static_cast<double>(count_at(load, "pause_p50_ns"));
  } else {
    // Clients come in whole numbers; those that are missing in the mean pause just then.
    workload.clients = std::max(std::ceil(depth - 0.05), static_cast<double>(count_at(load, "depth_p99")));
    const double bytes = mean_of(workload, &Workload::Class::bytes);
    workload.pause_ns =
        std::clamp((workload.clients * workload.busy_ns - all_ns) / writes, 0.0,
                   kPauseMost_ns + kPauseByte_ns * bytes);
  }
  workload.line_bytes_per_s = bits_per_s > 0 ? payload_bytes_per_s(bits_per_s) : line_of(latency);
  return workload;
}

Forecast as_measured(const Workload& workload) {
  Forecast now;
  now.mean_ns = mean_of(workload, &Workload::Class::mean_ns) + workload.pause_ns;
  now.writes_per_s = 1e9 / cycle_ns(workload);
  const double bytes = mean_of(workload, &Workload::Class::bytes);
  now.bytes_per_s = now.writes_per_s * bytes;
  if (workload.line_bytes_per_s > 0)
    now.busy = std::min(1.0, now.bytes_per_s * workload.wire_part / workload.line_bytes_per_s);
  for (const Workload::Class& each : workload.classes)
    now.classes.push_back({each.name, each.mean_ns + workload.pause_ns,
                           each.p50_ns + seen_p50_ns(workload, workload.pause_ns),
                           each.p99_ns + seen_p99_ns(workload, workload.pause_ns),
                           now.bytes_per_s * share_of_bytes(each, workload)});
  return now;
}

double under_way_share(const Workload& workload) { return workload.busy_ns / workload.window_ns; }

Forecast over_window(const Workload& workload) {
  Forecast now = as_measured(workload);
  double writes = 0, bytes = 0;
  for (const Workload::Class& each : workload.classes) {
    writes += each.writes;
    bytes += each.writes * each.bytes;
  }
  now.writes_per_s = writes * 1e9 / workload.window_ns;
  now.bytes_per_s = bytes * 1e9 / workload.window_ns;
  if (workload.line_bytes_per_s > 0)
    now.busy = std::min(1.0, now.bytes_per_s * workload.wire_part / workload.line_bytes_per_s);
  for (size_t i = 0; i < now.classes.size(); ++i)
    now.classes[i].bytes_per_s = now.bytes_per_s * share_of_bytes(workload.classes[i], workload);
  return now;
}

Forecast changed(const Workload& workload, const Change& change) {
  const Forecast now = as_measured(workload);
  const Forecast same = forecast(workload, workload.line_bytes_per_s, 0);
  Forecast then = forecast(workload, workload.line_bytes_per_s, 0, change);
  const auto rebase = [](double& value, double foretold, double measured) {
    if (foretold > 0) value *= measured / foretold;
  };
  rebase(then.writes_per_s, same.writes_per_s, now.writes_per_s);
  rebase(then.bytes_per_s, same.bytes_per_s, now.bytes_per_s);
  rebase(then.mean_ns, same.mean_ns, now.mean_ns);
  then.busy = std::min(1.0, then.bytes_per_s * change.wire_part / workload.line_bytes_per_s);
  for (size_t i = 0; i < then.classes.size(); ++i) {
    rebase(then.classes[i].mean_ns, same.classes[i].mean_ns, now.classes[i].mean_ns);
    rebase(then.classes[i].p50_ns, same.classes[i].p50_ns, now.classes[i].p50_ns);
    rebase(then.classes[i].p99_ns, same.classes[i].p99_ns, now.classes[i].p99_ns);
    then.classes[i].bytes_per_s = then.bytes_per_s * share_of_bytes(workload.classes[i], workload);
  }
  return then;
}

Forecast forecast(const Workload& workload, double line_bytes_per_s, double longer_ns) {
  return forecast(workload, line_bytes_per_s, longer_ns, {workload.wire_part, {}});
}

Forecast forecast(const Workload& workload, double line_bytes_per_s, double longer_ns, const Change& change) {
  const Model model = model_of(workload);
  const bool adds = model.line == Line::kAdds;
  const double byte_ns = change.wire_part * 1e9 / line_bytes_per_s;
  const double line_ns = model.bytes * byte_ns;
  const double saved_ns = mean_saved_ns(workload, change);
  const double on_line_ns = adds ? line_ns : 0.0;
  // Where several are under way, the processors that do not sleep have more to do instead.
  const double awake =
      alone(workload) ? slowed_by(apart_ns(model, line_ns)) / slowed_by(apart_ns(model, model.now_line_ns)) : 1;
  const double pause_ns = model.pause_ns * awake;
  const double rest_ns = std::max(0.0, model.rest_ns * awake + longer_ns - saved_ns);
  const double unhindered_ns = rest_ns + on_line_ns;
  const double each_ns = std::max((unhindered_ns + pause_ns) / model.clients, line_ns);
  Forecast then;
  then.writes_per_s = 1e9 / each_ns;
  then.bytes_per_s = then.writes_per_s * model.bytes;
  then.busy = std::min(1.0, line_ns / each_ns);
  then.mean_ns = each_ns * model.clients;
  const double queue_ns = std::max(0.0, then.mean_ns - pause_ns - unhindered_ns);
  const bool full = then.busy >= kFull;
  // What the rest is longer by than now: the distance, and what is added to it.
  const double far_ns = rest_ns + saved_ns - (mean_of(workload, &Workload::Class::mean_ns) -
                                   mean_of(workload, &Workload::Class::link_ns));
  for (size_t i = 0; i < workload.classes.size(); ++i) {
    const Workload::Class& each = workload.classes[i];
    // Larger writes have their own line, and wait in the same queue as the others.
    const double own_line_ns = adds ? each.bytes * byte_ns : 0.0;
    const double own_saved_ns = change.saved_ns.empty() ? 0 : change.saved_ns[i];
    const double mean_ns =
        std::max(0.0, each.mean_ns - each.link_ns + far_ns - own_saved_ns) + own_line_ns + queue_ns;
    const double tail_ns = std::max(0.0, each.p99_ns - each.p50_ns);
    Forecast::Class& made = then.classes.emplace_back();
    made.name = each.name;
    made.p50_ns = mean_ns * std::min(each.p50_ns / each.mean_ns, 1.2);
    // Those who queue for a full link share it as unevenly as before; else what holds up one in a hundred
    // is no link, but takes no longer than all the rest.
    made.p99_ns = full && model.full && !alone(workload)
                      ? mean_ns * each.p99_ns / each.mean_ns
                      : made.p50_ns + std::min(tail_ns, made.p50_ns);
    made.mean_ns = mean_ns + pause_ns;
    made.p50_ns += seen_p50_ns(workload, pause_ns);
    made.p99_ns += seen_p99_ns(workload, pause_ns);
    made.bytes_per_s = then.bytes_per_s * share_of_bytes(each, workload);
  }
  return then;
}

}  // namespace twinblock
