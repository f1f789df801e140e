// Keeps a node's record on the metadata disk, asynchronously. An update is durable, and its
// callback runs, when one copy has been written and flushed; the other copy follows by itself, so
// that at rest both are the same and the loss of either loses nothing. Updates that are asked for
// while one is under way are combined. Owned by the engine; loop thread only.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "io/disk.h"
#include "metadata/superblock.h"

namespace twinblock::metadata {

class SuperblockStore {
 public:
  // `error` is 0 or an errno value; after an error the metadata disk has failed for good, and every
  // later update fails at once with the same error.
  using Done = std::function<void(int error)>;

  SuperblockStore(Disk& disk, uint64_t sequence);

  // Makes `record` durable.
  void update(const NodeRecord& record, Done done);
  // The disk does not answer: it has failed, whatever comes of what is under way.
  void give_up(int error);
  [[nodiscard]] int error() const { return error_; }
  // What was made durable last holds the record's sessions: the first one of a volume has no room for them.
  [[nodiscard]] bool has_sessions() const { return sequence_ > 1; }
  [[nodiscard]] uint64_t writes_total() const { return writes_; }  // of a copy, begun

 private:
  enum class Step { kIdle, kWriteFirst, kFlushFirst, kWriteSecond, kFlushSecond };
  void begin();
  void submit(Step step);
  void step_done();
  void answer(std::vector<Done>& waiting);

  Disk& disk_;
  uint64_t sequence_;
  int error_ = 0;
  uint64_t writes_ = 0;
  Step step_ = Step::kIdle;
  NodeRecord wanted_;
  bool wanted_is_new_ = false;
  std::vector<Done> waiting_;  // for the next write
  std::vector<Done> writing_;  // for the one under way
  std::array<std::byte, sizeof(Superblock)> image_{};
  DiskRequest request_;
};

}  // namespace twinblock::metadata
