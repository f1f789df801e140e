#include "twinblock/probe.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "twinblock/json_fields.h"
#include "twinblock/text_format.h"

namespace twinblock {
namespace {

using nlohmann::json;

constexpr double kSecond = 1e9;  // ns
// A stream is up to speed at the earliest behind this part of it: queues and shapers take a burst at first.
constexpr double kRampShare = 0.15;
constexpr size_t kSmooth = 50;  // intervals
constexpr double kUpToSpeed = 0.9;
// From this part of its time on, what a stream waited for is what limits it.
constexpr double kLimits = 0.4;
constexpr double kLateLimits = 0.3;
// Of a receiver's buffer what may be data, as long as the kernel has not seen what comes; later the window tells.
constexpr double kDataShare = 0.5;
constexpr double kGapsTold = 0.1;
constexpr double kRecordBytes = 16.0 * kKiB + 22;  // of TLS 1.3, the largest: header, kind and tag (RFC 8446, 5.2)
constexpr double kEthernetBytes = 38;  // preamble, header, checksum, pause between frames (IEEE 802.3)

double seconds(const json& object, const char* key) { return number_at(object, key) / kSecond; }

std::vector<double> smoothed(const std::vector<uint64_t>& bytes) {
  std::vector<double> sums;
  double sum = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    sum += static_cast<double>(bytes[i]);
    if (i >= kSmooth) sum -= static_cast<double>(bytes[i - kSmooth]);
    if (i + 1 >= kSmooth) sums.push_back(sum);
  }
  return sums;
}

// Behind the first `kSmooth` intervals in which nearly as much came as usual.
size_t steady_from(const std::vector<uint64_t>& bytes) {
  const auto least = static_cast<size_t>(kRampShare * static_cast<double>(bytes.size()));
  const std::vector<double> sums = smoothed(bytes);
  if (sums.empty()) return least;
  std::vector<double> sorted = sums;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2), sorted.end());
  const double usual = sorted[sorted.size() / 2];
  const auto first = std::find_if(sums.begin(), sums.end(), [&](double sum) { return sum >= kUpToSpeed * usual; });
  return std::max(least, std::min(bytes.size() / 2, static_cast<size_t>(first - sums.begin()) + kSmooth));
}

// Of the last interval only a part has passed.
size_t whole_intervals(const std::vector<uint64_t>& bytes) { return bytes.empty() ? 0 : bytes.size() - 1; }

struct Share {
  double peer_window = 0;
  double send_buffer = 0;
};

Share waited(const json& stream) {
  const json half = object_at(stream, "half"), end = object_at(stream, "end");
  const auto passed = [&](const char* key) { return number_at(end, key) - number_at(half, key); };
  const double busy = passed("busy_ns");
  if (busy <= 0) return {};
  return {passed("peer_window_ns") / busy, passed("send_buffer_ns") / busy};
}

json round_trip_json(const json& probe) {
  std::vector<double> all;
  for (const json& each : array_at(probe, "round_trips_ns"))
    if (each.is_number()) all.push_back(each.get<double>());
  if (all.empty()) return {{"samples", 0}, {"min_ns", 0}, {"average_ns", 0}, {"p99_ns", 0}};
  std::sort(all.begin(), all.end());
  double sum = 0;
  for (const double each : all) sum += each;
  return {{"samples", all.size()},
          {"min_ns", std::round(all.front())},
          {"average_ns", std::round(sum / static_cast<double>(all.size()))},
          {"p99_ns", std::round(all[(all.size() - 1) * 99 / 100])}};
}

json frame_json(const json& probe) {
  const json here = object_at(probe, "here");
  const double mtu = number_at(here, "mtu_bytes");
  const double payload = number_at(object_at(object_at(probe, "stream"), "end"), "segment_bytes");
  const double rate = number_at(here, "rate_bits_per_s");
  const double share = mtu > 0 && payload > 0 ? std::min(1.0, payload / (mtu + kEthernetBytes)) : 0;
  return {{"interface", text_at(here, "interface")},
          {"rate_bits_per_s", count_at(here, "rate_bits_per_s")},
          {"mtu_bytes", count_at(here, "mtu_bytes")},
          {"headers_share", share > 0 ? 1 - share : 0},
          {"bytes_per_s", std::round(rate / 8 * share)}};
}

json talks_json(const json& probe) {
  json talks = json::array();
  for (const json& each : array_at(probe, "talks")) {
    const double passed = seconds(each, "passed_ns"), count = number_at(each, "count");
    talks.push_back({{"write_bytes", count_at(each, "bytes")},
                     {"writes_per_s", passed > 0 ? std::round(count / passed) : 0},
                     {"bytes_per_s", passed > 0 ? std::round(number_at(each, "bytes") * count / passed) : 0}});
  }
  return talks;
}

// Of what the kernel counts for a receiver's buffer: which part it offers as window.
double data_share(const json& stream) {
  const double has = number_at(stream, "receive_buffer_bytes");
  const double offered = number_at(object_at(stream, "end"), "peer_window_bytes");
  return has > 0 ? std::clamp(offered / has, 0.8 * kDataShare, 1.0) : kDataShare;
}

// What a receiver may have under way to it, and what a sender may keep, which is nearly all data.
json window_json(const json& probe, double round_trip_s) {
  const json here = object_at(probe, "here"), there = object_at(probe, "there");
  const json stream = object_at(probe, "stream"), end = object_at(stream, "end");
  const double receive = number_at(there, "receive_buffer_max_bytes") * data_share(stream);
  const double send = number_at(here, "send_buffer_max_bytes");
  const double most = receive > 0 && send > 0 ? std::min(receive, send) : std::max(receive, send);
  return {{"send_buffer_bytes", count_at(end, "send_buffer_bytes")},
          {"send_buffer_max_bytes", count_at(here, "send_buffer_max_bytes")},
          {"receive_buffer_bytes", count_at(stream, "receive_buffer_bytes")},
          {"receive_buffer_max_bytes", count_at(there, "receive_buffer_max_bytes")},
          {"peer_window_bytes", count_at(end, "peer_window_bytes")},
          {"congestion_window_bytes", count_at(end, "window_bytes")},
          {"most_bytes_per_s", round_trip_s > 0 ? std::round(most / round_trip_s) : 0}};
}

// The buffer that a stream of this rate needs over this round trip: twice what is under way, as half of it is data.
uint64_t buffer_for(double bytes_per_s, double round_trip_s) {
  return static_cast<uint64_t>(std::ceil(2 * bytes_per_s * round_trip_s / 65536) * 65536);
}

json warning(const std::string& what, const std::string& mend) { return {{"what", what}, {"to_do", mend}}; }

void warn_of_interface(const json& host, const std::string& node, json& warnings) {
  const std::string name = text_at(host, "interface");
  if (name.empty()) return;
  if (flag_at(host, "half_duplex"))
    warnings.push_back(warning(name + " of " + node + " is half-duplex: it sends or receives, not both",
                               "on " + node + ": ethtool -s " + name + " autoneg on"));
  const uint64_t errors = count_at(host, "receive_errors") + count_at(host, "send_errors");
  const uint64_t collisions = count_at(host, "collisions");
  if (errors + collisions > 0)
    warnings.push_back(warning(name + " of " + node + " has counted " + std::to_string(errors) + " errors and " +
                                   std::to_string(collisions) + " collisions: cable, plug or driver",
                               "on " + node + ": ip -s -s link show " + name));
}

void warn_of_buffer(const json& probe, StreamLimit limit, double bytes_per_s, double round_trip_s,
                    const std::string& node, const std::string& peer, json& warnings) {
  const bool receives = limit == StreamLimit::kReceiveBuffer;
  if (!receives && limit != StreamLimit::kSendBuffer) return;
  const double rate = number_at(object_at(probe, "here"), "rate_bits_per_s") / 8;
  // Where nobody knows what the link could carry: four times of now.
  const double wanted = std::max(rate, 4 * bytes_per_s);
  const std::string most = std::to_string(buffer_for(wanted, round_trip_s));
  warnings.push_back(warning(
      std::string("the stream waits for the ") + (receives ? "receiver's" : "sender's") +
          " buffer: " + printed("%.2f", wanted / 1e6) + " MB/s over a round trip of " +
          compact_duration(static_cast<uint64_t>(round_trip_s * kSecond)) + " need " + most + " bytes of it",
      receives ? "on " + peer + ": sysctl -w net.ipv4.tcp_rmem=\"4096 131072 " + most + "\""
               : "on " + node + ": sysctl -w net.ipv4.tcp_wmem=\"4096 16384 " + most + "\""));
}

json warnings_of(const json& probe, const Arrivals& arrivals, double round_trip_s, const std::string& node,
                 const std::string& peer) {
  json warnings = json::array();
  const json here = object_at(probe, "here"), there = object_at(probe, "there");
  const uint64_t mtu = count_at(here, "mtu_bytes"), peer_mtu = count_at(there, "mtu_bytes");
  if (mtu != 0 && peer_mtu != 0 && mtu != peer_mtu)
    warnings.push_back(warning(
        "the MTU differs: " + std::to_string(mtu) + " at " + node + ", " + std::to_string(peer_mtu) + " at " + peer,
        "on " + (mtu < peer_mtu ? node : peer) + ": ip link set " +
            text_at(mtu < peer_mtu ? here : there, "interface") + " mtu " + std::to_string(std::max(mtu, peer_mtu)) +
            ", if all between them carries that"));
  warn_of_interface(here, node, warnings);
  warn_of_interface(there, peer, warnings);
  const StreamLimit limit = stream_limit(probe);
  warn_of_buffer(probe, limit, arrivals.bytes_per_s, round_trip_s, node, peer, warnings);
  // What waits for a window comes in one burst a round trip.
  const bool windowed = limit == StreamLimit::kSendBuffer || limit == StreamLimit::kReceiveBuffer;
  if (arrivals.gap_share > kGapsTold && !windowed)
    warnings.push_back(
        warning(printed("nothing came in %.0f%% of the time, in %zu gaps of up to ", 100 * arrivals.gap_share,
                        arrivals.gaps.size()) +
                    compact_duration(static_cast<uint64_t>(arrivals.longest_gap_s * kSecond)),
                "look for packets that get lost (nstat -z TcpRetransSegs), pauses of a switch, a busy host"));
  return warnings;
}

json gaps_json(const Arrivals& arrivals) {
  json gaps = json::array();
  for (const Arrivals::Gap& gap : arrivals.gaps)
    gaps.push_back({{"begin_s", static_cast<double>(gap.begin) * arrivals.interval_s},
                    {"length_s", static_cast<double>(gap.count) * arrivals.interval_s}});
  return gaps;
}

json stream_part(const json& probe, const Arrivals& arrivals) {
  const json stream = object_at(probe, "stream");
  const double passed = seconds(stream, "passed_ns");
  const json end = object_at(stream, "end");
  return {{"seconds", passed},
          {"received_bytes", count_at(stream, "received_bytes")},
          {"bytes_per_s", std::round(arrivals.bytes_per_s)},
          {"plateau_bytes_per_s", std::round(arrivals.plateau_bytes_per_s)},
          {"steady_from_s", static_cast<double>(arrivals.steady_from) * arrivals.interval_s},
          {"beside_bytes_per_s", passed > 0 ? std::round(number_at(stream, "beside_bytes") / passed) : 0},
          {"retransmitted_packets", count_at(end, "retransmitted")},
          {"gaps", gaps_json(arrivals)},
          {"gap_share", arrivals.gap_share},
          {"longest_gap_s", arrivals.longest_gap_s},
          {"interval_s", arrivals.interval_s},
          {"interval_bytes", arrivals.bytes}};
}

}  // namespace

Arrivals arrivals_of(const std::vector<uint64_t>& bytes, double interval_s, double packet_bytes) {
  Arrivals result;
  result.bytes = bytes;
  result.interval_s = interval_s;
  const size_t end = whole_intervals(bytes);
  result.steady_from = std::min(end, steady_from(bytes));
  uint64_t sum = 0;
  for (size_t i = result.steady_from; i < end; ++i) sum += bytes[i];
  const double time_s = static_cast<double>(end - result.steady_from) * interval_s;
  if (time_s <= 0) return result;
  result.bytes_per_s = static_cast<double>(sum) / time_s;
  // At the stream's rate something comes every so many intervals.
  const double apart = result.bytes_per_s > 0 ? packet_bytes / (result.bytes_per_s * interval_s) : 0;
  const auto least = static_cast<size_t>(std::ceil(std::max(1.0, 2 * apart)));
  size_t run = 0, empty = 0;
  const auto ends = [&](size_t at) {
    if (run >= least) {
      result.gaps.push_back({at - run, run});
      empty += run;
      result.longest_gap_s = std::max(result.longest_gap_s, static_cast<double>(run) * interval_s);
    }
    run = 0;
  };
  for (size_t i = result.steady_from; i < end; ++i)
    if (bytes[i] == 0)
      ++run;
    else
      ends(i);
  ends(end);
  result.gap_share = static_cast<double>(empty) * interval_s / time_s;
  result.plateau_bytes_per_s =
      result.gap_share < 1 ? result.bytes_per_s / (1 - result.gap_share) : result.bytes_per_s;
  return result;
}

const char* stream_limit_word(StreamLimit limit) {
  switch (limit) {
    case StreamLimit::kSender:
      return "sender";
    case StreamLimit::kSendBuffer:
      return "send-buffer";
    case StreamLimit::kReceiveBuffer:
      return "receive-buffer";
    case StreamLimit::kReceiver:
      return "receiver";
    case StreamLimit::kLink:
      break;
  }
  return "link";
}

StreamLimit stream_limit(const json& probe) {
  const json stream = object_at(probe, "stream");
  const Share share = waited(stream);
  if (share.peer_window > kLimits && share.peer_window >= share.send_buffer) {
    // A receiver that keeps up offers all that its buffer may be.
    const double most = number_at(object_at(probe, "there"), "receive_buffer_max_bytes");
    const double has = number_at(stream, "receive_buffer_bytes");
    const double offered = number_at(object_at(stream, "end"), "peer_window_bytes");
    return most > 0 && has >= 0.8 * most && offered >= 0.2 * has ? StreamLimit::kReceiveBuffer : StreamLimit::kReceiver;
  }
  if (share.send_buffer > kLimits) return StreamLimit::kSendBuffer;
  const double asked = number_at(stream, "asked_ns");
  if (asked > 0 && number_at(stream, "late_ns") / asked > kLateLimits) return StreamLimit::kSender;
  return StreamLimit::kLink;
}

json probe_json(const json& probe, const std::string& node, const std::string& peer) {
  const json stream = object_at(probe, "stream");
  std::vector<uint64_t> bytes;
  for (const json& each : array_at(stream, "interval_bytes"))
    bytes.push_back(each.is_number_unsigned() ? each.get<uint64_t>() : 0);
  const json round_trip = round_trip_json(probe);
  const double round_trip_s = seconds(round_trip, "average_ns");
  const bool encrypted = !text_at(probe, "protection").empty();
  const double segment = std::max<double>(1460, number_at(object_at(stream, "end"), "segment_bytes"));
  const double packet = encrypted ? std::max(kRecordBytes, segment) : segment;
  const Arrivals arrivals = arrivals_of(bytes, seconds(stream, "interval_ns"), packet);
  return {{"link", text_at(probe, "link")},
          {"from", node},
          {"to", peer},
          {"encrypted", encrypted},
          {"clients_write", flag_at(probe, "busy")},
          {"frame", frame_json(probe)},
          {"stream", stream_part(probe, arrivals)},
          {"conversations", talks_json(probe)},
          {"round_trip", round_trip},
          {"window", window_json(probe, round_trip_s)},
          {"limit", stream_limit_word(stream_limit(probe))},
          {"warnings", warnings_of(probe, arrivals, round_trip_s, node, peer)}};
}

}  // namespace twinblock
