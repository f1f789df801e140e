// One engine on virtual parts (those of tests/sim, with a disk that does not mind what a hostile
// peer sends), from whatever metadata it finds.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "input.h"
#include "memory_disk.h"
#include "scheduler.h"
#include "virtual_clock.h"
#include "virtual_network.h"
#include "virtual_workers.h"
#include "volume/engine.h"

namespace twinblock::fuzz {

// Nodes alpha and beta, and two links between them, main and backup.
Config make_config(uint64_t volume_bytes, const std::string& replication = {});

class FuzzNode {
 public:
  // On host 0. `metadata_file` is what was found; `loaded` is what load() made of it. `witness`: where the
  // configuration names one, which a `fence` command may be, too. `copies`: null where none can be taken. `boot`: of the
  // host; 0: not known. `seed`: of the numbers that nobody is to guess. `cache_is_gone`: of a node whose flush failed.
  // `own_set_bytes_max`: of what is told of a target's own set before the peer has confirmed any. `numbers`: 0: not known.
  FuzzNode(const Config& config, std::string name, std::vector<std::byte> metadata_file, metadata::Loaded loaded,
           DataFound found, Witness* witness = nullptr, Copies* copies = nullptr, uint64_t boot = 0,
           FenceCommand* fence = nullptr, uint64_t seed = 3, bool cache_is_gone = false,
           uint64_t own_set_bytes_max = limits::kControlBytesMax, BackingNumbers numbers = {});
  ~FuzzNode();
  FuzzNode(const FuzzNode&) = delete;
  FuzzNode& operator=(const FuzzNode&) = delete;

  void run(uint64_t ns) { scheduler.run_until(scheduler.now_ns() + ns); }
  // Nothing of it runs for so long: what its disks answer meanwhile waits for it, behind its timers.
  void stand_still(uint64_t ns);
  // Whatever state it is in, it can say so.
  void look() const;

  std::function<void(const std::string& line)> logs;  // each line of the log; may be null
  const Config& config;
  sim::Scheduler scheduler;
  sim::VirtualNetwork network;
  MemoryDisk data;
  MemoryDisk metadata;
  std::unique_ptr<Clock> clock;
  std::unique_ptr<sim::VirtualWorkers> workers;
  std::unique_ptr<Engine> engine;

 private:
  class QuietLog;
  sim::ProcessPtr process_;
  std::unique_ptr<Log> log_;
  std::unique_ptr<Network> port_;
};

// A small node that holds `record`, which is sound, and data.
std::unique_ptr<FuzzNode> plain_node(const Config& config, const metadata::NodeRecord& record, Witness* witness = nullptr,
                                     Copies* copies = nullptr, uint64_t boot = 0,
                                     bool cache_is_gone = false);

// … that has a fence command for a witness.
std::unique_ptr<FuzzNode> fenced_node(const Config& config, const metadata::NodeRecord& record, FenceCommand* fence,
                                      uint64_t boot = 0);

// … that found no data on its disk when it began.
std::unique_ptr<FuzzNode> empty_node(const Config& config, const metadata::NodeRecord& record);

// alpha before its volume has begun.
std::unique_ptr<FuzzNode> blank_node(const Config& config, DataFound found);

}  // namespace twinblock::fuzz
