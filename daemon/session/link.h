// One link between the nodes, as a session sees it: where it leads, whether it may be used, which
// connection over it is part of the session, and how it fares. Owned by the session; loop thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "base/limits.h"
#include "config/config.h"
#include "io/connection.h"
#include "mirror/link_meter.h"
#include "mirror/link_patience.h"
#include "session/link_times.h"
#include "session/rejoin.h"

namespace twinblock {

// What went wrong with a link, and which of that was told lately, so that errors that come again and again
// are not.
class LinkErrors {
 public:
  // An attempt came to nothing. Whether to tell it.
  [[nodiscard]] bool note(const std::string& error, uint64_t now_ns) {
    last_ = error;
    if (error == last_noted_) return false;
    last_noted_ = error;
    std::erase_if(told_ns_, [now_ns](const auto& each) {
      return now_ns - each.second >= limits::kErrorRepeat_ns;
    });
    return told_ns_.size() < limits::kErrorsTold && told_ns_.try_emplace(error, now_ns).second;
  }
  // The link was up, and is lost.
  void lost(const std::string& reason) {
    last_ = reason;
    ++losses_;
  }
  // It is up: what comes is news again. What kept it from its first connection is of no interest any more.
  void came_up() {
    last_noted_.clear();
    told_ns_.clear();
    if (losses_ == 0) last_.clear();
  }
  [[nodiscard]] const std::string& last() const { return last_; }
  [[nodiscard]] uint64_t losses() const { return losses_; }

 private:
  std::string last_;
  std::string last_noted_;
  std::map<std::string, uint64_t> told_ns_;
  uint64_t losses_ = 0;
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
  // Nothing comes any more, and nobody looks meanwhile.
  void stopped() { rate_ = 0; }
  [[nodiscard]] uint64_t bytes_per_s() const { return static_cast<uint64_t>(rate_); }

 private:
  double rate_ = 0;
  uint64_t total_bytes_ = 0;
  uint64_t at_ns_ = 0;
};

// What the connections of a link have carried within sessions, all of them together, and what it cost.
struct LinkTotals {
  uint64_t in_bytes = 0;
  uint64_t out_bytes = 0;
  uint64_t cipher_ns = 0;
};

class Channel;

class Link {
 public:
  Link(LinkConfig config, LinkAddresses addresses, LinkPatience patience)
      : config_(std::move(config)),
        addresses_(std::move(addresses)),
        patience_(patience),
        meter_(config_.rate_bits_per_s / 8) {}

  [[nodiscard]] const std::string& name() const { return config_.name; }
  [[nodiscard]] const LinkConfig& config() const { return config_; }
  [[nodiscard]] const LinkAddresses& addresses() const { return addresses_; }

  // It may be used, whatever was said of it before.
  void enable();
  // It may not: nothing joins over it. What connections it has, whoever disables it closes.
  void disable();
  [[nodiscard]] bool enabled() const { return enabled_; }

  // --- the connection over it that is part of the session
  [[nodiscard]] Channel* up() const { return up_; }  // null: none
  void came_up(Channel& channel, uint64_t now_ns);
  // It is no more, and still open: what it counted is kept.
  void went_down();
  // … for this reason, which was none of this node's.
  void lost(const std::string& reason) { errors_.lost(reason); }
  // … and for how long it is left alone, where others are up: longer each time. Once for each loss.
  [[nodiscard]] uint64_t left_alone_after_loss_ns(uint64_t now_ns) { return rejoin_.lost(now_ns - up_since_ns_); }
  // It is given up for its silence; after it went down, and it is known whether it is left alone.
  void given_up_for_silence(uint64_t now_ns) { patience_.given_up(now_ns, rejoin_.damped()); }
  // The session is lost: all begins anew.
  void session_lost();

  // --- the peer's end
  // Whether to tell it.
  [[nodiscard]] bool note_error(const std::string& error, uint64_t now_ns) { return errors_.note(error, now_ns); }
  // Without a session: whoever was dialled last has taken the connection, or the peer has dialled.
  void set_answers(bool answers) { answers_ = answers; }
  [[nodiscard]] bool answers() const { return answers_; }

  // --- how it fares
  void update_rates(uint64_t now_ns);
  [[nodiscard]] LinkTotals totals() const;
  [[nodiscard]] uint64_t in_bytes_per_s() const { return in_rate_.bytes_per_s(); }
  [[nodiscard]] uint64_t out_bytes_per_s() const { return out_rate_.bytes_per_s(); }
  [[nodiscard]] const LinkErrors& errors() const { return errors_; }
  // There and back where nothing waits, without what the hosts take; 0: too short to tell, or not known.
  [[nodiscard]] uint64_t way_ns() const;

  // --- its parts, each with a state of its own
  [[nodiscard]] Rejoin& rejoin() { return rejoin_; }
  [[nodiscard]] const Rejoin& rejoin() const { return rejoin_; }
  [[nodiscard]] LinkPatience& patience() { return patience_; }
  [[nodiscard]] const LinkPatience& patience() const { return patience_; }
  [[nodiscard]] LinkMeter& meter() { return meter_; }
  [[nodiscard]] const LinkMeter& meter() const { return meter_; }
  [[nodiscard]] LinkTimes& times() { return times_; }
  [[nodiscard]] const LinkTimes& times() const { return times_; }

 private:
  const LinkConfig config_;
  const LinkAddresses addresses_;
  bool enabled_ = true;
  Channel* up_ = nullptr;
  uint64_t up_since_ns_ = 0;
  bool answers_ = false;
  Rejoin rejoin_;
  LinkErrors errors_;
  LinkPatience patience_;
  LinkMeter meter_;
  LinkTimes times_;
  LinkTotals before_;  // of connections that are gone
  ByteRate in_rate_, out_rate_;
};

}  // namespace twinblock
