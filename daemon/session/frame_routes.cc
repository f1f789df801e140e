#include "session/frame_routes.h"

#include <string>

#include "base/limits.h"
#include "base/units.h"

namespace twinblock {

using wire::FrameType;

bool FrameRoutes::take(Channel& channel, wire::Frame& frame) {
  if (wire::is_ordered(frame.header)) {
    switch (parts_.traffic.arrived(channel, frame.header)) {
      case ControlStream::Arrival::kNext:
        return take_ordered(channel, frame);
      case ControlStream::Arrival::kRepeated:
        return true;
      case ControlStream::Arrival::kGap:
        session_.lose(channel.address() + " sent a " + wire::frame_type_name(frame.header.type) +
                          " frame before another one that is missing",
                      limits::kReconnectDelayMin_ns);
        return false;
    }
  }
  switch (static_cast<FrameType>(frame.header.type)) {
    case FrameType::kAck:
      take_ack(channel, frame);
      break;
    case FrameType::kHeartbeat:
      take_heartbeat(channel, frame);
      break;
    case FrameType::kTimes:
      parts_.sampler.take(channel, wire::frame_as<wire::TimesFrame>(frame.header));
      break;
    case FrameType::kData:
    case FrameType::kFlush:
    case FrameType::kRead:
    case FrameType::kDigest:
      owner_.session_frame(frame, channel.incarnation());
      break;
    default:
      session_.lose(channel.address() + " sent a " + wire::frame_type_name(frame.header.type) +
                        " frame within the session",
                    limits::kReconnectDelayMin_ns);
      break;
  }
  return channel.open();
}

// A frame of the control stream, each once and in order.
bool FrameRoutes::take_ordered(Channel& channel, wire::Frame& frame) {
  // Each may be answered by another one, which is kept until the peer says that it has it.
  if (const uint64_t kept_bytes = parts_.control.kept_bytes(); kept_bytes > limits::kControlBytesKeptMax) {
    session_.lose(env_.peer() + " asks on and on, and does not confirm what it is told: " +
                      format_size(kept_bytes) + " are kept for it",
                  limits::kReconnectDelayMax_ns);
    return false;
  }
  switch (static_cast<FrameType>(frame.header.type)) {
    case FrameType::kAck:
      take_ack(channel, frame);
      break;
    case FrameType::kRetire:  // from a version that says only later that it is done with the connection
      take_retirement(wire::frame_as<wire::RetireFrame>(frame.header).incarnation);
      break;
    case FrameType::kRetired: {
      const auto retired = wire::frame_as<wire::RetiredFrame>(frame.header);
      take_retirement(retired.incarnation);
      parts_.retirements.confirmed_by_peer(retired.incarnation);
      break;
    }
    case FrameType::kGoodbye:
      session_.lose(env_.peer() + " said goodbye: " + wire::printable(frame.payload),
                    limits::kReconnectDelayMin_ns);
      break;
    default:
      owner_.session_frame(frame, PeerRequests::kControlStream);
      break;
  }
  return channel.open();
}

void FrameRoutes::take_ack(Channel& channel, wire::Frame& frame) {
  const uint64_t request = wire::frame_as<wire::AckFrame>(frame.header).request;
  if (!parts_.traffic.take_ack(channel, frame))
    session_.lose(env_.peer() + " acknowledged a request that it was not sent (number " +
                      std::to_string(request) + ")",
                  limits::kReconnectDelayMin_ns);
}

void FrameRoutes::take_heartbeat(Channel& channel, const wire::Frame& frame) {
  const uint64_t kept_bytes = parts_.control.kept_bytes();
  if (!parts_.heartbeats.take(channel, frame)) {
    session_.lose(env_.peer() + " has received more than it was sent", limits::kReconnectDelayMin_ns);
    return;
  }
  parts_.newcomers.session_answers();
  if (parts_.control.kept_bytes() < kept_bytes) owner_.control_confirmed();
}

// The peer has closed this connection.
void FrameRoutes::take_retirement(uint64_t incarnation) {
  const std::string reason = env_.peer() + " has retired the connection";
  if (Channel* channel = parts_.links.of(incarnation)) {
    session_.link_down(*channel, reason, parts_.joins.ended_by_peer(channel->link()));
    return;
  }
  if (parts_.retirements.knows(incarnation)) return;
  if (incarnation > limits::kIncarnationMax || parts_.retirements.full()) {
    session_.lose(env_.peer() + " retires connections that there are not",
                  limits::kReconnectDelayMin_ns);
    return;
  }
  // It never came to be one on this side: nothing came over it, and nothing may.
  parts_.joins.withdrawn(incarnation, reason);
  parts_.retirements.retire(incarnation);
}

// What was damaged on its way comes again over another link. What the peer meant so is no frame of
// this version, however often it comes: then the session ends.
void FrameRoutes::refuse(Channel& channel) {
  const std::string why = "sent " + channel.reader().error();
  if (!channel.up())
    parts_.handshake.close_stranger(channel, why);
  else if (channel.reader().error_came_as_sent())
    session_.lose(env_.peer() + " " + why, limits::kReconnectDelayMax_ns);
  else
    session_.link_down(channel, channel.address() + " " + why, LinkEnd::kLost);
}

}  // namespace twinblock
