// The volume becomes larger, on both nodes, under load. The order is the operator's, on the node that
// writes, or on either where none does:
//
//   1. this node makes ready: it looks whether its backing has the room, makes what is new of it zero,
//      flushes that, and writes the pages of intents that the larger volume needs;
//   2. the peer is asked, which does the same, and records the new size. That may take as long as writing
//      to a disk does, so that it answers at once, and is asked again until it has ended;
//   3. this node records it, and tells its clients.
//
// So a size is recorded by anybody only when both are ready for it, and a volume never shrinks: after a
// crash at any moment the larger of the two recorded sizes is the volume's, and who has the smaller one
// on record grows by itself when the two meet, before there is a session (peer_is_larger()). Meanwhile
// neither node is promoted (Stance::changing()), unless the larger one is gone: who writes stays who had recorded the size last, and nothing
// is written beyond the recorded size of the other one. (A primary whose own disk failed meanwhile, and whose peer stands
// in, takes the peer's size over at once.)
//
// Owned by the engine; loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "session/peer_requests.h"
#include "volume/core.h"
#include "volume/disk_health.h"
#include "volume/local_flush.h"
#include "volume/roles.h"
#include "wire/frames.h"

namespace twinblock {

class Growth final : private PeerRequest {
 public:
  // A sentence for the operator, or an error with an action.
  using Reply = std::function<void(Result<std::string>)>;

  // `metadata`: what the record and the intents are on. `grown` is called when the larger size is durable
  // here.
  Growth(Core& core, Disk& metadata, DiskHealth& disks, const Roles& roles,
         std::function<void()> grown);

  // The operator's order, here.
  void order(uint64_t volume_bytes, Reply reply);
  // The peer's; answered.
  void heard(const wire::GrowFrame& frame);
  // The peer has recorded a larger size, and there is no session. What is to be said of it: that this node
  // grows, or why it can't.
  [[nodiscard]] std::string peer_is_larger(uint64_t volume_bytes);
  void session_up();
  void session_lost();
  // The peer stands in for this node's disk. No other run begins in this process.
  void disk_left();
  // The new size is going on record, and nobody knows yet whether it is: no session may come up.
  [[nodiscard]] bool recording() const { return run_ && run_->recording; }
  // To which size; 0: none is under way.
  [[nodiscard]] uint64_t under_way_bytes() const { return run_ ? run_->volume_bytes : 0; }

 private:
  enum class By { kOperator, kPeersOrder, kLargerPeer };
  struct Run {
    By by;
    uint64_t volume_bytes;
    Reply reply = {};          // kOperator
    uint64_t ready_bytes = 0;  // so much of the backing is zero, or was the volume's before
    bool asked = false;        // the peer is …
    bool recording = false;    // … and has said yes, or need not be asked
    std::string broken_off = {};  // why it goes no further than its current step
  };

  // PeerRequest
  void answered(const PeerAnswer& answer) override;

  [[nodiscard]] Session& session() const { return core_.session; }
  [[nodiscard]] std::optional<Error> why_not(uint64_t volume_bytes) const;
  [[nodiscard]] std::optional<Error> why_not_order() const;
  [[nodiscard]] std::optional<Error> why_not_here() const;
  [[nodiscard]] Status make_room(uint64_t volume_bytes);
  void begin(Run run);
  void look_at_next();
  void looked();
  void zeroed();
  void flush();
  void ready();
  void ask();
  void record();
  void take_over(uint64_t volume_bytes);
  void tell_grown(uint64_t volume_bytes);
  void tell_failure(uint64_t volume_bytes, const Error& error);
  void end(const std::optional<Error>& error);
  // Whether the run ends here.
  [[nodiscard]] bool breaks_off();

  Core& core_;
  Disk& metadata_;
  DiskHealth& disks_;
  const Roles& roles_;
  const std::function<void()> grown_;
  LocalFlush flush_;
  DiskRequest request_;
  std::optional<Run> run_;
  // How the last run of the peer's order has failed, which it has not been told yet.
  std::optional<std::pair<uint64_t, Error>> failed_;
  uint64_t asked_bytes_ = 0;  // what the peer was asked for last
  uint64_t larger_peer_heard_ns_ = 0;
  uint64_t told_ns_ = 0;  // when it was last told why this node does not grow to the peer's size
  std::unique_ptr<Timer> ask_again_;
};

}  // namespace twinblock
