// Copies of a host's backing on virtual time: what a file system with reflinks keeps, and what goes wrong with
// it. The shelf is the file system's, and outlives processes and losses of power; a process holds a port.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "io/copies.h"
#include "random.h"
#include "scheduler.h"
#include "virtual_disk.h"

namespace twinblock::sim {

class CopyShelf {
 public:
  // How long a step may take: the file's limit.
  static constexpr uint64_t kTimeout_ns = 2 * kSecond_ns;

  CopyShelf(Scheduler& scheduler, Random random) : scheduler_(scheduler), random_(random) {}

  // What a process has of it, whose backing is `disk`.
  std::unique_ptr<Copies> port(ProcessPtr process, VirtualDisk& disk);

  bool can_keep_a_way_back = false;  // before_resync is in the file
  double fails = 0;                  // the share of steps that fail, or hang until the deadline
  using Bytes = std::vector<std::byte>;
  [[nodiscard]] const std::optional<Bytes>& before_resync() const { return before_resync_; }
  [[nodiscard]] const std::map<std::string, Bytes>& snapshots() const { return snapshots_; }
  // A snapshot, or a part of one that was neither kept nor dropped.
  [[nodiscard]] bool has_anything_of(const std::string& name) const {
    return snapshots_.contains(name) || parts_.contains(name);
  }
  // Whether the node was told that it could not be dropped.
  [[nodiscard]] bool was_told_to_be_left(const std::string& name) const { return not_dropped_.contains(name); }

 private:
  class Port;
  Scheduler& scheduler_;
  Random random_;
  std::optional<Bytes> before_resync_;
  std::map<std::string, Bytes> snapshots_;
  std::map<std::string, Bytes> parts_;  // taken, and not kept yet
  std::set<std::string> not_dropped_;
};

}  // namespace twinblock::sim
