// What an operator orders of a volume that runs: to go on alone, the pace of a resync, a
// verification. Roles, links, compression and split brains have orders of their own. Owned by the
// engine; loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "volume/core.h"
#include "volume/flush_group.h"
#include "volume/resync_source.h"
#include "volume/roles.h"
#include "volume/verifier.h"
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
    const Roles& roles;
    WritePath& writes;
    FlushGroup& flushes;
    ResyncSource& resync;
    Verifier& verifier;
    RolesOwner& owner;
  };

  explicit OperatorOrders(const Parts& parts) : parts_(parts) {}

  // on_peer_loss = freeze: writes that wait for the peer go on without it.
  void go_on_alone(const Reply& reply);
  void set_resync_pace(ResyncPace pace, uint64_t bytes_per_s, const Reply& reply);
  void verify(VerifyOrder order, const Reply& reply);

 private:
  [[nodiscard]] std::string apply(ResyncPace pace, uint64_t bytes_per_s);

  const Parts parts_;
};

}  // namespace twinblock
