// A primary's disk fails, and its peer's replica is the only good one from then on. Its metadata disk is well, slow,
// hangs, has failed with it or does so soon, or hangs with the record for which one write waits, and with nothing else;
// a witness is there, away, or not asked at all. Then the primary is gone, and its peer, too, or the way to it; and the
// primary is back alone, with a disk that can be read again, and somebody promotes it without a word about its peer.
//
// What must hold: the clients wait for no metadata disk for longer than disk_timeout, and get no error. A primary that
// is back alone serves nobody when it lacks anything that was acknowledged. (Where neither its own record could say so
// nor a witness was asked, or could be, only its peer knows.) When both are back, all that was acknowledged is there.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "node_pair.h"
#include "virtual_witness.h"

namespace twinblock::sim {

class SoleCopy final : public NodePair {
 public:
  explicit SoleCopy(uint64_t seed);
  ~SoleCopy();
  void run();

 private:
  enum class Metadata { kWell, kSlow, kHangs, kFailed, kFailsSoon };
  struct Write : NumberedWrite {
    uint64_t began_ns = 0;
    bool answered = false;
  };

  void run_for(uint64_t ns) { scheduler_.run_until(scheduler_.now_ns() + ns); }
  [[nodiscard]] bool witnessed() const { return config_.witness.kind != WitnessKind::kNone; }
  void come_to_duplex();
  void leave_an_intent_waiting();
  void write(size_t block);
  void write_for(uint64_t ns);
  void check_waits();
  void lose_disk();
  void end_both();
  void back_alone();
  void both_are_back();
  // Of a block whose acknowledged contents a node lacks.
  [[nodiscard]] std::optional<size_t> lacks(int host);
  [[nodiscard]] bool only_the_peer_knows();

  VirtualRegister register_;
  const Metadata metadata_;
  const bool witness_is_away_;
  const bool intent_hangs_;  // beside whatever becomes of the node's own record
  std::vector<std::unique_ptr<Write>> writes_;
  std::vector<uint64_t> acknowledged_;  // by block
  std::vector<uint64_t> asked_;         // the last write of each
};

}  // namespace twinblock::sim
