// One node of one volume: the pure core of twinblock. It owns the write path, the replica, resync
// and the session, and decides with them; it makes no system call and talks to Clock, Disk, Network
// and Log only, so that the plugin and the simulator run the same, unmodified engine.
//
// Every method is called on the loop thread, and checks that, but for those that say otherwise. Callbacks are
// called on the loop thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/copies.h"
#include "metadata/load.h"
#include "volume/client_request.h"
#include "volume/clients.h"
#include "volume/consent.h"
#include "volume/core.h"
#include "volume/disk_health.h"
#include "volume/engine_inside.h"
#include "volume/engine_session.h"
#include "volume/first_record.h"
#include "volume/flush_group.h"
#include "volume/growth.h"
#include "volume/operator_orders.h"
#include "volume/own_facts.h"
#include "volume/peer_sync.h"
#include "volume/replica.h"
#include "volume/roles.h"
#include "session/session.h"
#include "volume/simplex_gate.h"
#include "volume/slow_reads.h"
#include "volume/snapshots.h"
#include "volume/split_brain_orders.h"
#include "volume/state_log.h"
#include "volume/status_source.h"
#include "volume/status_view.h"
#include "volume/upkeep.h"
#include "volume/verifier.h"
#include "volume/way_back.h"
#include "volume/write_path.h"

namespace twinblock {

class Engine final : private DiskHealth::Owner, private PeerSync::Owner, private RolesOwner,
                     private FirstRecord::Owner, private Consent::Owner {
 public:
  struct Parts {
    const Config& config;
    std::string node;
    Clock& clock;
    Log& log;
    Network& network;
    Disk& data;
    Disk& metadata;
    Workers& workers;
    metadata::Loaded loaded;        // what the metadata disk held
    DataFound found = DataFound::kUnknown;  // in the backing, at the start
    metadata::Uuid instance;        // random, anew for each process
    std::function<uint64_t()> random;
    const EventWords& words;  // what its events say in sentences
    uint64_t boot = 0;  // of the host, and the data disk's attachment (io/posix/files.h, memory_number()); 0: not known
    // Nothing of the backing is in this host's page cache: what is read is what the disk holds. Asked
    // for where a flush failed before (loaded.record.flush_failed).
    bool cache_is_gone = false;
    uint64_t zero_piece_bytes = limits::kFrameZeroBytesMax;  // less for the simulator's volumes
    // Who is asked before this node goes on alone: the one that config.witness names.
    Consent::Asked asked = {};
    // Ends the connections of all clients, without another answer: what they know of the volume is old.
    std::function<void()> cut_off_clients = {};
    Copies* copies = nullptr;  // of the backing; null: none can be taken
    uint64_t receive_bytes_max = limits::kReceiveBytesMax;  // less for the simulator's volumes
    uint64_t zero_bytes_in_flight_max = limits::kZeroBytesInFlightMax;  // likewise
    uint64_t own_set_bytes_max = limits::kControlBytesMax;  // less for tests' volumes: their set is one chunk
    BackingNumbers numbers = {};
  };
  explicit Engine(Parts parts);

  // Once, before anything else, also while the loop does not run yet.
  Status start();
  // Demotes an idle primary, or waits for a demotion that is under way, and for a flush that takes so long that it is on
  // record; tells the peer, and ends the session. `done` is called as soon as the disks have answered.
  // `clients_cut_off`: some had the export open when the end began; they may wait for the next process, which goes on as
  // primary if nobody else is by then.
  void shut_down(bool clients_cut_off, std::function<void()> done);

  // From the bridge: what clients ask.
  [[nodiscard]] Clients& clients() {
    core_.check_on_loop();
    return clients_;
  }
  // Any thread, for workers that read by themselves, or prepare writes; each says what of it is the loop's.
  [[nodiscard]] WorkerView& worker_view() { return core_.worker_view(); }
  [[nodiscard]] CompressionPolicy& compression() { return core_.compression(); }
  [[nodiscard]] const Clock& clock() const { return core_.clock; }

  // From the control socket: what an operator may order.
  [[nodiscard]] OperatorOrders& orders() {
    core_.check_on_loop();
    return orders_;
  }
  // Codes and figures; control/ has the words.
  [[nodiscard]] StatusView status() const {
    core_.check_on_loop();
    return status_.view();
  }
  // Parts of status(), for who asks often, and what is not in it.
  [[nodiscard]] VolumeState volume_state() const {
    core_.check_on_loop();
    return status_.state();
  }
  [[nodiscard]] bool is_primary() const {
    core_.check_on_loop();
    return roles_.is_primary();
  }
  [[nodiscard]] const StatusSource& figures() const {
    core_.check_on_loop();
    return status_;
  }
  [[nodiscard]] Events& events() {
    core_.check_on_loop();
    return core_.events();
  }
  [[nodiscard]] const Events& events() const {
    core_.check_on_loop();
    return core_.events();
  }
  // For checks from outside.
  [[nodiscard]] EngineInside inside() const {
    core_.check_on_loop();
    return {core_, facts_, writes_};
  }
  // Any thread: they never change.
  [[nodiscard]] const Config& config() const { return core_.config; }
  [[nodiscard]] const std::string& node() const { return core_.node; }
  // Tells this process from others of the same node.
  [[nodiscard]] const std::string& instance() const { return instance_; }

 private:
  void give_role_up(bool clients_cut_off, std::function<void()> done);
  // DiskHealth::Owner
  [[nodiscard]] bool is_secondary() const override { return roles_.role() == Role::kSecondary; }
  void peer_stands_in() override;
  void disk_stalls() override;
  void disk_gets_on() override;
  // PeerSync::Owner
  void phase_entered() override;
  // RolesOwner
  uint64_t clients_connected() const override { return clients_.count(); }
  void note_company() override { sync_.note_company(); }
  [[nodiscard]] bool forgot_what_the_peer_may_hold() const override {
    return facts_.peer_may_hold_more();
  }
  void became_primary() override { sync_.became_primary(); }
  void became_secondary() override { sync_.became_secondary(); }
  void peer_became(PeerRole role) override;
  // Consent::Owner
  [[nodiscard]] bool serves() const override {
    return roles_.role() == Role::kPrimary && !roles_.resumption().under_way();
  }
  [[nodiscard]] bool may_want_to_go_on() const override;
  [[nodiscard]] bool may_promise_nothing() const override {
    return disks_.stalls().stalled_ns() > 0 || disks_.metadata_error() != 0 || core_.stance().peer_comes_first();
  }
  [[nodiscard]] bool takes_in_another() const override { return sync_.waits_for_witness(); }
  void right_changed() override;
  void may_read() override { reads_.release_held(); }
  void yield() override;
  void witness_answered(uint64_t mark) override { peer_.witness_answered(mark); }
  // Of all owners: after whatever may have changed the state.
  void note_state() override;
  void grown();

  Core core_;
  const std::string instance_;
  EngineSession peer_;
  Session session_;
  DiskHealth disks_;
  SimplexGate gate_;
  WritePath writes_;
  FlushGroup flushes_;
  SlowReads reads_;
  Replica replica_;
  Verifier verifier_;
  Consent consent_;
  Roles roles_;
  OwnFacts facts_;
  FirstRecord first_record_;
  Growth growth_;
  WayBack way_back_;
  Snapshots snapshots_;
  PeerSync sync_;
  Clients clients_;
  Upkeep upkeep_;
  SplitBrainOrders split_brain_;
  OperatorOrders orders_;
  StateLog states_;
  StatusSource status_;
};

}  // namespace twinblock
