// Three pairs of disks a host, of one lineage, and an operator without any rule: disks are taken
// out and put back with their metadata, nodes are killed, started, promoted (also on a false word
// that the peer is dead), demoted, resolved, joined anew and verified, at any moment, in any order.
// Nothing that a client was told to be on stable storage may be missing on both when the two say
// that they are the same, unless that loss was named before: by an order in a split brain, or by
// joining.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "node_pair.h"

namespace twinblock::sim {

class Lineage final : public NodePair {
 public:
  explicit Lineage(uint64_t seed);
  ~Lineage();
  void run();

 private:
  // The number of the last write of each block that was flushed while this disk was the one, or one
  // of the two, that took it; 0: none.
  using Blocks = std::vector<uint64_t>;
  struct Client : NumberedWrite {
    bool answered = false;
  };

  Blocks& held(int host);
  void run_for(uint64_t ns);
  void step();
  void stop(int host);
  void swap(int host);
  void promote(int host);
  void demote(int host);
  void resolve(int host);
  void join(int host);
  void verify(int host);
  void write(int host);
  [[nodiscard]] int ask(int host, ClientOp op, uint64_t block, uint64_t number);
  [[nodiscard]] bool says(int host, const char* words);
  [[nodiscard]] bool at_one();
  void check();

  std::map<const VirtualDisk*, Blocks> held_;
  std::set<uint64_t> given_up_;  // writes whose loss was named
  std::array<bool, 2> open_{};   // a client has the export open
  std::vector<std::unique_ptr<Client>> clients_;
  uint64_t writes_ = 0;
  bool under_way_ = false;  // a request is not answered yet
};

}  // namespace twinblock::sim
