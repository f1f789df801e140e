#include "wire/codec.h"

#include <algorithm>
#include <cstring>

#include "base/checks.h"
#include "base/crc32c.h"
#include "wire/frame_checks.h"

namespace twinblock::wire {

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

namespace {

// A handshake record (RFC 8446, 5.1): what a node with a key says first to one without.
bool begins_tls(std::span<const std::byte, sizeof(FrameHeader)> bytes) {
  return bytes[0] == std::byte{22} && bytes[1] == std::byte{3};
}

}  // namespace

CheckedHeader check_header(std::span<const std::byte, sizeof(FrameHeader)> bytes,
                           uint64_t volume_bytes) {
  CheckedHeader result;
  FrameHeader& header = result.header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kMagic)
    result.error = begins_tls(bytes) ? kTlsHello : "not a twinblock frame (wrong magic)";
  else if (header.header_crc != crc32c(bytes.subspan(sizeof header.header_crc)))
    result.error = "a frame header with a wrong checksum";
  result.came_as_sent = result.error.empty();
  if (!result.came_as_sent) return result;
  result.error = header_problem(header, volume_bytes);
  return result;
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
template ProbeHostPayload payload_as<ProbeHostPayload>(std::span<const std::byte>);

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
  const Kind* kind = kind_of(type);
  return kind != nullptr ? kind->name : "unknown";
}

}  // namespace twinblock::wire
