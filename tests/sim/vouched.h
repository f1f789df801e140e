// An operator vouches in the place of a witness that is away: a primary has lost its peer, whose process was ended, and
// goes on by the word. It is killed and begins anew, once or several times, before or after the witness can be asked again;
// the peer is with it for a moment, or is not; and it may have a word again, or wait. When the witness has been there for a
// while, the peer's process begins, with every way to this node cut, and asks to be promoted, as twinblock-promoter does.
// The operator never says anything that is not so: while the word counts, the peer is down.
//
// What must hold: what was acknowledged by the word is not left behind by a peer that the witness lets go on; the node that
// has it goes on by itself when the witness can be asked; and when all is mended the two come together by themselves, with it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "node_pair.h"
#include "virtual_witness.h"

namespace twinblock::sim {

class Vouched final : public NodePair {
 public:
  explicit Vouched(uint64_t seed);
  ~Vouched();
  void run();

 private:
  void run_for(uint64_t ns) { scheduler_.run_until(scheduler_.now_ns() + ns); }
  [[nodiscard]] bool is_primary(int host) { return lives(host) && node(host).engine().is_primary(); }
  // A write of the next number into the next block; `acknowledged_` when it is.
  void write(int host);
  void promoter_turn(int host);
  void begin_together();
  void lose_the_peer();
  void give_the_word();
  void end_and_begin();
  void see_the_peer();
  void come_apart();

  VirtualRegister register_;
  std::vector<std::unique_ptr<NumberedWrite>> writes_;
  std::array<uint64_t, 2> acknowledged_{};  // by host
};

}  // namespace twinblock::sim
