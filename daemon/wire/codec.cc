#include "wire/codec.h"

#include <algorithm>
#include <cstring>

#include "base/checks.h"
#include "base/crc32c.h"
#include "base/limits.h"

namespace twinblock::wire {
namespace {

std::string range_error(const FrameHeader& header, uint64_t volume_bytes, uint64_t longest) {
  if (volume_bytes == 0)
    return std::string(frame_type_name(header.type)) + " frame before the handshake has finished";
  if (header.length == 0 || header.length > longest)
    return "a range of " + std::to_string(header.length) + " bytes";
  if (header.offset > volume_bytes || header.length > volume_bytes - header.offset)
    return "a range that ends outside the volume";
  return {};
}

std::string check_data(const FrameHeader& header, uint64_t volume_bytes) {
  const bool zero = (header.flags & kFlagZero) != 0;
  const bool compressed = (header.flags & kFlagCompressed) != 0;
  if (!zero && (header.flags & kFlagUnmap) != 0) return "a trim without the zero flag";
  if (zero && compressed) return "zeroes that are compressed";
  if (compressed && (header.payload_bytes == 0 || header.payload_bytes >= header.length))
    return "a compressed payload that is not shorter than its range";
  if (!compressed && header.payload_bytes != (zero ? 0 : header.length))
    return "a data frame whose payload and range differ in length";
  return range_error(header, volume_bytes,
                     zero ? limits::kFrameZeroBytesMax : limits::kFramePayloadBytesMax);
}

std::string check_compression(const FrameHeader& header) {
  if (header.sequence > 2 || header.offset < limits::kCompressionLevelMin ||
      header.offset > limits::kCompressionLevelMax)
    return "a mode or level of compression that does not exist";
  return {};
}

std::string check_digest(const FrameHeader& header, uint64_t volume_bytes) {
  if (header.offset % limits::kBlockBytes != 0 || header.length % limits::kBlockBytes != 0)
    return "a digest of half a block";
  return range_error(header, volume_bytes,
                     (header.flags & kFlagZero) != 0 ? limits::kFrameHoleBytesMax
                                                     : limits::kFramePayloadBytesMax);
}

std::string check_dirty(const FrameHeader& header, uint64_t volume_bytes) {
  if (header.offset % limits::kMapChunkBytes != 0) return "a chunk of a map at an odd offset";
  if (header.payload_bytes != 0 && header.payload_bytes != limits::kMapChunkBitsBytes)
    return "a chunk of a map with " + std::to_string(header.payload_bytes) + " bytes";
  return range_error(header, volume_bytes, limits::kMapChunkBytes);
}

// Fields of a header that a type uses; the others are zero.
enum Field : uint8_t {
  kSequence = 1,
  kOffset = 2,
  kLength = 4,
  kStatus = 8,
  kAux0 = 16,
  kAux1 = 32,  // also, where the flag says so: the number in the control stream
  kRange = kOffset | kLength,
  kAllFields = 63,
};

// What each type may carry, as one table: payload bounds, which flags are allowed.
struct Shape {
  uint32_t payload_min;
  uint32_t payload_max;
  uint8_t flags;
  bool handshake;  // allowed before the session stands
};

uint8_t fields_of(FrameType type) {
  switch (type) {
    case FrameType::kHello:
    case FrameType::kGoodbye:
    case FrameType::kSettings:
      return 0;
    case FrameType::kChallenge:
      return kOffset;
    case FrameType::kVerdict:
    case FrameType::kFlush:
    case FrameType::kGeneration:
    case FrameType::kRetire:
    case FrameType::kRetired:
    case FrameType::kLinkChange:
      return kSequence;
    case FrameType::kRole:
    case FrameType::kPromoteAsk:
      return kSequence | kOffset;
    case FrameType::kDirty:
    case FrameType::kProgress:
      return kRange;
    case FrameType::kData:
    case FrameType::kRead:
    case FrameType::kDigest:
    case FrameType::kCompression:
      return kSequence | kRange;
    case FrameType::kPromoteAnswer:
      return kSequence | kOffset | kStatus;
    case FrameType::kRefuse:
      return kSequence | kRange | kStatus;
    case FrameType::kJoin:
      return kSequence | kRange | kAux0;
    case FrameType::kHeartbeat:
      return kSequence | kRange | kStatus | kAux0 | kAux1;
    case FrameType::kTimes:
      return kSequence | kRange | kAux0 | kAux1;
    case FrameType::kAck:
      return kAllFields;
  }
  return kAllFields;
}


const Shape* shape_of(uint8_t type) {
  static constexpr Shape kHelloShape{sizeof(HelloPayload), sizeof(HelloPayload), 0, true};
  static constexpr Shape kTextShape{0, kTextBytesMax, 0, true};
  static constexpr Shape kBareHandshake{0, 0, 0, true};
  static constexpr Shape kBare{0, 0, 0, false};
  static constexpr Shape kDigestShape{0, 0, kFlagZero, false};
  static constexpr Shape kDataShape{0, limits::kFramePayloadBytesMax, kFlagsKnown, false};
  static constexpr Shape kAckShape{0, limits::kFramePayloadBytesMax, kFlagControl, false};
  static constexpr Shape kGenerationShape{sizeof(GenerationPayload), sizeof(GenerationPayload),
                                          kFlagControl, false};
  static constexpr Shape kDirtyShape{0, limits::kMapChunkBitsBytes, kFlagControl, false};
  static constexpr Shape kLinkChangeShape{sizeof(LinkChangePayload), sizeof(LinkChangePayload),
                                          kFlagControl, false};
  static constexpr Shape kSettingsShape{sizeof(SettingsPayload), sizeof(SettingsPayload),
                                        kFlagControl, false};
  static constexpr Shape kTold{0, 0, kFlagControl, false};
  static constexpr Shape kToldText{0, kTextBytesMax, kFlagControl, false};
  switch (static_cast<FrameType>(type)) {
    case FrameType::kHello:
      return &kHelloShape;
    case FrameType::kRefuse:
      return &kTextShape;
    case FrameType::kGoodbye:
    case FrameType::kPromoteAnswer:
      return &kToldText;
    case FrameType::kVerdict:
    case FrameType::kJoin:
    case FrameType::kChallenge:
      return &kBareHandshake;
    case FrameType::kData:
      return &kDataShape;
    case FrameType::kAck:
      return &kAckShape;
    case FrameType::kGeneration:
      return &kGenerationShape;
    case FrameType::kHeartbeat:
    case FrameType::kTimes:
    case FrameType::kFlush:
    case FrameType::kRead:
      return &kBare;
    case FrameType::kDigest:
      return &kDigestShape;
    case FrameType::kRole:
    case FrameType::kPromoteAsk:
    case FrameType::kProgress:
    case FrameType::kCompression:
    case FrameType::kRetire:
    case FrameType::kRetired:
      return &kTold;
    case FrameType::kLinkChange:
      return &kLinkChangeShape;
    case FrameType::kSettings:
      return &kSettingsShape;
    case FrameType::kDirty:
      return &kDirtyShape;
  }
  return nullptr;
}

}  // namespace

HeaderBytes seal(FrameHeader header, uint32_t payload_bytes, uint32_t payload_crc) {
  header.magic = kMagic;
  header.reserved0 = 0;
  header.payload_bytes = payload_bytes;
  header.payload_crc = payload_bytes == 0 ? 0 : payload_crc;
  HeaderBytes bytes;
  std::memcpy(bytes.data(), &header, sizeof header);
  const uint32_t crc = crc32c(std::span(bytes).subspan(sizeof header.header_crc));
  std::memcpy(bytes.data(), &crc, sizeof crc);
  return bytes;
}

HeaderBytes seal(FrameHeader header, std::span<const std::byte> payload) {
  return seal(header, static_cast<uint32_t>(payload.size()), crc32c(payload));
}

CheckedHeader check_header(std::span<const std::byte, sizeof(FrameHeader)> bytes,
                           uint64_t volume_bytes) {
  CheckedHeader result;
  FrameHeader& header = result.header;
  std::memcpy(&header, bytes.data(), sizeof header);
  const auto fail = [&result](std::string why) {
    result.error = std::move(why);
    return result;
  };
  if (header.magic != kMagic) return fail("not a twinblock frame (wrong magic)");
  if (header.header_crc != crc32c(bytes.subspan(sizeof header.header_crc)))
    return fail("a frame header with a wrong checksum");
  const Shape* shape = shape_of(header.type);
  if (shape == nullptr) return fail("a frame of unknown type " + std::to_string(header.type));
  const std::string name = frame_type_name(header.type);
  if (header.reserved0 != 0 || (header.flags & ~shape->flags) != 0)
    return fail(name + " frame with flags that version 1 does not have");
  FrameHeader plain = header;
  clear_unused(plain);
  if (std::memcmp(&plain, &header, sizeof plain) != 0)
    return fail(name + " frame with a field that it does not have in version 1");
  if (header.payload_bytes < shape->payload_min || header.payload_bytes > shape->payload_max)
    return fail(name + " frame with a payload of " + std::to_string(header.payload_bytes) +
                " bytes");
  if (volume_bytes == 0 && !shape->handshake)
    return fail(name + " frame before the handshake has finished");
  if (header.type == static_cast<uint8_t>(FrameType::kData))
    result.error = check_data(header, volume_bytes);
  if (header.type == static_cast<uint8_t>(FrameType::kRead))
    result.error = range_error(header, volume_bytes, limits::kFramePayloadBytesMax);
  if (header.type == static_cast<uint8_t>(FrameType::kDigest))
    result.error = check_digest(header, volume_bytes);
  if (header.type == static_cast<uint8_t>(FrameType::kDirty))
    result.error = check_dirty(header, volume_bytes);
  if (header.type == static_cast<uint8_t>(FrameType::kCompression))
    result.error = check_compression(header);
  return result;
}

void clear_unused(FrameHeader& header) {
  uint8_t used = fields_of(FrameType{header.type});
  if ((header.flags & kFlagControl) != 0) used |= kAux1;
  if ((used & kSequence) == 0) header.sequence = 0;
  if ((used & kOffset) == 0) header.offset = 0;
  if ((used & kLength) == 0) header.length = 0;
  if ((used & kStatus) == 0) header.status = 0;
  if ((used & kAux0) == 0) header.aux0 = 0;
  if ((used & kAux1) == 0) header.aux1 = 0;
}

bool check_payload(const FrameHeader& header, std::span<const std::byte> payload) {
  return payload.size() == header.payload_bytes &&
         (payload.empty() || crc32c(payload) == header.payload_crc);
}

template <typename T>
T payload_as(std::span<const std::byte> payload) {
  TB_CHECK(payload.size() == sizeof(T), "payload length was checked with the header");
  T value;
  std::memcpy(&value, payload.data(), sizeof value);
  return value;
}
template HelloPayload payload_as<HelloPayload>(std::span<const std::byte>);
template SettingsPayload payload_as<SettingsPayload>(std::span<const std::byte>);
template LinkChangePayload payload_as<LinkChangePayload>(std::span<const std::byte>);
template GenerationPayload payload_as<GenerationPayload>(std::span<const std::byte>);

void set_name(char (&field)[kNameBytes], std::string_view name) {
  TB_CHECK(name.size() < kNameBytes, "names are checked with the configuration");
  std::memset(field, 0, kNameBytes);
  std::memcpy(field, name.data(), name.size());
}

std::string get_name(const char (&field)[kNameBytes]) {
  const size_t length = strnlen(field, kNameBytes);
  return printable(std::as_bytes(std::span(field, length)));
}

std::string printable(std::span<const std::byte> text) {
  std::string result(text.size(), '?');
  std::transform(text.begin(), text.end(), result.begin(), [](std::byte b) {
    const char c = static_cast<char>(b);
    return (c >= ' ' && c <= '~') ? c : '?';
  });
  return result;
}

std::span<const std::byte> text_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.substr(0, kTextBytesMax)));
}

const char* frame_type_name(uint8_t type) {
  switch (static_cast<FrameType>(type)) {
    case FrameType::kHello:
      return "hello";
    case FrameType::kRefuse:
      return "refuse";
    case FrameType::kVerdict:
      return "verdict";
    case FrameType::kData:
      return "data";
    case FrameType::kFlush:
      return "flush";
    case FrameType::kRead:
      return "read";
    case FrameType::kAck:
      return "ack";
    case FrameType::kHeartbeat:
      return "heartbeat";
    case FrameType::kRole:
      return "role";
    case FrameType::kPromoteAsk:
      return "promote-ask";
    case FrameType::kPromoteAnswer:
      return "promote-answer";
    case FrameType::kGeneration:
      return "generation";
    case FrameType::kGoodbye:
      return "goodbye";
    case FrameType::kProgress:
      return "progress";
    case FrameType::kDigest:
      return "digest";
    case FrameType::kDirty:
      return "dirty";
    case FrameType::kTimes:
      return "times";
    case FrameType::kCompression:
      return "compression";
    case FrameType::kJoin:
      return "join";
    case FrameType::kRetire:
      return "retire";
    case FrameType::kRetired:
      return "retired";
    case FrameType::kLinkChange:
      return "link-change";
    case FrameType::kChallenge:
      return "challenge";
    case FrameType::kSettings:
      return "settings";
  }
  return "unknown";
}

}  // namespace twinblock::wire
