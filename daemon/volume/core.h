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
#include "metadata/superblock_store.h"
#include "mirror/compression_policy.h"
#include "mirror/epochs.h"
#include "mirror/range_lock.h"
#include "telemetry/latency.h"
#include "volume/events.h"
#include "volume/peer_phase.h"
#include "volume/session.h"
#include "volume/worker_view.h"

namespace twinblock {

struct Counters {
  uint64_t writes = 0;
  uint64_t write_bytes = 0;
  uint64_t zeroes = 0;
  uint64_t flushes = 0;
  uint64_t resync_bytes = 0;
  uint64_t peer_losses = 0;
};

struct Core {
  Core(const Config& configuration, std::string node_name, Clock& clock_, Log& log_, Disk& data_,
       Workers& workers_)
      : config(configuration),
        node(std::move(node_name)),
        peer(configuration.other(node).name),
        clock(clock_),
        log(log_),
        data(data_),
        workers(workers_),
        events(clock_),
        compression({configuration.compression, configuration.compression_level}),
        dirty(configuration.size_bytes),
        coarse(configuration.size_bytes),
        epochs(configuration.size_bytes) {}

  const Config& config;
  const std::string node;
  const std::string peer;
  Clock& clock;
  Log& log;
  Disk& data;
  Workers& workers;
  Events events;
  CompressionPolicy compression;
  Session* session = nullptr;                  // set once, before start
  metadata::SuperblockStore* store = nullptr;  // set once, before start
  metadata::IntentStore* intents = nullptr;    // set once, before start
  std::function<uint64_t()> random;            // never 0
  // The record could not be written; set once, before start.
  std::function<void(int error)> record_failed;

  uint64_t zero_piece_bytes = limits::kFrameZeroBytesMax;  // in which zeroes are cut

  metadata::NodeRecord record;  // as it is, or is about to be, on the metadata disk
  bool blank = true;            // no record yet
  bool joinable = false;        // blank, and the backing may be overwritten …
  metadata::Uuid joins{};       // … by this volume; zero: by any
  bool crashed = false;         // was primary when it stopped: blocks in its intents may differ
  bool backing_lost = false;    // held data once, but the backing was found without any
  bool wrote_data = false;      // the local disk was given something other than zeroes
  bool data_flushed = false;    // … and it is on stable storage
  // Became primary without a peer that was primary, so that clients may have read what only this
  // node holds; it says that it is dirty until the two are the same again.
  bool took_over = false;
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

  // Writes and flushes wait for the peer (on_peer_loss = freeze).
  [[nodiscard]] bool frozen() const {
    return config.on_peer_loss == OnPeerLoss::kFreeze && !phase.attached() && !alone_allowed;
  }
  // The engine's state is the loop's: whoever comes in from outside asks first.
  void check_on_loop() const { TB_CHECK(clock.on_loop(), "the engine is entered on the loop"); }
  // This replica holds, or is about to, what no order could have named yet. To be made durable before
  // anybody is promised any of it.
  void move_on() { record.state_id = random(); }
  // Makes the record durable.
  void persist(metadata::SuperblockStore::Done done) {
    store->update(record, [this, done = std::move(done)](int error) {
      if (error != 0) record_failed(error);
      done(error);
    });
  }
  // A new history of writes begins, as soon as the record is durable.
  void begin_generation() {
    uint64_t fresh = random();
    while (record.generations.knows(fresh)) fresh = random();
    record.generations.advance(fresh);
    record.generation_since_s = clock.wall_ns() / kSecond_ns;
    record.shared = false;
  }
};

}  // namespace twinblock
