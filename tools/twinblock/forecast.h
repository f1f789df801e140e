// What clients would see over other links, from what they see now. Pure.
//
// The clients are taken for a closed system, as most are: each has so many writes under way and begins the
// next one when one ends (Denning and Buzen, "The operational analysis of queueing network models", ACM
// Computing Surveys 10(3), 1978). So faster links bring more writes only as far as the clients' own pauses, the
// software and the disks let them, and where a link is full, writes queue for it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace twinblock {

// What the clients do and what it takes, over one window of the `latency` verb. Times in ns, means of all writes
// unless they say otherwise.
struct Workload {
  struct Class {
    std::string name;     // "16K"
    double writes = 0;    // how many
    double bytes = 0;     // of one, in the mean
    double mean_ns = 0, p50_ns = 0, p99_ns = 0;  // of the whole write
    double link_ns = 0;  // of the mean: on the wire, but for the length of the way, and queueing for the link
    // Others of its stages (telemetry/stages.h).
    double crypto_ns = 0, compression_ns = 0, peer_disk_ns = 0;
    double local_disk_ns = 0;  // of writes of which this node's disk was the later one
  };
  std::vector<Class> classes;     // those with any write
  double clients = 0;             // writes under way while any is: the clients' queue depth, together
  double pause_ns = 0;            // from the end of a client's write to its next
  double line_bytes_per_s = 0;    // what the links that are up carry together; 0: not known
  double busy_ns = 0;             // the time in which any write was under way
  double window_ns = 0;           // … of that much
  double wire_part = 1;           // what travels of a client's byte: less where it is compressed, none of a zero
  double zero_part = 0;           // what of it are zeroes, of which only the length travels, compressed or not
};
// Of the latency verb's answer. `bits_per_s`: what the links are called, where the answer doesn't know; 0: nothing.
// Nothing where there were no writes, none that waited for the peer, or too many that went to no peer.
std::optional<Workload> workload_of(const nlohmann::json& latency, double bits_per_s);

// Whether it says of one of its links that it is down.
bool is_down(const nlohmann::json& link);

// What travels of a client's byte, by the same answer.
double wire_part_of(const nlohmann::json& latency);

// What a link of this rate carries of data, with headers of TCP, IP and Ethernet at an MTU of 1500.
double payload_bytes_per_s(double bits_per_s);

struct Forecast {
  struct Class {
    std::string name;
    // As a client sees them: what the latency verb would show, and the client's own pause.
    double mean_ns = 0, p50_ns = 0, p99_ns = 0;
    double bytes_per_s = 0;
  };
  std::vector<Class> classes;  // as the workload's
  double writes_per_s = 0, bytes_per_s = 0;
  double mean_ns = 0;  // of a write, as a client sees it
  double busy = 0;  // the share of time in which the link carries data, 0 to 1
};
// What else may be another one than now.
struct Change {
  double wire_part = 1;          // as the workload's
  std::vector<double> saved_ns;  // of a write, by class; less than 0: it takes longer
};
// Over links that carry `line_bytes_per_s` together, whose round trip is longer by `longer_ns` (or shorter, if
// that is negative). The workload's own line must be known.
Forecast forecast(const Workload& workload, double line_bytes_per_s, double longer_ns);
Forecast forecast(const Workload& workload, double line_bytes_per_s, double longer_ns, const Change& change);
// As it is while any write is under way, from what was measured alone.
Forecast as_measured(const Workload& workload);
// As it is over the whole window, in which nobody may have written for a time: the same, but fewer writes a second.
Forecast over_window(const Workload& workload);
// The forecast of another change over the present link, by what it changes in what is measured: the forecast of no
// change is a little beside that.
Forecast changed(const Workload& workload, const Change& change);
// The share of the window in which any write was under way.
double under_way_share(const Workload& workload);

// Busier than this the link is what the clients wait for.
constexpr double kFull = 0.9;

}  // namespace twinblock
