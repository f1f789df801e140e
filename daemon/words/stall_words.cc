#include "words/stall_words.h"

#include "base/units.h"

namespace twinblock {

std::string stalled_words(uint64_t stalled_ns) {
  return "its disk has stood still for " + format_duration(stalled_ns);
}

std::string end_stalled_primary(const std::string& node) {
  return "power " + node + " off or kill twinblockd there (a demotion waits for the disk, too)";
}

}  // namespace twinblock
