// Resyncs whose source dies in the middle, again and again, and targets that go back to what they were: copies
// fail and hang, nodes are killed, cut off and out of power, also while a copy is brought back; the source is
// back early, late, or while the order is carried out; who was rolled back serves, or not, and an operator says
// at the end whose writes count.
//
// What must hold: after the order has succeeded, the target holds in every byte what it held before the resync.
// It is not promoted without the operator's word, and the two never come together before an operator has
// resolved what has become of it. Then, and after any resync that was not rolled back, both hold the same, which
// is what the one that counts had promised. Nothing waits for a copy for longer than its deadline.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "node_pair.h"

namespace twinblock::sim {

class RolledBack final : public NodePair {
 public:
  explicit RolledBack(uint64_t seed);
  ~RolledBack();
  void run();

 private:
  // What may be read: what was promised to be stable, or any of the writes since.
  struct Block {
    uint64_t promised = 0;  // the number of the write; 0: zeroes
    std::set<uint64_t> may_be;
    bool under_way = false;
  };
  using Image = std::vector<std::byte>;

  [[nodiscard]] bool serves(int host) { return lives(host) && node(host).engine().is_primary(); }
  [[nodiscard]] StatusView status(int host) { return node(host).engine().status(); }

  void client_turn();
  void answered(uint64_t id);
  void leave_export(bool dies);
  void run_for(uint64_t ns);
  void look_whether_anybody_waits();
  bool wait_for(const std::function<bool()>& what, uint64_t ns);

  void round();
  void part();
  void meet();
  void lose_source();
  [[nodiscard]] bool roll_back();
  void go_on();
  void resolve();
  void come_together();
  void stop(int host, bool power);
  bool promote(int host, bool peer_is_dead);
  bool demote(int host);

  [[nodiscard]] bool half_copied(int host);
  [[nodiscard]] Image contents(int host);
  void check_rolled_back();
  void check_equal();

  std::vector<Block> blocks_;                // what the one that clients write to has promised, …
  std::optional<std::vector<Block>> other_;  // … and what the source had, that a rollback went away from
  std::map<uint64_t, std::unique_ptr<NumberedWrite>> requests_;
  int source_ = 0, target_ = 1;  // of this round
  int primary_ = 0;              // whose export clients have, or want to have
  bool open_ = false;
  bool rests_ = false;  // nothing new is asked
  Image before_;        // the target's, before it was half-copied
  std::array<uint64_t, 2> taking_since_ns_{};  // 0: no resync waits for a copy there
  uint64_t ids_ = 0, writes_ = 0, turns_ = 0;
  double fails_ = 0;
};

}  // namespace twinblock::sim
