// One host: two disks that last, and processes that come and go, each with an unmodified Engine.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/config.h"
#include "random.h"
#include "scheduler.h"
#include "virtual_clock.h"
#include "virtual_copies.h"
#include "virtual_disk.h"
#include "virtual_network.h"
#include "virtual_workers.h"
#include "volume/engine.h"

namespace twinblock::sim {

class SimNode {
 public:
  SimNode(Scheduler& scheduler, VirtualNetwork& network, const Config& config, int host,
          uint32_t region_bytes, Random random);
  ~SimNode();

  // What a process has beside its disks and the network; to be set before the first one starts. Each may
  // be missing.
  struct Outside {
    std::function<std::unique_ptr<Witness>(const ProcessPtr&)> witness;
    std::function<std::unique_ptr<FenceCommand>(const ProcessPtr&)> fence;
    std::function<void()> cut_off_clients;
  };
  void set_outside(Outside outside) { outside_ = std::move(outside); }
  // Of its processes from now on: with more in its hands a node stops reading.
  void set_receive_bytes_max(uint64_t bytes) { receive_bytes_max_ = bytes; }

  // Another file, for the next process; it outlives this.
  void set_config(const Config& config) { config_ = &config; }
  void start();
  // kill -9: the page cache stays, the kernel closes connections.
  void kill();
  // The page cache is lost, the network hears nothing.
  void power_off();
  void power_on();
  // Empty disks: what an operator puts in when the old ones have failed.
  void replace_disks();
  void replace_metadata();
  // Takes the disks out, with their metadata, and puts a blank pair in, or one that was taken out
  // earlier. There are three pairs at the most.
  void swap_disks();
  // A copy of those that are in comes onto the shelf, as an operator makes one of a node that does not run: its data
  // disk. Null: there is no room.
  const VirtualDisk* lay_copy_aside();
  void put_in_blank_disks();
  void put_back_disks();  // those that were taken out last
  void pause();
  void resume();
  // Its loop stands still for a moment, as on a host that has too much to do: what came due
  // meanwhile is done when it goes on.
  void stand_still() { scheduler_.stand_still(process_); }
  void go_on() { scheduler_.resume(process_); }

  // Whether a process that began now would know that a flush of the data disk failed, and would if
  // any part of what is being recorded still reached the disk.
  [[nodiscard]] bool remembers_failed_flush() const;

  // What followed each phase of the session (mirror/phase.h), as bits; of all nodes of this process.
  static std::array<uint16_t, kPhases>& phases_seen();
  // … and each of a connection (session/channel_phase.h).
  static std::array<uint16_t, kChannelPhases>& channel_phases_seen();

  [[nodiscard]] bool running() const { return engine_ != nullptr; }
  [[nodiscard]] bool paused() const { return process_ && process_->paused; }
  [[nodiscard]] uint64_t boot() const { return boot_; }
  [[nodiscard]] bool powered() const { return powered_; }
  // Whether a primary goes on by itself when its process begins anew.
  [[nodiscard]] bool goes_on() const { return config_->on_restart == OnRestart::kResume; }
  [[nodiscard]] uint64_t started_ns() const { return started_ns_; }
  // What its process found out of a flush when it began: the metadata disk took it.
  [[nodiscard]] bool doubt_is_on_record() const { return doubt_is_on_record_; }
  [[nodiscard]] uint64_t pauses_total() const { return pauses_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  // What is to be told of it beside a violation: a line of its own.
  [[nodiscard]] std::string describe();
  [[nodiscard]] int host() const { return host_; }
  [[nodiscard]] const ProcessPtr& process() const { return process_; }
  [[nodiscard]] Clock& clock() { return *clock_; }
  Engine& engine() { return *engine_; }
  VirtualDisk& data() { return *data_; }
  VirtualDisk& metadata() { return *metadata_; }
  CopyShelf& copies() { return *copies_shelf_; }

 private:
  class NodeLog;
  void end_process();
  bool look_at_memory(metadata::Loaded& loaded);
  void put_in(size_t which);  // of the shelf; its size: blank ones

  Scheduler& scheduler_;
  VirtualNetwork& network_;
  const Config* config_;
  const int host_;
  const uint32_t region_bytes_;  // of metadata made anew
  const std::string name_;
  Random random_;
  uint64_t receive_bytes_max_ = limits::kReceiveBytesMax;
  bool powered_ = true;
  uint64_t boot_;
  uint64_t started_ns_ = 0;
  bool doubt_is_on_record_ = true;
  uint64_t pauses_ = 0;
  std::unique_ptr<VirtualDisk> data_;
  std::unique_ptr<VirtualDisk> metadata_;
  std::unique_ptr<CopyShelf> copies_shelf_;  // of the data disk's file system
  struct Pair {
    std::unique_ptr<VirtualDisk> data, metadata;
    std::unique_ptr<CopyShelf> copies;
  };
  std::vector<Pair> shelf_;
  std::unique_ptr<Log> log_;
  ProcessPtr process_;
  std::unique_ptr<VirtualClock> clock_;
  std::unique_ptr<Network> port_;
  std::unique_ptr<Workers> workers_;
  Outside outside_;
  std::unique_ptr<Witness> witness_;
  std::unique_ptr<FenceCommand> fence_;
  std::unique_ptr<Copies> copies_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace twinblock::sim
