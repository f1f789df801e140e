#include "twinblock/text_format.h"

#include <cstdarg>
#include <cstdio>

namespace twinblock {

std::string printed(const char* format, ...) {
  char text[256];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return text;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts)
    if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
  return text;
}

std::string clock_time(uint64_t seconds) {
  const auto h = static_cast<unsigned long long>(seconds / 3600);
  const auto m = static_cast<unsigned long long>(seconds / 60 % 60);
  const auto s = static_cast<unsigned long long>(seconds % 60);
  return h > 0 ? printed("%llu:%02llu:%02llu", h, m, s) : printed("%llu:%02llu", m, s);
}

}  // namespace twinblock
