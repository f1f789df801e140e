// Who is not the peer, but speaks from its address: with what was recorded of the peer, or with a
// hello that knows the right numbers and nothing else. No session may come to stand with it.
#include <algorithm>
#include <cstring>

#include "report.h"
#include "virtual_network.h"
#include "wire/codec.h"

namespace twinblock::sim {

using wire::FrameHeader;
using wire::FrameType;

namespace {

// So long a stranger holds a connection.
constexpr uint64_t kStay_ns = 2 * kSecond_ns;

FrameHeader header_at(std::span<const std::byte> bytes) {
  FrameHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  return header;
}

bool is(const FrameHeader& header, FrameType type) {
  return header.type == static_cast<uint8_t>(type);
}

// The hello that begins `said`, for another connection: it answers that one's challenge.
std::vector<std::byte> hello_for(std::span<const std::byte> said, uint64_t challenge) {
  constexpr size_t kWhole = sizeof(FrameHeader) + sizeof(wire::HelloPayload);
  if (said.size() < kWhole || !is(header_at(said), FrameType::kHello)) return {};
  const auto told = said.subspan(sizeof(FrameHeader), sizeof(wire::HelloPayload));
  auto hello = wire::payload_as<wire::HelloPayload>(told);
  hello.nonce = challenge + 1;
  hello.echo = challenge;
  const auto payload = wire::bytes_of(hello);
  const wire::HeaderBytes header = wire::seal(wire::header_of(FrameType::kHello), payload);
  std::vector<std::byte> bytes(header.begin(), header.end());
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

}  // namespace

void VirtualNetwork::record(const WirePtr& wire, int from, std::span<const std::byte> bytes) {
  if (wire->stranger >= 0) {
    stranger_hears(wire, bytes);
    return;
  }
  std::vector<std::byte>& said = wire->recording->said[index(from)];
  const size_t room = kRecordedBytes - std::min(kRecordedBytes, said.size());
  said.insert(said.end(), bytes.begin(),
              bytes.begin() + static_cast<std::ptrdiff_t>(std::min(room, bytes.size())));
}

// The oldest one that began with a hello, or with a join, and went on.
const VirtualNetwork::Recording* VirtualNetwork::recording_of(const Link& link, int dialler,
                                                              FrameType first) const {
  constexpr size_t kSome = sizeof(FrameHeader) + sizeof(wire::HelloPayload);
  for (const auto& recording : link.recordings)
    if (recording->dialler == dialler && recording->said[0].size() > kSome &&
        recording->said[1].size() > kSome && is(header_at(recording->said[index(dialler)]), first))
      return recording.get();
  return nullptr;
}

VirtualNetwork::WirePtr VirtualNetwork::stranger_calls(Link& link, int host) {
  if (!hosts_[index(host)].powered || !link.accepted[index(host)]) return nullptr;
  if (!carries(link, 0) || !carries(link, 1)) return nullptr;
  WirePtr wire = new_wire(link);
  wire->stranger = 1 - host;
  accept_soon(wire, host);
  return wire;
}

bool VirtualNetwork::replay(const std::string& name, int host) {
  Link& link = link_of(name);
  const bool joins = random_.chance(0.3);
  const Recording* recording =
      recording_of(link, 1 - host, joins ? FrameType::kJoin : FrameType::kHello);
  if (recording == nullptr) return false;
  const std::vector<std::byte> said = recording->said[index(1 - host)];
  const WirePtr wire = stranger_calls(link, host);
  if (wire == nullptr) return false;
  wire->lies = said;
  stranger_says(wire);
  return true;
}

bool VirtualNetwork::answer_with_recording(const std::string& name, int host) {
  Link& link = link_of(name);
  if (recording_of(link, host, FrameType::kHello) == nullptr) return false;
  link.haunted[index(host)] = true;
  return true;
}

bool VirtualNetwork::say_hello(const std::string& name, int host) {
  Link& link = link_of(name);
  const Recording* recording = recording_of(link, 1 - host, FrameType::kHello);
  if (recording == nullptr) return false;
  const std::vector<std::byte> said = recording->said[index(1 - host)];
  const WirePtr wire = stranger_calls(link, host);
  if (wire == nullptr) return false;
  wire->lies = said;
  wire->answers_hello = true;
  return true;
}

// All that it has to say; it leaves a while later.
void VirtualNetwork::stranger_says(const WirePtr& wire) {
  Pipe& pipe = wire->pipe[index(wire->stranger)];
  pipe.bytes.insert(pipe.bytes.end(), wire->lies.begin(), wire->lies.end());
  wire->lies.clear();
  taken(wire, wire->stranger, pipe.sent);
  scheduler_.after(kStay_ns, nullptr, [this, wire] { send_end(wire, wire->stranger, false); });
}

void VirtualNetwork::stranger_hears(const WirePtr& wire, std::span<const std::byte> bytes) {
  std::vector<std::byte>& heard = wire->heard;
  heard.insert(heard.end(), bytes.begin(), bytes.end());
  for (std::span<const std::byte> rest = heard; rest.size() >= sizeof(FrameHeader);) {
    const FrameHeader header = header_at(rest);
    if (is(header, FrameType::kHeartbeat))
      Report::violation("a session stands with a stranger who plays a recording");
    if (wire->answers_hello && is(header, FrameType::kChallenge)) {
      wire->answers_hello = false;
      wire->lies = hello_for(wire->lies, header.offset);
      stranger_says(wire);
    }
    const size_t length = sizeof header + header.payload_bytes;
    if (rest.size() < length) return;
    rest = rest.subspan(length);
  }
}

}  // namespace twinblock::sim
