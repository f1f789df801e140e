// Snapshots of both nodes' backings, ordered again and again while clients write to all of the volume: copies
// fail and hang, nodes are killed and lose power, links are silent, at any moment of one; orders come on the
// right node and on the wrong one, and two at once.
//
// What must hold: of a snapshot that an order was told to be there, both hosts have a copy, the same in every
// byte, with all that was acknowledged before the order, and with whatever was acknowledged before anything in
// it began: what a power cut at one moment would have left. No write waits for longer than a snapshot may hold
// it, nor without a peer to be equal with. Where an order has failed and no process has ended meanwhile, neither
// host has anything left of it. At the end both are in duplex.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "node_pair.h"

namespace twinblock::sim {

class Snapshotted final : public NodePair {
 public:
  explicit Snapshotted(uint64_t seed);
  ~Snapshotted();
  void run();

 private:
  struct Write {
    size_t block = 0;
    uint64_t began_ns = 0;
    uint64_t acknowledged_ns = 0;  // 0: not
  };

  void run_for(uint64_t ns);
  void client_turn();
  void answered(uint64_t number);
  void cut_off();
  void step();
  void order(int host);
  void ordered(int host, const std::string& name, uint64_t order_ns, const Result<Snapshots::Taken>& taken);
  void check_copy(const std::string& name, uint64_t order_ns);
  void stop(int host);
  void exchange_roles();
  void mend();
  void check();

  std::vector<Write> writes_;  // by number; the first is none
  std::vector<bool> busy_;     // blocks that are being written
  std::map<uint64_t, std::unique_ptr<NumberedWrite>> requests_;
  std::vector<std::string> failed_;  // names of orders that were refused, or failed
  std::array<uint64_t, 2> held_since_ns_{};  // when a node was first seen to hold writes; 0: it does not
  int primary_ = 0;
  bool open_ = false;
  bool rests_ = false;
  const bool powered_;   // no host loses its power, and nothing that was acknowledged and not flushed
  uint64_t ends_ = 0;    // of processes
  uint64_t names_ = 0;
  uint64_t taken_ = 0;
};

}  // namespace twinblock::sim
