// Flushes this node's data disk, and nothing else: for what has to be stable here before the peer is told
// something. One flush is under way at a time; those that are asked for meanwhile share the next.
// Owned by the engine; loop thread only.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "io/disk.h"

namespace twinblock {

class LocalFlush {
 public:
  using Done = std::function<void(const DiskRequest& flushed)>;

  explicit LocalFlush(Disk& disk) : disk_(disk) {
    request_.op = DiskOp::kFlush;
    request_.done = [this](DiskRequest&) { ended(); };
  }

  // What was written before is stable when `done` is called, unless with an error.
  void flush(Done done) {
    waiting_.push_back(std::move(done));
    if (running_for_.empty()) begin();
  }

 private:
  void begin() {
    running_for_ = std::exchange(waiting_, {});
    request_.error = 0;
    request_.flush_failed = false;
    disk_.submit(request_);
  }
  void ended() {
    const DiskRequest flushed = request_;
    for (const Done& done : std::exchange(running_for_, {})) done(flushed);
    if (running_for_.empty() && !waiting_.empty()) begin();
  }

  Disk& disk_;
  DiskRequest request_;
  std::vector<Done> running_for_, waiting_;
};

}  // namespace twinblock
