// The other end of a peer's probe: answers what is asked, and counts what comes. One at a time, on a
// connection of its own, with bounds on all that a peer may want. Owned by the session; loop thread only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "session/links.h"
#include "session/stranger_log.h"

namespace twinblock {

class ProbeResponder {
 public:
  ProbeResponder(const SessionEnvironment& env, Links& links, StrangerLog& strangers)
      : env_(env), links_(links), strangers_(strangers) {}

  // `channel` was accepted and wants to probe. Whether it is still open.
  bool accept(Channel& channel);
  // A frame has come over a channel that probes. Whether it is still open.
  bool take(Channel& channel, const wire::Frame& frame);
  // Something has come over it, a whole frame or not.
  void received(Channel& channel);
  // Ends one that has been silent or has taken too long; often.
  void tick(uint64_t now_ns);

 private:
  [[nodiscard]] Channel* channel() const;
  void report(Channel& channel);
  [[nodiscard]] bool reads(Channel& channel);
  void close(Channel& channel, const std::string& why);

  const SessionEnvironment& env_;
  Links& links_;
  StrangerLog& strangers_;
  // Of the stream.
  bool counts_ = false;
  uint64_t seen_bytes_ = 0;  // of the channel's, before
  uint64_t first_ns_ = 0;
  uint64_t last_ns_ = 0;
  uint64_t received_bytes_ = 0;
  std::vector<uint32_t> interval_bytes_;
};

}  // namespace twinblock
