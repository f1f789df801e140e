// Two hosts, a network, a client, faults, and an operator who follows the rules: promotes only a
// node that holds all that was promised, and says "the peer is dead" only when it is.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>

#include "config/config.h"
#include "history.h"
#include "options.h"
#include "random.h"
#include "scheduler.h"
#include "sim_node.h"
#include "virtual_network.h"
#include "workload.h"

namespace twinblock::sim {

class World {
 public:
  World(uint64_t seed, const Options& options);
  ~World();
  // One whole run: set-up, faults, healing, and the questions at the end.
  void run();
  [[nodiscard]] const Scheduler& scheduler() const { return scheduler_; }
  [[nodiscard]] const Workload& workload() const { return workload_; }

 private:
  enum class Procedure { kNone, kDemote, kShutDown };

  SimNode& node(int host) { return *nodes_[static_cast<size_t>(host)]; }
  [[nodiscard]] std::string describe();
  void wait(uint64_t at_most_ns, const std::function<bool()>& until, const char* for_what);

  // operator
  void operator_turn();
  void promote(int host);
  void promoted(int host);
  void begin_procedure(Procedure procedure);
  void procedure_turn();
  void demoted(int host);
  void look();
  [[nodiscard]] bool both_duplex();
  [[nodiscard]] bool settled();

  // faults
  void fault_turn();
  void inject();
  void kill(int host);
  void power_off(int host);
  void process_gone(int host);
  void restart_later(int host, uint64_t longest_ns);
  void restart(int host);
  void pause(int host);
  void silence();
  void peer_disk_error();
  void local_disk_error();
  void replace_local_disk();
  void tempt();
  void heal();

  // checks
  void check_answer(SimNode& node, const Workload::Request& request);
  void check_on_both(const Workload::Request& request);
  void check_wait(SimNode& node, const Workload::Request& request);
  void check_identical(const char* when);

  Scheduler scheduler_;
  Random random_;
  const Options options_;
  Config config_;
  VirtualNetwork network_;
  History history_;
  std::array<std::unique_ptr<SimNode>, 2> nodes_;
  Workload workload_;

  // What the operator knows.
  int primary_ = -1;
  bool promoting_ = false;
  int busy_host_ = -1;    // it changes its role just now
  uint64_t attempt_ = 0;  // number of that change
  Procedure procedure_ = Procedure::kNone;
  std::array<bool, 2> current_{};           // holds all that was promised
  std::array<bool, 2> intact_{true, true};  // … also what was not flushed
  std::array<bool, 2> knows_primary_{};     // was in duplex with the primary of now
  std::array<bool, 2> restart_due_{};
  int dead_disk_host_ = -1;  // the primary's disk died, and is not replaced yet
  bool faults_on_ = false;
  uint64_t last_trouble_ns_ = 0;
  bool slow_disks_ = false;                  // there were any
  std::array<uint64_t, 2> hung_until_ns_{};  // a disk of that node, with what had queued up
};

}  // namespace twinblock::sim
