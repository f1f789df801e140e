// Two nodes that are far apart: on every link each segment is under way for a quarter of a second or more, so that
// a handshake, of several round trips, takes seconds.
//
// What must hold: they come together over any number of links, at first and after one's process died, and all links
// join; a connection that was reset is replaced while the session lasts; and a link that does not answer at all holds
// up none that does.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "node_pair.h"

namespace twinblock::sim {

class FarApart final : public NodePair {
 public:
  explicit FarApart(uint64_t seed);
  ~FarApart();
  void run();

 private:
  void wait(uint64_t at_most_ns, const std::function<bool()>& what, const std::string& name);
  void set_silent(const std::string& link, bool silent);
  [[nodiscard]] bool all_up();
  void a_link_is_reset();
  void a_process_dies();
  void the_first_link_does_not_answer();
};

}  // namespace twinblock::sim
