#include "wire/frame_checks.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/limits.h"
#include "base/snapshot_name.h"
#include "base/units.h"
#include "wire/codec.h"

namespace twinblock::wire {
namespace {

// What a field's own bounds can't say, frame by frame.
template <typename Frame>
std::string range_problem(const Frame& frame, uint64_t volume_bytes, uint64_t longest) {
  if (frame.length_bytes == 0 || frame.length_bytes > longest)
    return "with a range of " + std::to_string(frame.length_bytes) + " bytes";
  if (frame.offset_bytes > volume_bytes || frame.length_bytes > volume_bytes - frame.offset_bytes)
    return "with a range that ends outside the volume";
  return {};
}

template <typename Frame>
std::string problem_of(const Frame&, uint32_t, uint64_t) {
  return {};
}

std::string problem_of(const DataFrame& data, uint32_t payload_bytes, uint64_t volume_bytes) {
  if (!data.zero && data.unmap) return "that trims without the zero flag";
  if (data.zero && data.compressed) return "with zeroes that are compressed";
  if (data.compressed && (payload_bytes == 0 || payload_bytes >= data.length_bytes))
    return "with a compressed payload that is not shorter than its range";
  if (!data.compressed && payload_bytes != (data.zero ? 0 : data.length_bytes))
    return "whose payload and range differ in length";
  return range_problem(data, volume_bytes,
                       data.zero ? limits::kFrameZeroBytesMax : limits::kFramePayloadBytesMax);
}

std::string problem_of(const ReadFrame& read, uint32_t, uint64_t volume_bytes) {
  return range_problem(read, volume_bytes, limits::kFramePayloadBytesMax);
}

std::string problem_of(const DigestFrame& digest, uint32_t, uint64_t volume_bytes) {
  if (digest.offset_bytes % limits::kBlockBytes != 0 ||
      digest.length_bytes % limits::kBlockBytes != 0)
    return "of half a block";
  return range_problem(digest, volume_bytes,
                       digest.hole ? limits::kFrameHoleBytesMax : limits::kFramePayloadBytesMax);
}

std::string problem_of(const DirtyFrame& dirty, uint32_t payload_bytes, uint64_t volume_bytes) {
  if (dirty.offset_bytes % limits::kMapChunkBytes != 0)
    return "with a chunk of a map at an odd offset";
  if (payload_bytes != 0 && payload_bytes != limits::kMapChunkBitsBytes)
    return "with a chunk of a map of " + std::to_string(payload_bytes) + " bytes";
  return range_problem(dirty, volume_bytes, limits::kMapChunkBytes);
}

std::string problem_of(const ProgressFrame& progress, uint32_t, uint64_t) {
  return progress.done_bytes > progress.total_bytes ? "with more done than there is" : "";
}

std::string problem_of(const ProbeReportFrame&, uint32_t payload_bytes, uint64_t) {
  return payload_bytes % sizeof(uint32_t) != 0 ? "with a part of a number" : "";
}

// --- payloads

std::string problem_of(const GenerationPayload& payload) {
  const uint32_t flags = payload.flags;
  if (flags != kGenerationInconsistent && flags != kGenerationConsistent &&
      flags != kGenerationSoleCopy)
    return "whose flags are " + std::to_string(flags) + ", which version 1 does not have";
  return payload.reserved != 0 ? "whose reserved field is not zero" : "";
}

std::string problem_of(const LinkChangePayload& payload) {
  if (payload.change < static_cast<uint32_t>(LinkChange::kAdd) ||
      payload.change > static_cast<uint32_t>(LinkChange::kDisable))
    return "whose change is " + std::to_string(payload.change) + " (1 to 4)";
  if (payload.reserved != 0) return "whose reserved field is not zero";
  const bool padded = is_padded(payload.name) && is_padded(payload.address[0]) &&
                      is_padded(payload.address[1]);
  return padded ? "" : "with a name or address that does not end";
}

std::string timeout_problem(const char* name, uint64_t told_ns, uint64_t least_ns, uint64_t most_ns) {
  if (told_ns >= least_ns && told_ns <= most_ns) return {};
  return std::string("whose ") + name + " is " + format_duration(told_ns) + " (" + format_duration(least_ns) +
         " to " + format_duration(most_ns) + ")";
}

std::string problem_of(const SettingsPayload& payload) {
  for (const auto& [name, told_ns] : {std::pair{"peer_timeout", payload.peer_timeout_ns},
                                      std::pair{"disk_timeout", payload.disk_timeout_ns}})
    if (std::string problem = timeout_problem(name, told_ns, limits::kTimeoutMin_ns, limits::kTimeoutMax_ns);
        !problem.empty())
      return problem;
  if (std::string problem = timeout_problem("link_timeout", payload.link_timeout_ns, limits::kLinkTimeoutMin_ns,
                                            limits::kLinkTimeoutMax_ns);
      !problem.empty())
    return problem;
  if (payload.on_peer_loss > 1)
    return "whose on_peer_loss is " + std::to_string(payload.on_peer_loss) + " (0 to 1)";
  if (payload.compression > kCompressionModeMax)
    return "whose compression is " + std::to_string(payload.compression) + " (0 to 2)";
  if (payload.level < limits::kCompressionLevelMin || payload.level > limits::kCompressionLevelMax)
    return "whose level is " + std::to_string(payload.level) + " (1 to 19)";
  if (payload.links > kSettingsLinks)
    return "with " + std::to_string(payload.links) + " links (0 to 8)";
  if (payload.witness > kWitnessKindMax)
    return "whose witness is " + std::to_string(payload.witness) + " (0 to 2)";
  if (std::ranges::any_of(payload.reserved, [](uint8_t byte) { return byte != 0; }))
    return "whose reserved field is not zero";
  static constexpr SettingsPayload::Link kNone{};
  for (size_t i = 0; i < kSettingsLinks; ++i) {
    const SettingsPayload::Link& link = payload.link[i];
    if (i >= payload.links && std::memcmp(&link, &kNone, sizeof link) != 0)
      return "with a link behind the last one";
    if (!is_padded(link.name) || !is_padded(link.address[0]) || !is_padded(link.address[1]))
      return "with a name or address that does not end";
  }
  return {};
}

std::string problem_of(const ProbeHostPayload& payload) {
  if (payload.half_duplex > 1)
    return "whose half duplex is " + std::to_string(payload.half_duplex) + " (0 to 1)";
  const bool padded = is_padded(payload.interface) && is_padded(payload.congestion);
  return padded ? "" : "with a name that does not end";
}

// --- all types in one table

// An answer on the control stream says nothing of times.
template <typename Frame>
FrameHeader used_in_order_too(const FrameHeader& header) {
  FrameHeader used = used_fields<Frame>(header);
  if (std::is_same_v<Frame, AckFrame> && is_ordered(header)) used.length = used.aux0 = used.offset = 0;
  return used;
}

struct Checks {
  Kind kind;
  uint8_t flags;
  std::string (*problem)(const FrameHeader& header, uint64_t volume_bytes);
  FrameHeader (*used)(const FrameHeader& header);
};

template <typename Frame>
std::string problem_as(const FrameHeader& header, uint64_t volume_bytes) {
  std::string problem = value_problem<Frame>(header);
  if (problem.empty())
    problem = problem_of(frame_as<Frame>(header), header.payload_bytes, volume_bytes);
  return problem;
}

using ChecksByType = std::array<Checks, kFrameTypeLast + 1>;

template <typename... Frames>
constexpr ChecksByType checks_of(FrameList<Frames...>) {
  ChecksByType checks{};
  ((checks[static_cast<size_t>(Frames::kKind.type)] = {
        Frames::kKind, flags_of<Frames>(), problem_as<Frames>, used_in_order_too<Frames>}),
   ...);
  return checks;
}

constexpr ChecksByType kChecks = checks_of(AllFrames{});

// (A type without a frame has an empty row, whose type is 0.)
constexpr bool each_type_has_its_frame() {
  for (size_t type = 0; type < kChecks.size(); ++type)
    if (static_cast<size_t>(kChecks[type].kind.type) != type) return false;
  return true;
}
static_assert(each_type_has_its_frame());

// The last slot is the number on the control stream in a frame that may travel there.
template <typename... Frames>
constexpr bool the_stream_s_number_has_its_slot(FrameList<Frames...>) {
  bool free = true;
  const auto look = [&free]<typename Frame>(const Frame*) {
    if ((flags_of<Frame>() & kFlagControl) == 0) return;
    each_field<Frame>([&free](const auto& each) {
      if constexpr (!kIsFlag<std::remove_cvref_t<decltype(each)>>) {
        if constexpr (std::is_same_v<decltype(each.slot), uint64_t FrameHeader::*>)
          free = free && each.slot != &FrameHeader::aux1;
      }
    });
  };
  (look(static_cast<const Frames*>(nullptr)), ...);
  return free;
}
static_assert(the_stream_s_number_has_its_slot(AllFrames{}));

const Checks* checks_for(uint8_t type) {
  return type != 0 && type < kChecks.size() ? &kChecks[type] : nullptr;
}

// The first slot that is not zero although the type does not have it.
std::string unused_slot(const FrameHeader& header, const FrameHeader& used) {
  if (header.sequence != used.sequence) return "sequence";
  if (header.offset != used.offset) return "offset";
  if (header.length != used.length) return "length";
  if (header.status != used.status) return "status";
  return header.aux0 != used.aux0 ? "aux0" : "aux1";
}

}  // namespace

std::string value_words(const char* name, uint64_t value, uint64_t least, uint64_t most) {
  return std::string("whose ") + name + " is " + std::to_string(value) + " (" + std::to_string(least) + " to " +
         std::to_string(most) + ")";
}

bool is_padded(const char (&name)[kNameBytes]) {
  return std::all_of(name + strnlen(name, kNameBytes), name + kNameBytes,
                     [](char c) { return c == 0; }) &&
         name[kNameBytes - 1] == 0;
}

const Kind* kind_of(uint8_t type) {
  const Checks* checks = checks_for(type);
  return checks != nullptr ? &checks->kind : nullptr;
}

std::string header_problem(const FrameHeader& header, uint64_t volume_bytes) {
  const Checks* checks = checks_for(header.type);
  if (checks == nullptr) return "a frame of unknown type " + std::to_string(header.type);
  const auto told = [checks](const std::string& problem) {
    return std::string(checks->kind.name) + " frame " + problem;
  };
  if (header.reserved0 != 0 || (header.flags & ~checks->flags) != 0)
    return told("with flags that version 1 does not have");
  const FrameHeader used = checks->used(header);
  if (std::memcmp(&used, &header, sizeof used) != 0)
    return told("with a field that it does not have in version 1 (" + unused_slot(header, used) +
                ")");
  if (header.payload_bytes < checks->kind.payload_min ||
      header.payload_bytes > checks->kind.payload_max)
    return told("with a payload of " + std::to_string(header.payload_bytes) + " bytes");
  if (header.payload_bytes == 0 && header.payload_crc != 0) return told("with the checksum of a payload, and without one");
  if (volume_bytes == 0 && checks->kind.stream != Stream::kHandshake)
    return told("before the handshake has finished");
  std::string problem = checks->problem(header, volume_bytes);
  return problem.empty() ? problem : told(problem);
}

std::string payload_problem(const FrameHeader& header, std::span<const std::byte> payload) {
  std::string problem;
  switch (static_cast<FrameType>(header.type)) {
    case FrameType::kGeneration:
      problem = problem_of(payload_as<GenerationPayload>(payload));
      break;
    case FrameType::kLinkChange:
      problem = problem_of(payload_as<LinkChangePayload>(payload));
      break;
    case FrameType::kSettings:
      problem = problem_of(payload_as<SettingsPayload>(payload));
      break;
    case FrameType::kProbeHost:
      problem = problem_of(payload_as<ProbeHostPayload>(payload));
      break;
    case FrameType::kSnapshot:
      if (!is_snapshot_name({reinterpret_cast<const char*>(payload.data()), payload.size()}))
        problem = "with a name that no snapshot has";
      break;
    default:
      break;
  }
  return problem.empty() ? "" : frame_type_name(header.type) + (" frame " + problem);
}

void clear_unused(FrameHeader& header) {
  if (const Checks* checks = checks_for(header.type)) header = checks->used(header);
}

}  // namespace twinblock::wire
