#include "config/cache_table.h"

#include <optional>
#include <string>

#include "base/limits.h"
#include "base/units.h"

namespace twinblock {

uint64_t read_cache_bytes(const ConfigTable& top) {
  const std::optional<ConfigTable> table = top.child("cache");
  if (!table) return 0;
  table->allow_only({"size"});
  const std::optional<std::string> text = table->text("size", "size = \"2GiB\"", true);
  if (!text) return 0;
  const std::optional<uint64_t> size = parse_size_bytes(*text);
  if (!size) {
    table->fail("size", "size '" + *text + "' is not a size", "write it like \"2GiB\"");
    return 0;
  }
  if (*size < limits::kCacheBytesMin || *size > limits::kCacheBytesMax) {
    table->fail("size", "a cache of '" + *text + "' is out of range",
                "choose from " + format_size(limits::kCacheBytesMin) + " to " +
                    format_size(limits::kCacheBytesMax) + ", or remove [cache]");
    return 0;
  }
  return *size;
}

}  // namespace twinblock
