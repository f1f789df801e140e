// What an operator orders of a volume: what the control server asks for. Those that concern one part
// alone go straight to it; to go on alone, the pace of a resync and a verification are decided here.
// Owned by the engine; loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "volume/compression_orders.h"
#include "volume/core.h"
#include "volume/first_record.h"
#include "volume/flush_group.h"
#include "volume/growth.h"
#include "volume/link_orders.h"
#include "volume/peer_sync.h"
#include "volume/resync_source.h"
#include "volume/roles.h"
#include "volume/snapshots.h"
#include "volume/split_brain_orders.h"
#include "volume/verifier.h"
#include "volume/way_back.h"
#include "volume/write_path.h"

namespace twinblock {

enum class ResyncPace { kPause, kResume, kAuto, kRate };
enum class VerifyOrder { kCompare, kRepair, kStop };

class OperatorOrders {
 public:
  // A sentence for the operator, or an error with an action.
  using Reply = std::function<void(Result<std::string>)>;

  struct Parts {
    Core& core;
    FirstRecord& first_record;
    Growth& growth;
    WayBack& way_back;
    Snapshots& snapshots;
    Roles& roles;
    Consent& consent;
    SplitBrainOrders& split_brain;
    LinkOrders& links;
    CompressionOrders& compression;
    WritePath& writes;
    FlushGroup& flushes;
    ResyncSource& resync;
    Verifier& verifier;
    RolesOwner& owner;
    const PeerSync& sync;
    const DiskHealth& disks;
  };

  explicit OperatorOrders(const Parts& parts)
      : parts_(parts), look_again_(parts.core.clock.make_timer([this] { look_again(); })) {}

  void init(bool force, bool join, Reply reply) {
    parts_.first_record.init(force, join, std::move(reply));
  }
  // The volume's size, on both nodes.
  void grow(uint64_t volume_bytes, Reply reply) {
    when_both_know([this, volume_bytes, reply = std::move(reply)] { parts_.growth.order(volume_bytes, reply); });
  }
  // A half-copied node becomes what it was before the resync.
  void roll_back(Reply reply) { parts_.way_back.order(std::move(reply)); }
  // Copies of both nodes' backings that hold the same, under a name.
  void snapshot(const std::string& name, Snapshots::Reply reply) {
    when_both_know([this, name, reply = std::move(reply)] { parts_.snapshots.order(name, reply); });
  }
  void promote(Roles::Word word, Reply reply) { parts_.roles.promote(word, std::move(reply)); }
  void demote(Reply reply) { parts_.roles.demote(true, std::move(reply)); }
  // Split brain: whose writes are kept, this node's or the peer's. `dry_run` says what would be
  // lost and changes nothing.
  void resolve(bool keep_local, bool dry_run, Reply reply, uint64_t seen_state = 0) {
    parts_.split_brain.resolve(keep_local, dry_run, seen_state, std::move(reply));
  }
  // The links of both nodes, until this process ends; a peer that is away is told when it is back.
  void change_link(LinkOrder order, const LinkConfig& link, Reply reply) {
    parts_.links.change(order, link, std::move(reply));
  }
  // Prober::begin().
  Result<uint64_t> probe(const std::string& link, uint64_t duty) {
    return parts_.core.session.prober().begin(link, duty);
  }
  // Session::keys_changed().
  void keys_changed() { parts_.core.session.keys_changed(); }
  // Each link gets a new connection, with the key of now, one after the other.
  void renew_links() { parts_.core.session.renew_links(); }
  // How what is sent is compressed, on both nodes, until both have restarted. Without a level: as
  // it was.
  void set_compression(Compression mode, std::optional<int> level, const Reply& reply) {
    parts_.compression.order(mode, level, reply);
  }
  // on_peer_loss = freeze: writes that wait for the peer go on without it. Where they wait for the
  // witness, that is up to the witness, or to the operator who vouches for the peer in its place.
  // Without a disk of its own it has nothing to go on with: what waits ends with errors, where it waits for no witness.
  void go_on_alone(bool without_witness, const Reply& reply);
  // The witness has answered, or the peer is back.
  void right_changed();
  void set_resync_pace(ResyncPace pace, uint64_t bytes_per_s, const Reply& reply);
  void verify(VerifyOrder order, const Reply& reply);
  // Every so many client writes the kernels are asked for the times of one; 0: never. On this node,
  // until it ends.
  void set_sample_every(uint32_t writes) { parts_.core.session.sampler().set_every(writes); }

 private:
  // Of a peer that is whole and records that `status` says "duplex" already: an order that is for two who both know waits
  // for its answer, or its end.
  void when_both_know(std::function<void()> order);
  void look_again();
  void end_what_waits(const Reply& reply);

  [[nodiscard]] std::string apply(ResyncPace pace, uint64_t bytes_per_s);

  const Parts parts_;
  const std::unique_ptr<Timer> look_again_;
  std::vector<std::function<void()>> wait_for_both_;
  uint64_t last_let_go_after_ = 0;  // Phase's number of the session after which an operator last let it go on alone
  bool goes_on_with_consent_ = false;  // an operator has said so, and the witness has not agreed yet
};

}  // namespace twinblock
