#include "words/peer_words.h"

namespace twinblock {

std::string bring_back(const std::string& peer, bool answers) {
  if (answers)
    return "the address of " + peer +
           " answers, but no session comes about: see `twinblock status` and the log of "
           "twinblockd there";
  return "start twinblockd on " + peer + " or mend the link";
}

std::string capitalised(std::string words) {
  if (!words.empty() && words.front() >= 'a' && words.front() <= 'z')
    words.front() = static_cast<char>(words.front() - 'a' + 'A');
  return words;
}

std::string may_hold_more_words(const std::string& peer, bool was_primary) {
  return "this node's host was started anew since it was " + (was_primary ? "primary" : "in duplex with " + peer) +
         ": what was acknowledged and not flushed may be at " + peer + " only";
}

std::string promote_by_word(const std::string& volume, bool without_witness) {
  return "twinblock promote " + volume + " --peer-is-dead" + (without_witness ? " --without-witness" : "");
}

std::string vain_words(const std::string& volume) {
  return "what waits can't be done any more: end what uses it (an attached device: twinblock detach " + volume +
         " --force --in-use)";
}

std::string take_over_words(const std::string& volume, const std::string& peer, bool answers) {
  return bring_back(peer, answers) + ", or run `twinblock promote " + volume + "` there: " + peer +
         " has all that was acknowledged, and this node's clients are cut off then";
}

}  // namespace twinblock
