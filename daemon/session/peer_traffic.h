// What goes to the peer within a session: the control stream, in order, and requests, each over the
// link that will answer it first; both over another connection when the one that carried them is
// gone. Owned by the session; loop thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "session/control_stream.h"
#include "session/heartbeats.h"
#include "session/links.h"
#include "session/peer_requests.h"
#include "session/trip_sampler.h"

namespace twinblock {

class PeerTraffic {
 public:
  PeerTraffic(const SessionEnvironment& env, Links& links, ControlStream& control,
              Heartbeats& heartbeats, TripSampler& sampler);

  // --- see Session
  void put_in_order(const wire::FrameHeader& header, std::span<const std::byte> payload);
  void ask_in_order(const wire::FrameHeader& header, std::span<const std::byte> payload,
                    PeerRequest& waiter);
  void ask_somewhere(const wire::FrameHeader& header, uint64_t offset_bytes,
                     std::span<const std::byte> body, uint32_t crc, PeerRequest& waiter);
  void answer(uint64_t incarnation, const wire::AckFrame& ack, std::span<const std::byte> body,
              uint32_t crc);

  // A session begins, or has ended: nothing is under way.
  void session_up();
  void session_lost();
  // A connection has become part of the session, or is gone (`channel` is a name only).
  void channel_up(Channel& channel);
  void channel_down(const Channel& channel, LinkEnd end);
  // The peer reads nothing more of this connection.
  void send_again(uint64_t incarnation);

  // A frame of the control stream has come.
  ControlStream::Arrival arrived(Channel& channel, const wire::FrameHeader& header);
  // An acknowledgement has come. False: of what was not asked, or not sent yet; whoever sends that
  // can't be trusted with a buffer that may be still in use.
  [[nodiscard]] bool take_ack(Channel& channel, wire::Frame& frame);

  // For how long a request has waited, if a disk that works would have done it by now.
  [[nodiscard]] std::optional<uint64_t> hangs_ns(uint64_t now_ns) const;
  // Links that join, but carry no data. The peer's disk has nothing to do, requests are old, nothing was answered for as long,
  // and a connection was replaced meanwhile, at `replaced_ns`; or one request is, and all links were lost again and again since it
  // was asked, or renewed more often than anybody changes keys.
  [[nodiscard]] bool carries_nothing(uint64_t now_ns, uint64_t replaced_ns) const;

 private:
  // `lost_on`: the link that has had it, and lost its connection; null: none has.
  [[nodiscard]] uint64_t in_doubt_since_ns() const;
  [[nodiscard]] Channel* pick(uint64_t bytes, const Link* lost_on = nullptr) const;
  void send_over(Channel& channel, const PeerRequests::Entry& entry);
  void send(const PeerRequests::Entry& entry);

  const SessionEnvironment& env_;
  Links& links_;
  ControlStream& control_;
  Heartbeats& heartbeats_;
  TripSampler& sampler_;
  PeerRequests requests_;
  Channel* control_channel_ = nullptr;  // carries the control stream; null: none is up
  uint64_t resent_ns_ = 0;              // when requests of a dead link were last sent again
  uint64_t last_answer_ns_ = 0;         // to any request
  uint64_t last_control_ns_ = 0;        // a frame of the control stream
  size_t partings_ = 0;  // how often no link was left since it is in doubt whether they carry anything …
  size_t renewals_ = 0;  // … how often a connection was renewed …
  uint64_t partings_of_ns_ = 0;  // … which was then
};

}  // namespace twinblock
