// What clients wrote while there was no peer: it was never on a link, takes other times than what goes to both disks,
// and says nothing of links where it is more than a little of what was measured. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace twinblock {

struct SimplexPart {
  double share = 0;    // of the writes of a window, of their bytes or of their time, whichever is the most
  std::string what;    // "91% of the writes of this window were made in simplex, without the peer"
  // With more, the means of the window are not those of what waited for the peer.
  static constexpr double kMost = 0.05;
  [[nodiscard]] bool too_much() const { return share > kMost; }
};
// Of the latency verb's answer.
SimplexPart simplex_part_of(const nlohmann::json& latency);

// How the verb that has asked for this answer comes to one without it: "look at a shorter time: twinblock plan r0 …".
std::string without_simplex(const nlohmann::json& latency, const std::string& verb);

}  // namespace twinblock
