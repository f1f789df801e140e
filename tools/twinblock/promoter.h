// `twinblock promoter`: promotes a node when nobody else serves the volume, and starts and stops what
// uses it there, until it is told to stop. Whether two nodes may be primary is not its affair: it asks
// its own node, which asks the peer or the witness.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "twinblock/options.h"
#include "twinblock/promoter_decision.h"
#include "twinblock/target_runner.h"

namespace twinblock {

// How often the node is asked although no event of its has come.
constexpr uint64_t kPromoterLook_ns = 2 * kSecond_ns;

// An order that the node has not answered by then goes on; the promoter looks how things are meanwhile, and
// hears that it is to end.
constexpr uint64_t kPromoterOrder_ns = 120 * kSecond_ns;

struct PromoterSetup {
  std::string socket;  // of the node
  PromoterRules rules;
  TargetCommands target;
  uint64_t look_ns = kPromoterLook_ns;
  uint64_t order_ns = kPromoterOrder_ns;
};

// Blocks until SIGTERM or SIGINT, on which the target is stopped and the node demoted. Errors: kExitUsage
// where no witness is configured, or the setup does not suit the volume; kExitRefused when the node
// stays primary at the end. `say` gets a sentence for each thing that happens; a service manager is
// told as well.
Result<Output> run_promoter_loop(const PromoterSetup& setup,
                                 const std::function<void(const std::string&)>& say);

}  // namespace twinblock
