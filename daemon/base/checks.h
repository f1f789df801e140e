// Checks that stay on in release builds: a failed one is a bug in twinblock, never an operating
// failure, and ends the process with the place and the reason. Any thread.
#pragma once

namespace twinblock {

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const char* why) noexcept;

}  // namespace twinblock

#define TB_CHECK(condition, why)                                      \
  do {                                                                \
    if (!(condition)) [[unlikely]]                                    \
      ::twinblock::check_failed(__FILE__, __LINE__, #condition, why); \
  } while (0)
