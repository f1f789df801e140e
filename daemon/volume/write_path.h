// The client's writes on the primary: admission, both disks, acknowledgement. Owned by the engine;
// loop thread only.
//
//   submit ─▶ ranges ─▶ intents ─▶ start ─┬─▶ local disk ─────┬─▶ settle ─▶ done
//                                         └─▶ frames ─▶ acks ─┘
//
// Without a peer the dirty map takes the place of frames and acks, and the simplex gate is asked.
#pragma once

#include <deque>
#include <vector>

#include "base/pool.h"
#include "volume/client_request.h"
#include "volume/core.h"
#include "volume/disk_health.h"
#include "volume/simplex_gate.h"

namespace twinblock {

// Who has writes wait for a moment: for a snapshot.
class WriteHold {
 public:
  // All that had begun when the hold did has ended.
  virtual void drained() = 0;
  // Writes can't wait: the process is to end.
  virtual void hold_denied() = 0;

 protected:
  ~WriteHold() = default;
};

class WritePath {
 public:
  WritePath(Core& core, SimplexGate& gate, DiskHealth& disks);
  ~WritePath();

  // A write or zero; the node is primary.
  void submit(ClientRequest& request);
  // A session is up. `peer_fast_zero`: the peer can zero without writing.
  void session_up(bool peer_fast_zero) { peer_fast_zero_ = peer_fast_zero; }
  // The session is gone: every write that it carried becomes the dirty map's.
  void peer_lost();
  // The peer takes part again, or the node need not wait for it any more: writes that were held
  // because of on_peer_loss = freeze go on.
  void release_held();
  // Ends held writes with an error: the process is asked to stop, which would otherwise wait for
  // them.
  void fail_held();
  [[nodiscard]] bool any_held() const { return !held_.empty(); }
  // What comes in from now on waits, until let_go_on(). True: nothing is under way; else `by` is told when that is
  // so. Both are the holder's alone, who sees to it that nobody waits for long.
  [[nodiscard]] bool hold(WriteHold& by);
  void let_go_on();
  [[nodiscard]] bool held_back() const { return holder_ != nullptr; }
  // Whether no disk, here or at the peer, has any that is under way: each is held, or waits for one
  // that is.
  [[nodiscard]] bool all_held() const;
  // The sole-copy record at the peer is durable: writes that only the peer holds may be answered.
  void sole_copy_recorded();
  // Tells the intents that the regions of writes in flight are in use.
  void touch_intents();
  // The dirty map as it would be if the session ended now.
  [[nodiscard]] BlockMap dirty_without_peer() const;
  [[nodiscard]] bool idle() const { return active_.empty() && waiting_.empty(); }
  [[nodiscard]] uint64_t last_write_ns() const { return last_write_ns_; }
  // Clients write just now.
  [[nodiscard]] bool busy(uint64_t now_ns) const {
    return !active_.empty() || now_ns - last_write_ns_ < 10 * kMillisecond_ns;
  }

 private:
  struct Op;

  void admit_waiting();
  void admit(ClientRequest& request);
  void start(Op& op);
  [[nodiscard]] uint64_t intent_length(uint64_t offset_bytes, uint64_t length_bytes) const;
  void intent_recorded(Op& op, int error);
  void send_pieces(Op& op);
  void send_zeroes();
  void send_zero_piece(Op& op);
  void zeroes_landed(Op& op);
  void submit_local(Op& op);
  void zero_locally(Op& op, uint64_t done_bytes);
  static uint64_t local_bytes(const Op& op);
  void local_done(Op& op);
  void ended_here(Op& op);
  void piece_answered(Op& op, const PeerAnswer& answer);
  void learn(const ClientRequest& client, const PeerAnswer& answer);
  void settle(Op& op);
  void settle_alone(Op& op);
  void start_held(std::vector<Op*>& held);
  void finish(Op& op, int error);
  void record_times(Op& op);
  Op& new_op();

  Core& core_;
  SimplexGate& gate_;
  DiskHealth& disks_;
  bool peer_fast_zero_ = false;
  size_t room_ = limits::kWritesInFlightMax;  // how many may be under way; none while they are held back
  WriteHold* holder_ = nullptr;
  uint64_t active_bytes_ = 0;
  uint64_t last_write_ns_ = 0;
  uint64_t zero_bytes_in_flight_ = 0;   // to the peer
  std::deque<ClientRequest*> waiting_;  // beyond the limits, in order
  std::deque<Op*> zeroing_;             // zeroes of which pieces have still to be sent, in order
  std::vector<Op*> active_;             // admitted to the range lock, holding or waiting
  std::vector<Op*> held_;               // frozen: hold their range, and wait for the peer
  std::vector<Op*> for_sole_copy_;      // acked by the peer, missing on the local disk
  // Hold their range until the peer has it on record that it is the only copy.
  std::vector<Op*> before_sole_copy_;
  Pool<Op> ops_;
};

}  // namespace twinblock
