// What a node knows of its volume at one moment, for `status`: plain values, no references.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace twinblock {

// Names and meanings are the same in logs, in `status` and in the docs.
enum class VolumeState {
  kBlank,       // no metadata: waits for `init`, or for a peer that has been initialised
  kWaiting,     // secondary without a session
  kConnecting,  // primary or secondary whose session is being set up for the first time
  kConnected,   // both nodes are secondary and know of no difference
  kDuplex,      // one node is primary, both replicas are whole and receive every write
  kDegraded,    // as kDuplex, but this node's disk can't be read everywhere: the peer stands in
  kDiskless,    // the primary's disk failed: it works on the peer's replica, the only good one
  kResync,      // one replica is being brought up to date
  kSimplex,     // primary, alone; what the peer misses is recorded
  kFrozen,      // primary, alone, and writes wait (on_peer_loss = "freeze")
  kRefused,     // the nodes can't work together; `status` and `action` say why
  kFailed,      // the local disk failed, and no peer stands in
};
const char* state_name(VolumeState state);

enum class DataState { kBlank, kCurrent, kInconsistent, kFailed };
const char* data_state_name(DataState state);

struct StatusView {
  std::string volume, node, role, status, action;
  VolumeState state = VolumeState::kBlank;
  DataState data = DataState::kBlank;
  bool promotable = false;  // secondary, and `promote` would be taken without any option
  uint64_t size_bytes = 0;
  uint64_t dirty_bytes = 0;
  std::string generation_current, generation_base;

  struct Peer {
    std::string name, role, data, error;
    bool connected = false;
    std::optional<uint64_t> heard_ns;  // how long ago it last said in a handshake what it holds
  } peer;

  struct Link {
    std::string name;
    std::string state;        // "up", "connecting", "down", "disabled", "refused" or "damped"
    std::string local, peer;  // addresses
    std::string last_error;
    std::optional<uint64_t> round_trip_ns;
    uint64_t nominal_bits_per_s = 0;    // as configured; 0: not given
    uint64_t measured_bytes_per_s = 0;  // what it moved when it was busy; 0: it never was
    uint64_t in_bytes_per_s = 0, out_bytes_per_s = 0;  // lately
    uint64_t in_bytes = 0, out_bytes = 0;              // since this process started
    uint64_t in_flight_bytes = 0;                      // sent, and not acknowledged yet
    uint64_t failovers = 0;    // how often another link took over what this one carried
    uint64_t retry_in_ns = 0;  // until it is dialled again; 0: it is not waited for
  };
  std::vector<Link> links;

  struct Compression {
    std::string mode;  // "off", "on" or "auto"
    int level = 0;
    uint64_t writes_compressed = 0, writes_raw = 0;
    // Of what was compressed: before and after.
    uint64_t raw_bytes = 0, sent_bytes = 0;
    uint64_t incompressible_bytes = 0;            // looked at, and sent as they were
    uint64_t compress_ns = 0, decompress_ns = 0;  // of CPU time
    std::string decision;  // what "auto" decided, and why: a sentence; may be empty
  } compression;

  struct ResyncSent {
    uint64_t data_bytes = 0;      // blocks that travelled as data
    uint64_t zero_bytes = 0;      // blocks that travelled as a flag
    uint64_t compared_bytes = 0;  // looked at on both nodes, by digests
  };
  struct Resync {
    bool active = false;
    bool source = false;
    uint64_t done_bytes = 0;
    uint64_t total_bytes = 0;
    double percent = 0;
    uint64_t rate_bytes_per_s = 0;
    uint64_t average_bytes_per_s = 0;
    std::optional<uint64_t> remaining_s;
    std::string pace;    // "auto", "paused" or a rate; of the source
    std::string reason;  // why there is one, and why it is this big
    ResyncSent sent;     // the source's
  } resync;
  struct LastResync {
    uint64_t bytes = 0;
    uint64_t duration_ns = 0;
    ResyncSent sent;
  };
  std::optional<LastResync> last_resync;

  struct Verify {
    bool begun = false;  // the rest says something
    bool active = false;
    bool repair = false;
    std::string ended;  // "complete", or why it ended early
    uint64_t compared_bytes = 0, total_bytes = 0, differing_bytes = 0, repaired_bytes = 0;
    uint64_t rate_bytes_per_s = 0;
    std::optional<uint64_t> remaining_s;
    std::vector<std::pair<uint64_t, uint64_t>> differences;  // offset and length, the first ones
  } verify;

  // The intents: what would be compared with the peer's if this node crashed now.
  uint64_t intent_bytes = 0;
  uint64_t intent_commits = 0;  // since start: how often the metadata disk was flushed for them
  uint64_t intent_waits = 0;    // … and how many writes waited for that
  uint64_t record_writes = 0;   // … and how often a copy of the node's record was written
  // As a primary without a peer that receives what is written, since start; with what runs now.
  uint64_t simplex_ns = 0, simplex_times = 0;
  bool simplex_now = false;
  std::string disk_error;
  uint64_t read_errors = 0;  // since start: reads that the local disk failed
  uint64_t clients = 0;
  uint64_t writes = 0, write_bytes = 0, reads = 0, read_bytes = 0, zeroes = 0, flushes = 0;
  uint64_t resync_bytes = 0, peer_losses = 0;
  uint64_t write_p50_ns = 0, write_p99_ns = 0, write_max_ns = 0;
  uint64_t uptime_ns = 0;
};

// Adds to `status` and `action` which links a session goes on without, and why: the next one to die
// may be the last. Pure.
void explain_links(StatusView& view);

// What to do where the session is missing: start the peer, unless it answers already. Pure.
std::string bring_back(const std::string& peer, bool answers);

}  // namespace twinblock
