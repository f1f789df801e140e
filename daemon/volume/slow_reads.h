// Reads that can't bypass the loop: those that met a write in flight wait for its range; those
// whose local disk failed are answered by the peer, block by block where each is good on one of the two only; those for
// which nobody can tell whether the peer was promoted, and writes, wait for the witness; those that only the peer can
// answer, for one that is away, where writes do. Owned by the engine; loop thread only.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "base/pool.h"
#include "cache/content_digest.h"
#include "volume/client_request.h"
#include "volume/core.h"
#include "volume/disk_health.h"

namespace twinblock {

class SlowReads {
 public:
  SlowReads(Core& core, DiskHealth& disks);
  ~SlowReads();

  void submit(ClientRequest& request);
  // The session is gone: what it was to answer waits for the next one, or fails, as there is no other copy.
  void peer_lost();
  [[nodiscard]] bool idle() const { return active_ == 0; }
  // Those that wait for the witness or the peer go on, if they need not any more; or fail.
  void release_held();
  void fail_held();
  [[nodiscard]] bool any_held() const { return !held_.empty(); }
  [[nodiscard]] bool all_held() const;

 private:
  struct Op;
  struct Part;
  void start(Op& op);
  [[nodiscard]] bool failed_beside_the_loop(const ClientRequest& client) const;
  [[nodiscard]] bool peer_has(uint64_t offset_bytes, uint64_t length_bytes) const;
  [[nodiscard]] bool peer_is_waited_for() const;
  void read_part(Op& op);
  void read_here(Op& op);
  void hold(Op& op);
  [[nodiscard]] bool take_apart(Op& op);
  [[nodiscard]] std::vector<ByteRange> by_who_has_them(const ByteRange& range) const;
  void disk_answered(Op& op);
  void part_ended(Op& op);
  void read_from_peer(Op& op);
  [[nodiscard]] ContentCache* cache_for(const ClientRequest& client);
  void look(ContentCache& cache, Op& op);
  void ask(Op& op, uint64_t at_bytes, uint64_t length_bytes);
  void ask_for_what_is_missing(Op& op);
  void arrived(Op& op);
  void hand_on(ContentCache& cache, Op& op);
  void wait_until(uint64_t moment_ns);
  void at_patience();
  void go_on(Op& op);
  void end_if_whole(Op& op);
  void finish(Op& op, int error);

  Core& core_;
  DiskHealth& disks_;
  size_t active_ = 0;
  std::vector<Op*> held_;
  // Of contents that the peer was asked for: what else is waiting for one, a block of another read, until when.
  using Waiting = std::vector<std::pair<Op*, size_t>>;
  struct Coming {
    uint64_t until_ns;
    Waiting waiting;
  };
  std::map<ContentTag, Coming> coming_;
  std::unique_ptr<Timer> patience_;  // armed while anybody waits, …
  uint64_t patience_until_ns_ = 0;   // … for then
  Pool<Op> ops_;
};

}  // namespace twinblock
