#include "words/wait_words.h"

#include "words/verdict_words.h"

namespace twinblock {

std::string wait_for_both_words(const std::string& volume, bool primary) {
  return "wait for it: twinblock wait " + volume + " --for " + (primary ? "duplex" : "whole");
}

std::string refusal_lasts_words(const std::string& refusal, const std::optional<Verdict>& verdict, const std::string& volume,
                                const std::string& peer) {
  // A peer that refuses without one says itself whether that passes: a volume that is just growing is no split brain.
  const bool lasts = verdict && !is_usable(*verdict);
  // What to do with a disk that fails depends on what it alone holds, as `status` says.
  const bool known = lasts && *verdict != Verdict::kDiskFailed && *verdict != Verdict::kPeerDiskFailed;
  const std::string advice = known ? advise(*verdict, volume, peer) : "";
  return (lasts ? "waiting does not help: " : "") + refusal + "; " +
         (advice.empty() ? "see twinblock status " + volume : advice);
}

}  // namespace twinblock
