// Making and checking frames: pure functions over bytes. A header is trusted only after
// check_header() has passed it, a payload only after check_payload(). Any thread.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "wire/frames.h"

namespace twinblock::wire {

// The error of what a node with a key says first to one without.
inline constexpr const char* kTlsHello =
    "a TLS hello: its links are encrypted, and this node has no key";

// A header with nothing but a type: frames.h makes those that say something.
inline FrameHeader header_of(FrameType type) {
  FrameHeader header{};
  header.type = static_cast<uint8_t>(type);
  return header;
}

using HeaderBytes = std::array<std::byte, sizeof(FrameHeader)>;

// Fills in magic, payload length and both checksums; `payload_crc` is crc32c(payload) where the
// caller has it already (worker threads compute it), else use the overload below.
HeaderBytes seal(FrameHeader header, uint32_t payload_bytes, uint32_t payload_crc);
HeaderBytes seal(FrameHeader header, std::span<const std::byte> payload = {});

// The header in `bytes` (64 of them), or a phrase that says what is wrong with it. Checks the
// magic, then the checksum, then all that frame_checks.h checks.
struct CheckedHeader {
  FrameHeader header{};
  std::string error;  // empty: good
  bool came_as_sent = false;  // its checksum is right: the sender is to blame for the error
};
CheckedHeader check_header(std::span<const std::byte, sizeof(FrameHeader)> bytes,
                           uint64_t volume_bytes);

bool check_payload(const FrameHeader& header, std::span<const std::byte> payload);

// Fixed-size payloads; the length was checked by check_header().
template <typename T>
T payload_as(std::span<const std::byte> payload);
template <typename T>
std::span<const std::byte> bytes_of(const T& payload) {
  return std::as_bytes(std::span<const T, 1>(&payload, 1));
}

// NUL-padded name fields.
void set_name(char (&field)[kNameBytes], std::string_view name);
std::string get_name(const char (&field)[kNameBytes]);

// Text of kRefuse, kGoodbye, kPromoteAnswer: printable, cut to kTextBytesMax; what a peer sent is
// stripped of control characters before it reaches a log.
std::string printable(std::span<const std::byte> text);
std::span<const std::byte> text_bytes(std::string_view text);

const char* frame_type_name(uint8_t type);

}  // namespace twinblock::wire
