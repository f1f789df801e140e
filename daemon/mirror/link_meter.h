// What one link delivers: its rate and its round trip, from the answers to what was sent over it.
// Pure.
//
// The rate is estimated in the manner of BBR (Cardwell et al., "BBR: congestion-based congestion
// control", 2016): the bytes that were answered between the sending of a request and its answer,
// over that time, or over the time in which they were sent, if that is longer (answers that piled
// up come all at once); the largest of the last moments. An answer that came while the link had
// little to do says what was asked of the link and not what it can do: such a sample only raises
// the estimate. A link has enough to do when more is under way than fits on it, and what is sent
// does wait: it takes half a round trip more than on a link without work.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/units.h"

namespace twinblock {

class LinkMeter {
 public:
  // Until something is known: 10 Gbit/s.
  static constexpr uint64_t kRateUnknown_bytes_per_s = 1'250'000'000;
  // Less than this ahead of a frame never fills a link …
  static constexpr uint64_t kFillsBytesMin = 64 * kKiB;
  // … and more than this may fill one, however long its way is: its rate may be less than it is called, or
  // than it was, and would never be learnt if its way were taken to hold all that is sent. Then it is the wait
  // that tells, and that is no shorter than a turn of a loop that is late.
  static constexpr uint64_t kFillsFarBytes = 256 * kKiB;
  static constexpr uint64_t kFarWait_ns = kMillisecond_ns;
  // Of the maximum and minimum filters; each looks back over one to two of these.
  static constexpr uint64_t kWindow_ns = 2 * kSecond_ns;

  // What a request remembers of the moment at which it was sent.
  struct Stamp {
    uint64_t sent_ns = 0;
    uint64_t delivered_bytes = 0;
    uint64_t delivered_ns = 0;
    uint64_t first_sent_ns = 0;  // when what was answered last had been sent
    uint64_t bytes = 0;
    bool fills = false;  // what is ahead of it may be more than fits on the way
    uint64_t ahead_bytes = 0;  // sent before it, and not answered yet
  };

  // `nominal_bytes_per_s`: 0: not known.
  explicit LinkMeter(uint64_t nominal_bytes_per_s = 0)
      : nominal_bytes_per_s_(nominal_bytes_per_s) {}

  [[nodiscard]] Stamp sent(uint64_t bytes, uint64_t now_ns) {
    // The time without work does not count.
    if (in_flight_bytes_ == 0) delivered_ns_ = first_sent_ns_ = now_ns;
    in_flight_bytes_ += bytes;
    const uint64_t ahead_bytes = in_flight_bytes_ - bytes;
    return {now_ns,
            delivered_bytes_,
            delivered_ns_,
            first_sent_ns_,
            bytes,
            way_ns() != 0 && ahead_bytes > std::clamp(fits_bytes(), kFillsBytesMin, kFillsFarBytes),
            ahead_bytes};
  }

  // `arrived_ns`: when the answer was in this node's kernel; `held_ns`: how long the peer had it before.
  void answered(const Stamp& stamp, uint64_t held_ns, uint64_t arrived_ns, uint64_t now_ns) {
    in_flight_bytes_ -= std::min(in_flight_bytes_, stamp.bytes);
    if (in_flight_bytes_ == 0) idle_since_ns_ = now_ns;
    delivered_bytes_ += stamp.bytes;
    delivered_ns_ = now_ns;
    first_sent_ns_ = stamp.sent_ns;
    const uint64_t elapsed_ns = std::max(now_ns - std::min(now_ns, stamp.delivered_ns),
                                         stamp.sent_ns - stamp.first_sent_ns);
    if (elapsed_ns < 10 * kMicrosecond_ns) return;  // too short to say anything
    const auto sample =
        static_cast<uint64_t>(static_cast<double>(delivered_bytes_ - stamp.delivered_bytes) *
                              static_cast<double>(kSecond_ns) / static_cast<double>(elapsed_ns));
    const bool busy = stamp.fills && waited(arrived_ns - std::min(arrived_ns, stamp.sent_ns), held_ns);
    if (!busy && sample <= rate_bytes_per_s()) return;
    if (now_ns - rate_begun_ns_ > kWindow_ns) {
      rate_ = {0, now_ns - rate_begun_ns_ > 2 * kWindow_ns ? 0 : rate_[0]};
      busy_ = {false, rate_[1] != 0 && busy_[0]};
      rate_begun_ns_ = now_ns;
    }
    busy_[0] = busy_[0] || busy;
    rate_[0] = std::max(rate_[0], sample);
  }

  // What it moved lately while it had enough to do, else its nominal rate; 0: neither is known.
  [[nodiscard]] uint64_t carried_bytes_per_s() const {
    return busy_[0] || busy_[1] ? rate_bytes_per_s() : nominal_bytes_per_s_;
  }

  // A round trip without work at the peer's end, of what was sent at `sent_ns`.
  void round_trip(uint64_t sample_ns, uint64_t sent_ns, uint64_t now_ns) {
    round_trip_.add(sample_ns, now_ns);
    const bool alone = in_flight_bytes_ == 0 && sent_ns >= idle_since_ns_;
    if (alone || sample_ns < way_.least()) way_.add(sample_ns, now_ns);
  }

  // Everything that was in flight is sent again elsewhere; the rate and the round trip may be
  // others from now on.
  void restarted() { *this = LinkMeter(nominal_bytes_per_s_); }

  [[nodiscard]] uint64_t in_flight_bytes() const { return in_flight_bytes_; }
  [[nodiscard]] uint64_t rate_bytes_per_s() const {
    const uint64_t measured = std::max(rate_[0], rate_[1]);
    const uint64_t most = nominal_bytes_per_s_ != 0 ? nominal_bytes_per_s_ : ~uint64_t{0};
    if (measured == 0)
      return std::min(most, nominal_bytes_per_s_ != 0 ? most : kRateUnknown_bytes_per_s);
    return std::max<uint64_t>(std::min(measured, most), 1);
  }
  // 0: nothing measured yet.
  [[nodiscard]] uint64_t measured_bytes_per_s() const { return std::max(rate_[0], rate_[1]); }
  [[nodiscard]] bool proven() const {
    return nominal_bytes_per_s_ != 0 || measured_bytes_per_s() != 0;
  }
  // The least of the last moments, be it that something was ahead of it: what the next frame may expect, also
  // over a way that becomes longer while it is never without work. 0: not known.
  [[nodiscard]] uint64_t round_trip_ns() const { return round_trip_.known_ns(); }
  // What there and back takes where nothing waits: the least of the last moments in which no request of this node
  // was under way, or what was less since. All round trips of a link that is full for long have waited; so a way
  // that becomes longer is taken for a queue until there is a pause. 0: not known.
  [[nodiscard]] uint64_t way_ns() const { return way_.known_ns(); }

 private:
  static constexpr uint64_t kNone = ~uint64_t{0};

  struct Least {
    std::array<uint64_t, 2> windows{kNone, kNone};  // this one and the one before
    uint64_t begun_ns = 0;

    void add(uint64_t sample, uint64_t now_ns) {
      if (least() == kNone) begun_ns = now_ns;
      if (now_ns - begun_ns > kWindow_ns) {
        windows = {sample, now_ns - begun_ns > 2 * kWindow_ns ? kNone : windows[0]};
        begun_ns = now_ns;
      }
      windows[0] = std::min(windows[0], sample);
    }
    [[nodiscard]] uint64_t least() const { return std::min(windows[0], windows[1]); }
    [[nodiscard]] uint64_t known_ns() const { return least() == kNone ? 0 : least(); }
  };

  // What can be on the way at once, by the rate as it is known.
  [[nodiscard]] uint64_t fits_bytes() const {
    return static_cast<uint64_t>(static_cast<double>(rate_bytes_per_s()) * static_cast<double>(way_ns()) /
                                 static_cast<double>(kSecond_ns));
  }
  // Whether a frame has waited for the link.
  [[nodiscard]] bool waited(uint64_t trip_ns, uint64_t held_ns) const {
    const uint64_t least_ns = std::max(way_ns() / 2, fits_bytes() > kFillsFarBytes ? kFarWait_ns : 0);
    return trip_ns - std::min(trip_ns, held_ns) > way_ns() + least_ns;
  }

  uint64_t nominal_bytes_per_s_;
  uint64_t in_flight_bytes_ = 0;
  uint64_t delivered_bytes_ = 0;
  uint64_t delivered_ns_ = 0;
  uint64_t first_sent_ns_ = 0;
  std::array<uint64_t, 2> rate_{};  // the largest of this window and of the one before
  std::array<bool, 2> busy_{};      // … and whether the link had enough to do for any of them
  uint64_t rate_begun_ns_ = 0;
  uint64_t idle_since_ns_ = 0;
  Least round_trip_, way_;
};

}  // namespace twinblock
