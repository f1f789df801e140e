// What the parts of one engine share (write path, flushes, reads, replica, resync): what surrounds the
// node, and what they all go by, each of which keeps its own state. Owned by the engine; loop thread
// only, but for the worker's view and the compression.
#pragma once

#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>

#include "base/checks.h"
#include "base/limits.h"
#include "config/config.h"
#include "io/clock.h"
#include "io/disk.h"
#include "io/log.h"
#include "io/workers.h"
#include "metadata/intent_store.h"
#include "metadata/load.h"
#include "mirror/compression_policy.h"
#include "mirror/own_lateness.h"
#include "mirror/range_lock.h"
#include "telemetry/latency.h"
#include "volume/counters.h"
#include "volume/differences.h"
#include "telemetry/events.h"
#include "volume/join_order.h"
#include "volume/node_state.h"
#include "volume/peer_phase.h"
#include "session/session.h"
#include "volume/stance.h"
#include "volume/worker_view.h"
#include "volume/written_data.h"

namespace twinblock {

// Zeroes, which cost a disk more than they cost the wire.
struct ZeroLimits {
  uint64_t piece_bytes;          // in which they are cut
  uint64_t in_flight_max_bytes;  // of clients, to the peer; the rest of longer ones follows
};

class Core {
 public:
  struct Parts {
    const Config& config;
    std::string node;
    Clock& clock;
    Log& log;
    Disk& data;
    Disk& metadata;
    Workers& workers;
    Session& session;
    std::function<uint64_t()> random;
    ZeroLimits zeroes;
    const metadata::Loaded& loaded;
    DataFound found;  // in the backing
    BackingNumbers numbers;
    std::function<void(int error)> record_failed;
  };
  explicit Core(Parts parts)
      : config(parts.config),
        node(std::move(parts.node)),
        peer(parts.config.other(node).name),
        clock(parts.clock),
        log(parts.log),
        data(parts.data),
        workers(parts.workers),
        session(parts.session),
        random(std::move(parts.random)),
        zeroes(parts.zeroes),
        volume_bytes_(parts.loaded.volume_bytes(parts.config.size_bytes)),
        state_(parts.metadata, parts.clock, random,
               {parts.loaded, parts.found, parts.numbers, std::move(parts.record_failed)}),
        intents_(parts.metadata, volume_bytes_, parts.loaded.record.region_bytes, &parts.clock),
        join_order_(parts.loaded.blank ? parts.found : DataFound::kUnknown),
        differences_(volume_bytes_),
        stance_({parts.config, parts.clock, parts.session, state_, phase_, worker_view_}),
        events_(parts.clock),
        compression_({parts.config.compression, parts.config.compression_level}) {
    worker_view_.set_volume_bytes(volume_bytes_);
    if (config.cache_bytes > 0) make_cache();
  }

  // What surrounds the node, and is never another one.
  const Config& config;
  const std::string node;
  const std::string peer;
  Clock& clock;
  Log& log;
  Disk& data;
  Workers& workers;
  Session& session;
  const std::function<uint64_t()> random;  // never 0
  const ZeroLimits zeroes;

  // The volume's size: what is on record, and before there is a record, what the file says. The file's is
  // that of the beginning: a volume grows by an order.
  [[nodiscard]] uint64_t volume_bytes() const { return volume_bytes_; }
  // It has become larger, by what is the same on both nodes, and that is on record; after
  // IntentStore::prepare_growth(). (Or this node has lost its disk, and only the peer's counts.)
  void grow(uint64_t volume_bytes) {
    const uint64_t before = std::exchange(volume_bytes_, volume_bytes);
    intents_.grow(volume_bytes);
    differences_.grow(volume_bytes);
    // This node's is the only copy, then, and the peer misses all that is written: none of that is noted one by one.
    if (record().all_dirty) differences_.may_differ(before, volume_bytes - before);
  }

  [[nodiscard]] NodeState& state() { return state_; }
  [[nodiscard]] const NodeState& state() const { return state_; }
  [[nodiscard]] const metadata::NodeRecord& record() const { return state_.record(); }
  [[nodiscard]] metadata::IntentStore& intents() { return intents_; }
  [[nodiscard]] const metadata::IntentStore& intents() const { return intents_; }
  [[nodiscard]] JoinOrder& join_order() { return join_order_; }
  [[nodiscard]] const JoinOrder& join_order() const { return join_order_; }
  [[nodiscard]] WrittenData& written() { return written_; }
  [[nodiscard]] const WrittenData& written() const { return written_; }
  [[nodiscard]] Differences& differences() { return differences_; }
  [[nodiscard]] const Differences& differences() const { return differences_; }
  [[nodiscard]] OwnLateness& lateness() { return lateness_; }
  [[nodiscard]] const OwnLateness& lateness() const { return lateness_; }
  [[nodiscard]] RangeLock& ranges() { return ranges_; }
  [[nodiscard]] PeerPhase& phase() { return phase_; }
  [[nodiscard]] const PeerPhase& phase() const { return phase_; }
  [[nodiscard]] Stance& stance() { return stance_; }
  [[nodiscard]] const Stance& stance() const { return stance_; }
  [[nodiscard]] WorkerView& worker_view() { return worker_view_; }
  [[nodiscard]] const WorkerView& worker_view() const { return worker_view_; }
  [[nodiscard]] CompressionPolicy& compression() { return compression_; }
  [[nodiscard]] const CompressionPolicy& compression() const { return compression_; }
  [[nodiscard]] Events& events() { return events_; }
  [[nodiscard]] const Events& events() const { return events_; }
  [[nodiscard]] Counters& counters() { return counters_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] WriteLatency& latency() { return latency_; }
  [[nodiscard]] const WriteLatency& latency() const { return latency_; }

  // The peer sent what does not suit the state of this node: the session ends.
  void refuse(const wire::FrameHeader& header) const {
    session.drop(peer + " sent a " + wire::frame_type_name(header.type) +
                     " frame that does not suit the state of this node",
                 limits::kReconnectDelayMax_ns);
  }
  // What the peer asked for is done, or why it is not; `text` goes with what is done.
  void answer(uint64_t request, const std::optional<Error>& error, const std::string& text = {}) const {
    wire::AckFrame ack{.request = request};
    if (error) ack.error = static_cast<uint32_t>(error->code != 0 ? error->code : EINVAL);
    const std::string said = error ? in_words(*error) : text;
    session.send_ordered(ack, wire::text_bytes(said));
  }
  // "WHO WHAT", as the peer tells it, perhaps again and again: a line for each `what`, then how many more there were.
  void peer_told(const std::string& who, const std::string& what, Severity severity) const {
    session.peer_log().tell(who, what, clock.now_ns(), severity);
  }
  // The engine's state is the loop's: whoever comes in from outside asks first.
  void check_on_loop() const { TB_CHECK(clock.on_loop(), "the engine is entered on the loop"); }

 private:
  // A node without its cache is slower; one that does not start is gone.
  void make_cache() {
    try {
      worker_view_.set_cache(
          std::make_unique<ContentCache>(volume_bytes_, config.cache_bytes,
                                         std::bit_cast<ContentDigest::Key>(std::array{random(), random()})));
    } catch (const std::bad_alloc&) {
      log.log(Severity::kWarning, "the kernel does not give the memory of [cache]: there is no cache; to do: choose a "
                                  "smaller size, or look at vm.overcommit_memory");
    }
  }

  uint64_t volume_bytes_;
  NodeState state_;
  metadata::IntentStore intents_;
  JoinOrder join_order_;
  WrittenData written_;
  Differences differences_;
  OwnLateness lateness_;
  RangeLock ranges_;
  WorkerView worker_view_;
  PeerPhase phase_{worker_view_};
  Stance stance_;
  Events events_;
  CompressionPolicy compression_;
  Counters counters_;
  WriteLatency latency_;
};

}  // namespace twinblock
