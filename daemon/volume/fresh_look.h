// What was found in a blank node's backing is of the moment when its process began. Before it is overwritten without
// an order, it is looked at again: somebody may have put data there since. Owned by ResyncTarget; loop thread only.
#pragma once

#include <cstdint>

#include "base/data_search.h"
#include "volume/core.h"

namespace twinblock {

class FreshLook {
 public:
  explicit FreshLook(Core& core) : core_(core) {}

  // Whether the backing may be overwritten now, as far as this goes. False: it is being looked at, and the source is
  // to ask again. Where there are data, the session ends, and the node waits for the order to join; where not all could
  // be read, the session ends, and the next one, a while later, looks again.
  [[nodiscard]] bool ended();
  void session_lost() { empty_ = false; }

 private:
  void looked();
  void not_seen();

  Core& core_;
  bool looking_ = false;
  uint64_t asked_in_ = 0;                  // the session for which it is looked
  bool empty_ = false;                     // … by what was looked for in this one
  DataFound found_ = DataFound::kUnknown;  // by the last look; written by a worker while `looking_`
};

}  // namespace twinblock
