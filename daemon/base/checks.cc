#include "base/checks.h"

#include <cstdio>
#include <cstdlib>

namespace twinblock {

void check_failed(const char* file, int line, const char* condition, const char* why) noexcept {
  std::fprintf(stderr, "twinblock: bug: %s:%d: %s (%s)\n", file, line, why, condition);
  std::abort();
}

}  // namespace twinblock
