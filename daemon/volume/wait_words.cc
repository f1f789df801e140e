#include "volume/wait_words.h"

#include "words/verdict_words.h"

namespace twinblock {

std::string advise_wait_for_both(const Core& core, bool primary) {
  const std::string& volume = core.config.volume;
  const Handshake& handshake = core.session.handshake();
  if (!core.session.up() && !handshake.refusal().empty()) {
    const auto& verdict = handshake.last_verdict();
    // A peer that refuses without one says itself whether that passes: a volume that is just growing is no split brain.
    const bool lasts = verdict && !is_usable(*verdict);
    // What to do with a disk that fails depends on what it alone holds, as `status` says.
    const bool known = lasts && *verdict != Verdict::kDiskFailed && *verdict != Verdict::kPeerDiskFailed;
    const std::string advice = known ? advise(*verdict, volume, core.peer) : "";
    return (lasts ? "waiting does not help: " : "") + handshake.refusal() + "; " +
           (advice.empty() ? "see twinblock status " + volume : advice);
  }
  return "wait for it: twinblock wait " + volume + " --for " + (primary ? "duplex" : "whole");
}

}  // namespace twinblock
