// Frames that an input describes: with right checksums unless it says otherwise, so that mutations
// reach what lies behind the checks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/crc32c.h"
#include "base/limits.h"
#include "input.h"
#include "wire/codec.h"
#include "wire/frame_checks.h"

namespace twinblock::fuzz {

enum FrameManner : uint16_t {
  kInsideVolume = 1,  // the range is bent into the volume …
  kWholeBlocks = 2,   // … and onto blocks
  kLengthIsPayload = 4,
  kPayloadIsU16 = 8,  // else as long as suits the type
  kPayloadAtLimit = 16,
  kAnyType = 32,       // else one of the first 32
  kResealed = 64,      // a byte of the header is changed before its checksum is made
  kDamaged = 128,      // a byte is changed afterwards
  kWideNumbers = 256,  // offset and length are eight bytes of input and not blocks
  kAnswer = 512,       // status and durations are given
  kControl = 2048,     // the next one of the control stream
  kCut = 1024,         // only a part is sent
  kAnyField = 4096,    // fields that the type does not have keep what they were given
};

inline uint32_t natural_payload(const wire::FrameHeader& header, Input& input) {
  switch (static_cast<wire::FrameType>(header.type)) {
    case wire::FrameType::kHello:
      return sizeof(wire::HelloPayload);
    case wire::FrameType::kGeneration:
      return sizeof(wire::GenerationPayload);
    case wire::FrameType::kLinkChange:
      return sizeof(wire::LinkChangePayload);
    case wire::FrameType::kSettings:
      return sizeof(wire::SettingsPayload);
    case wire::FrameType::kProbeHost:
      return sizeof(wire::ProbeHostPayload);
    case wire::FrameType::kProbeAsk:
    case wire::FrameType::kProbeData:
      return input.take<uint16_t>();
    case wire::FrameType::kDirty:
      return (input.byte() & 1) != 0 ? limits::kMapChunkBitsBytes : 0;
    case wire::FrameType::kRefuse:
    case wire::FrameType::kGoodbye:
    case wire::FrameType::kPromoteAnswer:
    case wire::FrameType::kSnapshot:
      return input.byte();
    case wire::FrameType::kData:
      if ((header.flags & wire::kFlagZero) != 0) return 0;
      if ((header.flags & wire::kFlagCompressed) != 0) return input.take<uint16_t>();
      return static_cast<uint32_t>(std::min<uint64_t>(header.length, 2 * kMiB));
    default:
      return 0;
  }
}

// The next frame of `input`, as bytes. `sequence` is the number to give to it unless the input has
// one of its own; `control` is the last number of the control stream.
inline std::vector<std::byte> composed_frame(Input& input, uint64_t volume_bytes,
                                             uint64_t sequence = 0, uint64_t* control = nullptr) {
  const auto manner = input.take<uint16_t>();
  wire::FrameHeader header{};
  const uint8_t type = input.byte();
  header.type = (manner & kAnyType) != 0 ? type : type % (wire::kFrameTypeLast + 1);
  header.flags = input.byte();
  if ((manner & kWideNumbers) != 0) {
    header.offset = input.take<uint64_t>();
    header.length = input.take<uint64_t>();
    sequence = input.take<uint64_t>();
  } else {
    header.offset = uint64_t{input.byte()} * limits::kBlockBytes;
    header.length = uint64_t{input.byte()} * limits::kBlockBytes;
    sequence += input.byte();
  }
  header.sequence = sequence;
  if ((manner & kInsideVolume) != 0) {
    header.offset %= volume_bytes;
    header.length = std::min(header.length, volume_bytes - header.offset);
  }
  if ((manner & kWholeBlocks) != 0) {
    header.offset -= header.offset % limits::kBlockBytes;
    header.length -= header.length % limits::kBlockBytes;
  }
  if ((manner & kAnswer) != 0) {
    header.status = input.byte();
    header.aux0 = input.take<uint64_t>();
    header.aux1 = input.take<uint64_t>();
  }
  if ((manner & kControl) != 0) {
    header.flags = wire::kFlagControl;
    header.aux1 = control != nullptr ? ++*control : 1;
  }
  uint32_t payload_bytes = natural_payload(header, input);
  if ((manner & kPayloadIsU16) != 0) payload_bytes = input.take<uint16_t>();
  if ((manner & kPayloadAtLimit) != 0)
    payload_bytes = limits::kFramePayloadBytesMax - 128 + input.byte();
  if ((manner & kLengthIsPayload) != 0) header.length = payload_bytes;
  if ((manner & kAnyField) == 0) wire::clear_unused(header);
  const std::vector<std::byte> payload = repeated(input.bytes(input.byte()), payload_bytes);
  wire::HeaderBytes sealed = wire::seal(header, payload);
  if ((manner & kResealed) != 0) {
    constexpr size_t kCrcBytes = sizeof header.header_crc;
    sealed[kCrcBytes + input.below(sizeof header - kCrcBytes)] ^= std::byte{input.byte()};
    const uint32_t crc = crc32c(std::span(sealed).subspan(kCrcBytes));
    std::memcpy(sealed.data(), &crc, sizeof crc);
  }
  std::vector<std::byte> frame(sealed.begin(), sealed.end());
  frame.insert(frame.end(), payload.begin(), payload.end());
  if ((manner & kDamaged) != 0) frame[input.below(frame.size())] ^= std::byte{input.byte()};
  if ((manner & kCut) != 0) frame.resize(input.below(frame.size()));
  return frame;
}

}  // namespace twinblock::fuzz
