// Reads that can't bypass the loop: those that met a write in flight wait for its range; those
// whose local disk failed are answered by the peer; those for which nobody can tell whether the peer
// was promoted, and writes, wait for the witness. Owned by the engine; loop thread only.
#pragma once

#include <vector>

#include "base/pool.h"
#include "volume/client_request.h"
#include "volume/core.h"
#include "volume/disk_health.h"

namespace twinblock {

class SlowReads {
 public:
  SlowReads(Core& core, DiskHealth& disks);
  ~SlowReads();

  void submit(ClientRequest& request);
  // The session is gone: what it was to answer fails, as there is no other copy.
  void peer_lost();
  [[nodiscard]] bool idle() const { return active_ == 0; }
  // Those that wait for the witness go on, if they need not any more; or fail.
  void release_held();
  void fail_held();
  [[nodiscard]] bool any_held() const { return !held_.empty(); }
  [[nodiscard]] bool all_held() const;

 private:
  struct Op;
  void start(Op& op);
  void read_from_peer(Op& op);
  [[nodiscard]] bool cached(const ClientRequest& client);
  void keep(const ClientRequest& client);
  static bool whole_blocks(const ClientRequest& client);
  void finish(Op& op, int error);

  Core& core_;
  DiskHealth& disks_;
  size_t active_ = 0;
  std::vector<Op*> held_;
  Pool<Op> ops_;
};

}  // namespace twinblock
