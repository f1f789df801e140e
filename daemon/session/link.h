// One link between the nodes, as a session sees it: where it leads, whether it may be used, and how
// it fares. Owned by the session; loop thread only.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/limits.h"
#include "config/config.h"
#include "io/clock.h"
#include "io/connection.h"
#include "mirror/link_damping.h"
#include "mirror/link_meter.h"
#include "mirror/link_patience.h"
#include "telemetry/latency.h"
#include "telemetry/stack_estimate.h"

namespace twinblock {

// Which errors of a link were told lately, so that those that come again and again are not.
class ToldErrors {
 public:
  // Whether to tell it.
  bool news(const std::string& error, uint64_t now_ns) {
    if (error == last_) return false;
    last_ = error;
    std::erase_if(told_ns_, [now_ns](const auto& each) {
      return now_ns - each.second >= limits::kErrorRepeat_ns;
    });
    return told_ns_.size() < limits::kErrorsTold && told_ns_.try_emplace(error, now_ns).second;
  }
  void forget() {
    last_.clear();
    told_ns_.clear();
  }

 private:
  std::string last_;
  std::map<std::string, uint64_t> told_ns_;
};

// Bytes a second, averaged over about a second.
class ByteRate {
 public:
  void update(uint64_t total_bytes, uint64_t now_ns) {
    if (now_ns <= at_ns_) return;
    const double seconds = static_cast<double>(now_ns - at_ns_) / static_cast<double>(kSecond_ns);
    const double now =
        static_cast<double>(total_bytes - std::min(total_bytes, total_bytes_)) / seconds;
    const double weight = std::min(1.0, seconds);
    rate_ += weight * (now - rate_);
    total_bytes_ = total_bytes;
    at_ns_ = now_ns;
  }
  [[nodiscard]] uint64_t bytes_per_s() const { return static_cast<uint64_t>(rate_); }

 private:
  double rate_ = 0;
  uint64_t total_bytes_ = 0;
  uint64_t at_ns_ = 0;
};

class Channel;

struct Link {
  Link(LinkConfig configuration, LinkAddresses ends, LinkPatience forbearance)
      : config(std::move(configuration)),
        addresses(std::move(ends)),
        patience(forbearance),
        meter(config.rate_bits_per_s / 8) {}

  LinkConfig config;
  LinkAddresses addresses;
  bool enabled = true;
  Channel* up = nullptr;  // the connection that is part of the session
  uint64_t up_since_ns = 0;
  std::unique_ptr<Timer> join_timer;
  uint64_t join_at_ns = 0;  // when it fires
  LinkDamping damping;
  LinkPatience patience;
  bool tried = false;    // could not be joined since the session has been without any link
  bool renew = false;    // up, and to have another connection in its place (LinkJoins::renew_all)
  bool damped = false;   // flaps: left alone until join_at_ns
  bool refused = false;  // the peer, or this node, does not take it: last_error says why
  // Without a session: whoever was dialled last has taken the connection, or the peer has dialled.
  bool answers = false;
  LinkMeter meter;
  StackEstimate stack;
  TripLatency trips;
  SampledAlone alone;
  uint64_t failovers = 0;
  std::string last_error;
  ToldErrors errors;
  // Of connections that are gone.
  uint64_t in_before_bytes = 0, out_before_bytes = 0, cipher_before_ns = 0;
  ByteRate in_rate, out_rate;
};

}  // namespace twinblock
