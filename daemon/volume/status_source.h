// Reads the parts of an engine, and says in codes and figures how the volume stands. Owned by the
// engine; loop thread only.
#pragma once

#include "telemetry/latency.h"
#include "volume/clients.h"
#include "volume/core.h"
#include "volume/disk_health.h"
#include "volume/growth.h"
#include "volume/link_orders.h"
#include "volume/own_facts.h"
#include "volume/peer_settings.h"
#include "volume/peer_sync.h"
#include "volume/roles.h"
#include "volume/state_log.h"
#include "volume/status_view.h"
#include "volume/verifier.h"

namespace twinblock {

class StatusSource {
 public:
  struct Parts {
    const Core& core;
    const Roles& roles;
    const Consent& consent;
    const Growth& growth;
    const WayBack& way_back;
    const DiskHealth& disks;
    const PeerSync& sync;
    const Verifier& verifier;
    const LinkOrders& link_orders;
    const PeerSettings& settings;
    const StateLog& states;
    const OwnFacts& facts;
    const Clients& clients;
  };

  explicit StatusSource(const Parts& parts);

  // Cheap, for who asks often.
  [[nodiscard]] VolumeState state() const;
  // Whether replicas are being compared or brought up to date: cheap, too.
  [[nodiscard]] bool copying() const;
  [[nodiscard]] StatusView view() const;
  [[nodiscard]] LatencyView latency(Window window) const;
  [[nodiscard]] WriteLoad write_load(Window window) const;
  // The last probe of a link; null: there was none.
  [[nodiscard]] const ProbeResult* probe() const { return session().prober().result(); }

 private:
  [[nodiscard]] const Session& session() const { return parts_.core.session; }
  [[nodiscard]] DataState data_state() const;
  [[nodiscard]] std::optional<DataState> peer_data() const;
  void fill_replica(StatusView& view) const;
  void fill_peer(StatusView& view) const;
  void fill_session(StatusView& view) const;
  void fill_compression(StatusView::Compression& view) const;
  void fill_resync(StatusView& view) const;
  void fill_verify(StatusView::Verify& view) const;
  void fill_counters(StatusView& view) const;

  const Parts parts_;
  const uint64_t started_ns_;
};

}  // namespace twinblock
