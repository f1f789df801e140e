// What the simulator's small worlds are made of: alpha and beta on one link, which begin as a new volume, and writes
// of one block each that is filled with the number of the write.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/config.h"
#include "random.h"
#include "scheduler.h"
#include "sim_node.h"
#include "virtual_network.h"

namespace twinblock::sim {

// One block's write, and all that the request refers to.
struct NumberedWrite {
  ClientRequest client;
  WirePiece piece;
  std::vector<std::byte> data;
  size_t block = 0;
  uint64_t number = 0;

  // All of the request but for `fua` and `done`.
  void fill(size_t its_block, uint64_t its_number, uint64_t now_ns);
};
// Of the write that a block is of; 0: of none.
uint64_t number_in(std::span<const std::byte> bytes, size_t block);

class NodePair {
 public:
  [[nodiscard]] const Scheduler& scheduler() const { return scheduler_; }

 protected:
  // `make_config` may draw from the world's chances.
  NodePair(uint64_t seed, Config (*make_config)(Random&));
  ~NodePair() = default;

  // By the derived world, when all that it draws before is drawn; `made`: told of each before the next one is.
  void make_nodes(const std::function<void(SimNode&)>& made = {});
  // … and first of all when it ends: the nodes may still have requests, which are the world's.
  void end_nodes();

  SimNode& node(int host) { return *nodes_[static_cast<size_t>(host)]; }
  [[nodiscard]] bool lives(int host) { return node(host).running(); }
  void start(int host);
  // Both are started, and alpha is told to begin a volume.
  void begin();
  // What each says, where both are there, in one session, and say that they are the same. (One that was left does not know
  // that yet.)
  [[nodiscard]] std::optional<std::pair<StatusView, StatusView>> both_at_one();
  [[nodiscard]] bool at_one() { return both_at_one().has_value(); }
  // Whether that comes true in the time; it is looked at that often.
  [[nodiscard]] bool comes_true(uint64_t at_most_ns, const std::function<bool()>& what,
                                uint64_t look_ns = kMillisecond_ns);
  [[nodiscard]] std::string describe() { return node(0).describe() + node(1).describe(); }

  Scheduler scheduler_;
  Random random_;
  Config config_;
  VirtualNetwork network_;
  std::array<std::unique_ptr<SimNode>, 2> nodes_;
};

}  // namespace twinblock::sim
