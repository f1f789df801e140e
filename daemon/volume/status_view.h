// What a node knows of its volume at one moment: codes and figures, no references. The sentences of
// `status` and `why` are in control/, and follow from this alone. (A text is the name of something,
// or what a system call, the peer or a refusal said.)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/data_search.h"
#include "cache/content_cache.h"
#include "config/config.h"
#include "mirror/compression_decision.h"
#include "mirror/generation.h"
#include "session/link_view.h"
#include "volume/link_order.h"
#include "volume/resync_cause.h"
#include "volume/volume_state.h"
#include "volume/witness_view.h"

namespace twinblock {

struct StatusView {
  std::string volume, node;
  std::string backing;  // the file or device of this node
  Role role = Role::kSecondary;
  VolumeState state = VolumeState::kBlank;
  DataState data = DataState::kBlank;
  bool promotable = false;  // secondary, and `promote` would be taken without any option
  uint64_t size_bytes = 0;
  uint64_t file_size_bytes = 0;   // what the configuration file says
  uint64_t growing_to_bytes = 0;  // 0: it is not growing
  // What this half-copied node was before its resync, and can be again.
  struct WayBack {
    uint64_t since_s = 0;       // Unix time at which the copy was taken
    uint64_t to_get_bytes = 0;  // that might have differed from the source's then
    uint64_t rolled_back_to_s = 0;  // it is again what it was then, and the peer is not in that history; 0: no
    bool kept = false;          // there is one
    bool taking = false;        // a resync waits for its copy
    bool rolling_back = false;
    std::string failure;  // why there was none the last time: a sentence, or more
  } way_back;
  uint64_t dirty_bytes = 0;
  uint64_t coarse_bytes = 0;  // of those, known to differ perhaps
  // What this node would say of itself in a handshake, and the name of what an order of `resolve`
  // gives up, where it has one on record (mine.keep, mine.discard).
  SyncFacts mine;
  metadata::GivenUp given_up{};
  bool joinable = false;  // blank, and joins a peer that is initialised
  DataFound found = DataFound::kUnknown;  // in the backing, when this process began
  bool unvouched = false;                 // it held data, and nobody has said that what is there is right

  struct Peer {
    std::string name;
    PeerRole role = PeerRole::kUnknown;
    std::optional<DataState> data;   // now, or when it was last heard; nothing: it never was
    std::string error;               // its disk failed: a sentence …
    std::string error_file;          // … and which file of it …
    bool lacks_room = false;         // … and it was for want of room
    bool connected = false;          // a session stands
    bool answers = false;            // the address of a link does, whoever that is
    bool whole_on_this_node = false; // its disk failed: it works on this node's replica
    uint64_t stalled_ns = 0;  // as below, of a peer that was primary when it was last heard; 0: else
    uint64_t term = 0;  // of its last promotion, as far as this node has heard of any
    std::optional<uint64_t> silent_ns;  // for how long nothing has come from it; nothing: not met yet
    std::optional<SyncFacts> facts;    // what it last said in a handshake of what it holds …
    std::optional<uint64_t> heard_ns;  // … and how long ago
  } peer;

  // Between the two.
  std::optional<Verdict> verdict;  // the last handshake's
  std::string refusal;             // why there is no session: a sentence; empty: none is refused
  std::string session_error;       // of the last try to set one up
  std::string loss_reason;         // of the last session …
  uint64_t lost_wall_ns = 0;       // … and when that was lost; 0: there was none
  bool frozen = false;  // this node is primary, and its writes wait for the peer or for the witness …
  bool reads_wait = false;  // … and so do its reads, since the peer may have been promoted
  bool resumes_with_peer = false;  // mine.resumes, and no witness is asked in the place of a peer that is away
  WitnessView witness;
  std::optional<ContentCache::Figures> cache;  // of reads; nothing: there is none
  std::vector<RefusedLinkOrder> refused_link_orders;  // by the peer
  std::string settings_differ;  // where the two configuration files do; empty: nowhere

  // What a promotion here would meet.
  struct Promotion {
    std::string refusal;  // why there can be none even if the peer is dead; empty: there can
    bool peer_is_primary = false;  // as this node has it on record, or as the peer said lately
    bool forgot = false;  // this node may have forgotten what it had acknowledged as primary
  } promotion;

  using Link = LinkView;
  std::vector<Link> links;

  struct Compression {
    twinblock::Compression mode = twinblock::Compression::kOff;
    int level = 0;
    uint64_t writes_compressed = 0, writes_raw = 0;
    // Of what was compressed: before and after.
    uint64_t raw_bytes = 0, sent_bytes = 0;
    uint64_t incompressible_bytes = 0;            // looked at, and sent as they were
    uint64_t compress_ns = 0, decompress_ns = 0;  // of CPU time
    CompressionDecision decision;  // what "auto" decided last, and why
  } compression;

  struct ResyncSent {
    uint64_t data_bytes = 0;      // blocks that travelled as data
    uint64_t zero_bytes = 0;      // blocks that travelled as a flag
    uint64_t compared_bytes = 0;  // looked at on both nodes, by digests
  };
  struct Resync {
    bool active = false;  // the state is kResync; the figures say something
    bool source = false;  // this node has a resync under way to the peer, be it of nothing
    bool target = false;  // … the other way round
    bool paused = false;  // by an operator; of the source
    uint64_t pace_bytes_per_s = 0;  // as ordered; 0: what clients leave; of the source
    uint64_t done_bytes = 0;
    uint64_t total_bytes = 0;
    double percent = 0;
    uint64_t rate_bytes_per_s = 0;
    uint64_t average_bytes_per_s = 0;
    std::optional<uint64_t> remaining_s;
    std::optional<ResyncCause> cause;  // of the one that runs, or else of the last one
    ResyncSent sent;                   // the source's
    // Of the source: what its disk could not be read at, and is left for later; and the first places, as offset
    // and length.
    uint64_t unreadable_bytes = 0;
    std::vector<std::pair<uint64_t, uint64_t>> unreadable;
    bool target_may_have_unreadable = false;  // that it lacks any of these is not known: they can't be compared
    bool waits_for_disk = false;  // … and that all else has been copied
  } resync;
  struct LastResync {
    uint64_t bytes = 0;
    uint64_t duration_ns = 0;
    ResyncSent sent;
    std::optional<ResyncCause> cause;
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
  bool repair_cut_off = false;  // one was not completed, by this process or one before

  // The intents: what would be compared with the peer's if this node crashed now.
  bool all_dirty = false;  // … everything would, by the record
  uint64_t intent_bytes = 0;
  uint64_t intent_commits = 0;  // since start: how often the metadata disk was flushed for them
  uint64_t intent_waits = 0;    // … and how many writes waited for that
  uint64_t record_writes = 0;   // … and how often a copy of the node's record was written
  // As a primary without a peer that receives what is written, since start; with what runs now.
  uint64_t simplex_ns = 0, simplex_times = 0;
  bool simplex_now = false;
  std::string disk_error;       // what a disk of this node refused last: a sentence
  bool disk_lacks_room = false; // … and it was for want of room
  bool disk_ok = true;          // the local replica is in use
  uint64_t stalled_ns = 0;      // a local disk stands still: for how long a request has waited; 0: they get on
  std::string stalled_file;     // … and which
  bool metadata_failed = false; // its record, or the intents, can't be written any more
  size_t unreadable_places = 0; // of the local disk: the peer answers in its stead
  bool peer_reads_fail = false; // of the peer's there are some, too, or were
  std::string read_error;       // … and the latest one: a sentence
  uint64_t read_errors = 0;  // since start: reads that the local disk failed
  uint64_t clients = 0;
  uint64_t writes = 0, write_bytes = 0, reads = 0, read_bytes = 0, zeroes = 0, flushes = 0;
  uint64_t resync_bytes = 0, peer_losses = 0;
  uint64_t write_p50_ns = 0, write_p99_ns = 0, write_max_ns = 0;
  uint64_t uptime_ns = 0;
};

}  // namespace twinblock
