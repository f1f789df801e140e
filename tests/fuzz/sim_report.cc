// What tests/sim reports, told to libFuzzer: a broken invariant is a finding.
#include "input.h"
#include "report.h"

namespace twinblock::sim {

void Report::begin_run(std::string, bool) {}
void Report::set_now(uint64_t) {}
bool Report::verbose() { return false; }
void Report::trace(const std::string&, const std::string&) {}
void Report::violation(const std::string& what) {
  fuzz::require(false, "the simulator's checks", what);
  std::abort();
}
void Report::install_crash_handler() {}

}  // namespace twinblock::sim
