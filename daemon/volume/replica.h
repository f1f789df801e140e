// The receiving side: applies the peer's writes, zeroes and flushes to the local replica, reads
// from it, and answers each when it is done. Owned by the engine; loop thread only.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/checks.h"
#include "base/pool.h"
#include "volume/core.h"
#include "volume/disk_health.h"
#include "wire/frame_reader.h"

namespace twinblock {

class Replica {
 public:
  // Stops reading when it holds more than `held_bytes_max`. `drained` is called when the last disk request
  // of a lost session has ended.
  Replica(Core& core, DiskHealth& disks, uint64_t held_bytes_max, std::function<void()> drained);
  ~Replica();

  // kData, kFlush, kRead or kDigest of the session; the answer goes to connection `incarnation`. What is still worked
  // on and came over a connection that is gone is not begun anew.
  void apply(wire::Frame& frame, uint64_t incarnation);
  // That connection of the session is gone: what came over it runs on, and is answered when it comes again.
  void connection_gone(uint64_t incarnation);
  // The session is gone: nothing more is answered, what the disk has begun runs to its end.
  void session_lost();
  // Reads on after a pause when enough has left; called now and then, since what leaves last
  // through the socket tells nobody.
  void resume_if_drained();
  // For how long the disk has not got on with what it has to do: nothing was finished, and its device did nothing.
  // 0: it has nothing to do.
  [[nodiscard]] uint64_t still_ns() const { return busy_ == 0 ? 0 : core_.clock.now_ns() - got_on_ns_; }
  // To be called now and then: looks at the device when nothing is finished for a while.
  void watch_disk();
  [[nodiscard]] bool draining() const { return busy_ > 0 && !answering_; }
  void session_up() {
    TB_CHECK(busy_ == 0, "a session begins when the disk is done with what the last one had sent");
    answering_ = true;
  }

 private:
  struct Op;
  [[nodiscard]] bool takes_up(const wire::Frame& frame, uint64_t incarnation);
  void decompress(Op& op, const wire::Frame& frame);
  void decompress_now(Op& op) const;
  void decompressed(Op& op);
  void start(Op& op);
  static bool changes_disk(const Op& op);
  [[nodiscard]] bool looks_behind(Op& op);
  [[nodiscard]] static std::span<std::byte> body_of(Op& op);
  void finished(Op& op);
  void ended_here(Op& op);
  void release(Op& op);
  void device_seen();
  void release_sent_bodies();
  [[nodiscard]] uint64_t held_bytes() const;

  Core& core_;
  DiskHealth& disks_;
  const uint64_t held_bytes_max_;
  std::function<void()> drained_;
  wire::SlabPool long_pieces_;  // for what is decompressed
  bool answering_ = false;
  bool paused_ = false;
  size_t busy_ = 0;
  std::unordered_map<uint64_t, Op*> unclaimed_;  // of those, by number: what came over a connection that is gone
  uint64_t working_bytes_ = 0;                   // of requests that the disk works on
  Pool<Op> ops_;
  uint64_t got_on_ns_ = 0;  // of what it has to do; else without meaning
  bool watching_ = false;         // the device is being looked at
  uint64_t flushes_ = 0;          // under way …
  uint64_t flushing_since_ns_ = 0;  // … since then there was always one
  uint64_t device_work_ = 0;      // by the last look; written by a worker while `watching_`
  uint64_t device_work_before_ = 0;
  bool looked_before_ = false;    // since something was finished, or begun after a pause
  // Bodies of answers to reads, until the kernel has taken them.
  struct Body {
    std::unique_ptr<std::byte[]> bytes;
    uint64_t incarnation;
    uint64_t sent_end_bytes;
  };
  std::vector<Body> bodies_;
};

}  // namespace twinblock
