// What the parts of one engine share: the node's durable record, the maps, the locks, and the state
// that they agree on. A plain struct: the parts (write path, flushes, reads, replica, resync) each
// have one noun and change it on the loop thread; the engine owns it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/checks.h"
#include "base/limits.h"
#include "config/config.h"
#include "io/clock.h"
#include "io/disk.h"
#include "io/log.h"
#include "io/workers.h"
#include "metadata/block_map.h"
#include "metadata/intent_store.h"
#include "metadata/load.h"
#include "mirror/compression_policy.h"
#include "mirror/epochs.h"
#include "mirror/range_lock.h"
#include "telemetry/latency.h"
#include "volume/events.h"
#include "volume/join_order.h"
#include "volume/node_state.h"
#include "volume/peer_phase.h"
#include "volume/session.h"
#include "volume/worker_view.h"
#include "volume/written_data.h"

namespace twinblock {

struct Counters {
  uint64_t writes = 0;
  uint64_t write_bytes = 0;
  uint64_t zeroes = 0;
  uint64_t flushes = 0;
  uint64_t resync_bytes = 0;
  uint64_t peer_losses = 0;
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
    uint64_t zero_piece_bytes;
    const metadata::Loaded& loaded;
    bool backing_is_empty;
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
        zero_piece_bytes(parts.zero_piece_bytes),
        events(parts.clock),
        compression({parts.config.compression, parts.config.compression_level}),
        dirty(parts.config.size_bytes),
        coarse(parts.config.size_bytes),
        epochs(parts.config.size_bytes),
        state_(parts.metadata, parts.clock, random,
               {parts.loaded, parts.config.size_bytes, parts.backing_is_empty,
                std::move(parts.record_failed)}),
        intents_(parts.metadata, parts.config.size_bytes, parts.loaded.record.region_bytes,
                 &parts.clock),
        join_order_(parts.backing_is_empty) {}

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
  const uint64_t zero_piece_bytes;         // in which zeroes are cut

  Events events;
  CompressionPolicy compression;
  // Outside writes in flight and open epochs, `dirty` holds every block that may differ from the
  // peer's. Whatever may differ is also in the intents, or the record says all_dirty (invariant 3).
  bool map_valid = false;
  bool alone_allowed = false;  // the operator's word, with on_peer_loss = freeze; until a session
  bool peer_fast_zero = false;
  BlockMap dirty;
  BlockMap
      coarse;  // of those in `dirty`, the ones that only may differ: compared before they are sent
  Epochs epochs;
  RangeLock ranges;
  WorkerView worker_view;
  PeerPhase phase{worker_view};
  Counters counters;
  WriteLatency latency;

  [[nodiscard]] NodeState& state() { return state_; }
  [[nodiscard]] const NodeState& state() const { return state_; }
  [[nodiscard]] const metadata::NodeRecord& record() const { return state_.record(); }
  [[nodiscard]] metadata::IntentStore& intents() { return intents_; }
  [[nodiscard]] const metadata::IntentStore& intents() const { return intents_; }
  [[nodiscard]] JoinOrder& join_order() { return join_order_; }
  [[nodiscard]] const JoinOrder& join_order() const { return join_order_; }
  [[nodiscard]] WrittenData& written() { return written_; }
  [[nodiscard]] const WrittenData& written() const { return written_; }

  // Writes and flushes wait for the peer (on_peer_loss = freeze).
  [[nodiscard]] bool frozen() const {
    return config.on_peer_loss == OnPeerLoss::kFreeze && !phase.attached() && !alone_allowed;
  }
  // The engine's state is the loop's: whoever comes in from outside asks first.
  void check_on_loop() const { TB_CHECK(clock.on_loop(), "the engine is entered on the loop"); }

 private:
  NodeState state_;
  metadata::IntentStore intents_;
  JoinOrder join_order_;
  WrittenData written_;
};

}  // namespace twinblock
