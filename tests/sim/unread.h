// A secondary that has so much to do that it reads nothing of its peer's, and trouble at that moment. A primary
// without its disk reads all of the volume over a slow link: the answers wait to be sent, and that link goes silent,
// while another one lives, or the primary's host loses power. Or the secondary's disk stands still for a while under
// many writes.
//
// What must hold: the reads end over the other link, and the session lasts. A primary that is dead counts as
// lost within the peer's timeout, and the operator's word promotes the other node. A disk that stands still costs
// neither a link nor the session.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "node_pair.h"

namespace twinblock::sim {

class Unread final : public NodePair {
 public:
  explicit Unread(uint64_t seed);
  ~Unread();
  void run();

 private:
  struct Read {
    ClientRequest client;
    std::vector<std::byte> data;
  };

  void run_for(uint64_t ns) { scheduler_.run_until(scheduler_.now_ns() + ns); }
  void wait(uint64_t ns, const std::function<bool()>& what, const std::string& name);
  [[nodiscard]] StatusView status(int host) { return node(host).engine().status(); }
  [[nodiscard]] bool up(int host, const std::string& link);
  [[nodiscard]] bool apart() { return !node(1).engine().inside().session_stands(); }

  void lose_disk();
  void read_all();
  void answers_pile_up();
  void a_link_dies();
  void the_primary_dies();
  void the_disk_stands_still();
  void check_session(const std::string& when);

  std::vector<std::unique_ptr<Read>> reads_;
  std::vector<std::unique_ptr<NumberedWrite>> writes_;
  size_t outstanding_ = 0;
  uint64_t losses_ = 0;  // of the peer, that the primary has counted before
};

}  // namespace twinblock::sim
