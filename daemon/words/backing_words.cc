#include "words/backing_words.h"

#include "base/limits.h"
#include "base/units.h"

namespace twinblock {

std::string unseen_words(const std::string& path) {
  return "no data were found in " + path + " within " + format_duration(limits::kSearch_ns) +
         ", but not all of it was read";
}

std::string lost_words(DataFound found, const std::string& path) {
  const bool proven = found == DataFound::kNone;
  return path + " holds nothing but zeroes" +
         (proven ? "" : ", as far as it was read in " + format_duration(limits::kSearch_ns) + ",") +
         " although it held data";
}

std::string other_words(const std::string& path) {
  return path + " is another file or disk than the one that this node's record is about: what it lacks is not known";
}

Error why_other_is_not_promoted(const std::string& path, const std::string& peer) {
  return Error{other_words(path),
               "is it the right one, or a copy that holds all that was written last? If not, attach that, and restart twinblockd; or start "
               "twinblockd on " + peer + ", or mend the link: it is then compared in full with " + peer +
                   "'s. Only if it is, use --peer-is-dead",
               0, Retry::kWhenMended};
}

Error why_lost_is_not_promoted(DataFound found, const std::string& path, const std::string& peer) {
  return Error{lost_words(found, path),
               "is the right disk attached, its file system mounted? If the disk was replaced, wait for " + peer +
                   "; only if it is the right one, and nothing was ever written, or clients have trimmed all of it, use --peer-is-dead",
               0, Retry::kWhenMended};
}

Error why_nothing_is_not_promoted(DataFound found, const std::string& path, const std::string& peer) {
  return Error{lost_words(found, path) + ", and none were found in " + peer + "'s backing either",
               "are the right disks attached on both hosts, their file systems mounted? If not, see to that, and restart "
               "twinblockd on both; only if they are the right ones, use --peer-is-dead",
               0, Retry::kWhenMended};
}

Error cut_off(Error too_small, const std::string& metadata, const std::string& volume, const std::string& peer) {
  too_small.what += ": the volume has that size on record, and data may be missing";
  too_small.action = "restore all of it, if you can; else move the metadata (" + metadata +
                     ") away, enlarge the backing, start this node, and run `twinblock init " + volume +
                     " --join` here: all is then copied from " + peer + ", without what that one misses";
  return too_small;
}

}  // namespace twinblock
