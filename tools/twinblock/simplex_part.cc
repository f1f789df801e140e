#include "twinblock/simplex_part.h"

#include <algorithm>
#include <array>

#include "twinblock/json_fields.h"
#include "twinblock/text_format.h"

namespace twinblock {

using nlohmann::json;

SimplexPart simplex_part_of(const json& latency) {
  double writes = 0, bytes = 0, ns = 0;
  for (const json& each : array_at(latency, "classes")) {
    writes += number_at(each, "writes");
    bytes += number_at(each, "bytes");
    ns += number_at(object_at(each, "total"), "sum_ns");
  }
  const json load = object_at(latency, "load");
  const auto part = [&load](const char* key, double all, const char* what) {
    const double share = all > 0 ? std::min(1.0, number_at(load, key) / all) : 0;
    return SimplexPart{share, printed("%.0f%% of the ", share * 100) + what + " in simplex, without the peer"};
  };
  const std::array<SimplexPart, 3> parts{part("simplex_writes", writes, "writes of this window were made"),
                                         part("simplex_bytes", bytes, "bytes of this window were written"),
                                         part("simplex_ns", ns, "time of this window's writes was spent")};
  return *std::max_element(parts.begin(), parts.end(),
                           [](const SimplexPart& a, const SimplexPart& b) { return a.share < b.share; });
}

std::string without_simplex(const json& latency, const std::string& verb) {
  const std::string window = text_at(latency, "window");
  const std::string command = "twinblock " + verb + " " + text_at(latency, "volume") + " --window ";
  if (window == "10s") return "look again when the peer has taken part for longer than these 10 s";
  if (window == "60s")
    return "look again when the peer has taken part for longer than these 60 s, or at a shorter time: " + command +
           "10s";
  return "look at a shorter time: " + command + "60s";
}

}  // namespace twinblock
