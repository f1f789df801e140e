// Probes a link: over a connection of its own, what a round trip takes, what goes to and fro one by one, and
// what a stream carries; beside the session, or without any. What clients write comes first: while they
// do, streams are short and far between.
//
// A dials B: probe in place of a hello; B says what its host is; A asks, B answers; A sends, B counts and
// reports. Owned by the session; loop thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "session/links.h"
#include "session/probe_result.h"

namespace twinblock {

class Prober {
 public:
  Prober(const SessionEnvironment& env, Links& links);

  // Begins with one of this link; its number. `duty`: which part of the time streams may take, per cent;
  // 0: as clients allow. An error when there is no such link, or one is under way.
  Result<uint64_t> begin(const std::string& link, uint64_t duty);
  // Of the last one; null: there was none.
  [[nodiscard]] const ProbeResult* result() const { return result_ ? &*result_ : nullptr; }

  // The acceptor has spoken. Whether the channel is still open.
  bool challenged(Channel& channel, uint64_t nonce);
  // A frame has come over its channel. Whether that is still open.
  bool take(Channel& channel, const wire::Frame& frame);
  // Its channel has ended.
  void closed(Channel& channel, const std::string& reason);

 private:
  [[nodiscard]] Channel* channel() const;
  [[nodiscard]] bool under_way() const;
  void turn();
  void see_what_gets_on(const Channel& channel, uint64_t now);
  void fail(const std::string& why);
  void ask(Channel& channel, size_t bytes);
  void answered(Channel& channel);
  void next_ask(Channel& channel);
  void wait_or_stream(Channel& channel);
  void begin_stream(Channel& channel);
  void stream_on(Channel& channel);
  bool reported(Channel& channel, const wire::Frame& frame);
  [[nodiscard]] bool clients_write() const;
  void send_data(Channel& channel, bool last);

  const SessionEnvironment& env_;
  Links& links_;
  std::unique_ptr<Timer> timer_;
  std::optional<ProbeResult> result_;
  uint64_t count_ = 0;
  uint64_t duty_ = 0;
  uint64_t heard_ns_ = 0;  // the last thing that came, or got on its way
  uint64_t passed_on_bytes_ = 0;
  uint64_t deadline_ns_ = 0;
  // While it asks.
  uint64_t asked_ = 0;
  uint64_t asked_ns_ = 0;
  uint64_t talk_began_ns_ = 0;
  size_t talk_ = 0;  // which of those; result_->talks.size(): none any more
  bool round_trips_ = false;
  // While it streams.
  uint64_t stream_began_ns_ = 0;
  uint64_t sent_at_begin_bytes_ = 0;
  uint64_t volume_at_begin_bytes_ = 0;
  uint64_t looked_ns_ = 0;
  bool all_sent_ = false;
  bool held_ = false;  // as much is under way as is to be
  bool half_seen_ = false;
  // When the next one may begin.
  uint64_t next_stream_ns_ = 0;
};

}  // namespace twinblock
