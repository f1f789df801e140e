#include "control/resync_words.h"

#include "base/units.h"

namespace twinblock {
namespace {

std::string reason_of(ResyncCause::Why why, const std::string& target) {
  switch (why) {
    case ResyncCause::Why::kTargetIsNew:
      return target + " is new";
    case ResyncCause::Why::kTargetFoundEmpty:
      return "no data were found in " + target + "'s backing, although it held some";
    case ResyncCause::Why::kSplitBrainResolved:
      return "a split brain was resolved against " + target;
    case ResyncCause::Why::kTargetFlushFailed:
      return "a flush failed on " + target + ", which can't tell what its disk holds";
    case ResyncCause::Why::kTargetHasOtherBacking:
      return target + "'s backing is another one than its record is about (another disk, or a copy), and may lack anything";
    case ResyncCause::Why::kTargetWasPutBack:
      return target + "'s record knows nothing of the last session: its disks are as they were before (put back from a copy "
                      "or a snapshot?)";
    case ResyncCause::Why::kTargetIsUnfinished:
      return target + " holds an unfinished copy";
    case ResyncCause::Why::kTargetCrashed:
      return target + " stopped as primary without demotion";
    case ResyncCause::Why::kSourceCrashed:
      return "the node that was primary last stopped without demotion";
    case ResyncCause::Why::kTargetWasAway:
      break;
  }
  return target + " was away while the volume was written";
}

}  // namespace

std::string resync_words(const ResyncCause& cause, const std::string& node,
                         const std::string& peer) {
  const std::string& target = cause.to_peer ? peer : node;
  const std::string reason = reason_of(cause.why, target) + ". ";
  if (cause.everything)
    return reason + (cause.compared
                         ? "No record of what differs reaches back far enough: the whole volume is "
                           "compared, and blocks that differ are copied."
                         : "The whole volume is copied.");
  return reason + format_size(cause.source_bytes) +
         " is on the source's record of what may differ, " + format_size(cause.target_bytes) +
         " on " + target +
         (cause.compared
              ? "'s; regions known only coarsely are compared before they are copied."
              : "'s; all of that is copied, since a comparison would tell nothing.");
}

std::string unreadable_words(const StatusView::Resync& resync) {
  std::string words;
  uint64_t told_bytes = 0;
  for (const auto& [offset, length] : resync.unreadable) {
    words += (words.empty() ? "" : ", ") + format_size(length) + " at offset " + std::to_string(offset);
    told_bytes += length;
  }
  return words + (told_bytes < resync.unreadable_bytes ? ", and others" : "");
}

}  // namespace twinblock
