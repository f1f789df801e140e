// A volume that is made larger again and again, while clients write to all that there is of it: nodes are
// killed and lose power, links are silent, at any moment of a growth; backings are enlarged in time, late,
// or on one host only, by zeroes or by what was there before (a device); orders come on the right node and
// on the wrong one; a disk for data or metadata takes no writes, until the process ends.
//
// What must hold: whenever the two say that they are the same, both have one size, and the same in every
// block, which is what a client was last told to be stable there, or zero where nobody ever wrote. The
// volume is never smaller than what an operator or a client was told. When all is mended, the two are in
// duplex, without anybody's help.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "node_pair.h"

namespace twinblock::sim {

class Grown final : public NodePair {
 public:
  explicit Grown(uint64_t seed);
  ~Grown();
  void run();

 private:
  struct Block {
    uint64_t promised = 0;         // the number of the write; 0: zeroes
    std::set<uint64_t> may_be;     // later ones that were not answered, or not well
    bool under_way = false;
  };

  void client_turn();
  void answered(uint64_t id);
  void cut_off();
  void step();
  void grow();
  void order(int host, uint64_t bytes);
  void enlarge(int host, uint64_t bytes);
  void stop(int host);
  void fail_a_disk();
  void lose_the_stand_in();
  void larger_one_dies(uint64_t bytes);
  void mend_disks();
  void serve_again();
  void exchange_roles();
  void run_for(uint64_t ns);
  void told(uint64_t bytes);
  [[nodiscard]] bool at_one();
  void check();

  std::vector<Block> blocks_;
  std::map<uint64_t, std::unique_ptr<NumberedWrite>> requests_;  // each on stable storage before it is answered
  int primary_ = 0;      // who is, or was last
  int failed_ = -1;      // whose disk takes no writes; -1: nobody's
  bool open_ = false;    // a client has that one's export open
  bool rests_ = false;   // nothing new is asked
  uint64_t life_ = 1;
  uint64_t turns_ = 0;
  uint64_t ids_ = 0;
  uint64_t writes_ = 0;
  uint64_t acknowledged_ = 0;
  uint64_t told_bytes_ = 0;  // somebody was told that the volume has so much
  uint64_t grown_ = 0;       // how often an operator was
};

}  // namespace twinblock::sim
