#include "session/trip_sampler.h"

#include <algorithm>
#include <optional>

namespace twinblock {

using wire::FrameHeader;
using wire::FrameType;

namespace {

// A packet gets through the queue of a device that has nothing else to do in less.
constexpr uint64_t kDeviceIsFree_ns = 20 * kMicrosecond_ns;

uint64_t less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

}  // namespace

void TripSampler::begin(Channel& channel, const PeerRequests::Entry& entry, FrameHeader& header) {
  if (header.type != static_cast<uint8_t>(FrameType::kData)) return;
  auto data = wire::frame_as<wire::DataFrame>(header);
  if (data.resync || every_ == 0 || ++since_ < every_) return;
  if (every_ > 1 && entry.stamp.sent_ns < next_ns_) return;
  if (!channel.connection().sample_next()) return;
  since_ = 0;
  next_ns_ = entry.stamp.sent_ns + limits::kSampleInterval_ns;
  data.sample = true;
  header = wire::to_header(data);
  channel.samples().begin(
      entry.number, entry.body.size(),
      channel.link().meter().in_flight_bytes() <= sizeof(FrameHeader) + entry.body.size());
}

void TripSampler::time(Channel& channel, const PeerRequests::Entry& entry, const wire::Frame& frame,
                       uint64_t now) {
  const auto ack = wire::frame_as<wire::AckFrame>(frame.header);
  const uint64_t frame_bytes = sizeof(FrameHeader) + entry.body.size();
  const uint64_t taken_ns = channel.connection().taken_ns(entry.sent_end_bytes - frame_bytes);
  PeerTrip trip;
  // Not before it was given to the connection, however long its socket had been full by then.
  trip.taken_ns = std::max(taken_ns, entry.stamp.sent_ns);
  trip.seal_ns = channel.connection().sealing_ns(entry.sent_end_bytes - frame_bytes);
  if (const uint64_t rate = channel.link().meter().carried_bytes_per_s(); rate != 0) {
    trip.line_ns = frame_bytes * kSecond_ns / rate;
    trip.ahead_ns = entry.stamp.ahead_bytes * kSecond_ns / rate;
  }
  trip.arrived_ns = now;
  if (frame.arrived_ns != 0)
    trip.arrived_ns = channel.life().estimate_arrival(ack.sent_ns, std::min(frame.arrived_ns, now),
                                                      frame.arrived_alone);
  trip.answered_ns = now;
  trip.peer_ns = ack.held_ns;
  trip.peer_disk_ns = ack.disk_ns;
  trip.stack_ns = channel.link().times().stack().expected_ns(
      entry.body.size(), less(less(trip.arrived_ns, trip.taken_ns), trip.peer_ns),
      channel.link().config().rate_bits_per_s);
  trip.way_ns = channel.link().way_ns();
  // What waits because the peer does not read waits for the peer, wherever it lies.
  const uint64_t wire_ns =
      less(less(less(trip.arrived_ns, trip.taken_ns), trip.peer_ns), trip.stack_ns);
  trip.peer_ns +=
      static_cast<uint64_t>(static_cast<double>(less(wire_ns, trip.way_ns)) *
                            channel.link().times().stack().held_by_peer());
  entry.request->timed(trip);
  if (channel.samples().answered(entry.number, trip.arrived_ns, now)) finish(channel);
}

void TripSampler::sample_answer(uint64_t incarnation, uint64_t sequence, uint64_t arrived_ns,
                                uint64_t read_ns) {
  Channel* channel = links_.of(incarnation);
  if (channel == nullptr || !channel->connection().sample_next()) return;
  channel->samples().begin_answer({sequence, arrived_ns, read_ns, clock_.now_ns()});
}

// One frame of a connection at a time is sampled: a request or an answer.
void TripSampler::sampled(Channel& channel, const SendMoments& moments) {
  if (!channel.up()) return;
  if (const auto answer = channel.samples().take_answer()) {
    tell(channel, *answer, moments);
    return;
  }
  if (channel.samples().sent(moments)) finish(channel);
  const uint64_t now = clock_.now_ns();
  if (channel.samples().acknowledged(moments, now))
    channel.link().times().acknowledged(less(moments.acknowledged_ns, moments.sent_ns), now);
}

void TripSampler::tell(Channel& channel, const AnswerSample& sample, const SendMoments& moments) {
  const wire::TimesFrame times{.request = sample.sequence,
                               .turnaround_ns = less(moments.sent_ns, sample.arrived_ns),
                               .receive_ns = less(sample.read_ns, sample.arrived_ns),
                               .send_ns = less(moments.sent_ns, sample.answered_ns),
                               .queue_ns = less(moments.sent_ns, moments.queued_ns)};
  channel.connection().send(wire::seal(wire::to_header(times)));
}

void TripSampler::take(Channel& channel, const wire::TimesFrame& times) {
  if (channel.samples().told(times)) finish(channel);
}

void TripSampler::finish(Channel& channel) {
  const std::optional<TripSample> complete = channel.samples().take_complete();
  if (!complete) return;
  const TripSample& sample = *complete;
  const SendMoments& moments = sample.moments;
  TripTimes times{};
  const auto at = [&times](TripPart part) -> uint64_t& { return times[static_cast<size_t>(part)]; };
  at(TripPart::kWire) = less(less(sample.arrived_ns, moments.sent_ns), sample.turnaround_ns);
  at(TripPart::kSendStack) = less(moments.queued_ns, moments.taken_ns);
  at(TripPart::kSendQdisc) = less(moments.sent_ns, moments.queued_ns);
  at(TripPart::kPeerReceive) = sample.peer_receive_ns;
  at(TripPart::kPeerSend) = sample.peer_send_ns;
  at(TripPart::kReceive) = less(sample.read_ns, sample.arrived_ns);
  // What waits in the queue of the device waits for the wire, and so does what waits in the socket
  // behind earlier bytes.
  const bool behind_others =
      moments.ahead_bytes > 0 || at(TripPart::kSendQdisc) > kDeviceIsFree_ns;
  channel.link().times().record(times,
                              {sample.length_bytes, at(TripPart::kSendStack),
                               less(sample.peer_send_ns, sample.peer_qdisc_ns), behind_others,
                               moments.peer_full},
                              sample.alone, clock_.now_ns());
}

}  // namespace twinblock
