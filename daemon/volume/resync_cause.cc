#include "volume/resync_cause.h"

namespace twinblock {
namespace {

ResyncCause::Why why_resync(const SyncFacts& source, const SyncFacts& target) {
  using Why = ResyncCause::Why;
  if (target.blank) return Why::kTargetIsNew;
  if (target.backing_lost) return Why::kTargetFoundEmpty;
  if (target.discard || source.keep) return Why::kSplitBrainResolved;
  if (target.flush_failed) return Why::kTargetFlushFailed;
  if (target.other_backing) return Why::kTargetHasOtherBacking;
  if (missed_a_session(target, source)) return Why::kTargetWasPutBack;
  if (target.inconsistent) return Why::kTargetIsUnfinished;
  if (target.crashed) return Why::kTargetCrashed;
  return source.crashed ? Why::kSourceCrashed : Why::kTargetWasAway;
}

}  // namespace

ResyncCause cause_of(Verdict verdict, const SyncFacts& mine, const SyncFacts& peer) {
  ResyncCause cause;
  cause.to_peer = is_source(verdict);
  const SyncFacts& source = cause.to_peer ? mine : peer;
  const SyncFacts& target = cause.to_peer ? peer : mine;
  cause.why = why_resync(source, target);
  cause.everything = verdict == Verdict::kSourceOfAll || verdict == Verdict::kTargetOfAll;
  // Where there is nothing, or nobody knows what is read there, a comparison tells nothing.
  const bool nothing_there = cause.everything && (target.blank || target.backing_lost);
  cause.compared = !nothing_there && !target.flush_failed;
  cause.source_bytes = source.dirty_bytes;
  cause.target_bytes = target.dirty_bytes;
  return cause;
}

}  // namespace twinblock
