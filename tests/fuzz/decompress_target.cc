// Decompression of payloads that come from a peer: no input makes it write more, or less, than the
// frame's range, or allocate by what the payload says; and what compress() makes comes back.
//
// Input: how long the range is, then either a payload as it is, or data that is compressed and then
// changed at some places.
#include <algorithm>
#include <cstring>

#include "base/limits.h"
#include "input.h"
#include "wire/compression.h"

namespace twinblock::fuzz {
namespace {

constexpr std::byte kCanary{0xC5};
constexpr size_t kCanaryBytes = 64;

// Decompresses into memory of its own, so that ASan sees both ends, and by itself looks whether all
// of it was written.
std::string decompressed(std::span<const std::byte> payload, std::vector<std::byte>& into) {
  // A payload is not aligned, and ends where its slab may end.
  const std::vector<std::byte> exact(payload.begin(), payload.end());
  const std::string error = wire::decompress(exact, into);
  require(printable_line(error), "an error that is no line", error);
  return error;
}

void check_foreign(std::span<const std::byte> payload, size_t expected_bytes) {
  std::vector<std::byte> first(expected_bytes, kCanary), second(expected_bytes, std::byte{0});
  const std::string error = decompressed(payload, first);
  const std::string again = decompressed(payload, second);
  require(error == again, "the same payload, another verdict: contexts remember", error + again);
  if (error.empty()) require(first == second, "a part of the range was not written");
  if (expected_bytes > 1) {
    std::vector<std::byte> shorter(expected_bytes - 1);
    require(!error.empty() || !decompressed(payload, shorter).empty(), "two lengths pass");
  }
}

std::vector<std::byte> data_from(Input& input, size_t length) {
  const auto manner = input.byte();
  std::vector<std::byte> data = repeated(input.bytes(input.byte()), length);
  // Stretches that do not compress.
  Noise noise(manner);
  for (uint64_t left = manner % 8; left > 0 && length > 0; --left) {
    const size_t at = noise.below(length);
    const size_t end = std::min<size_t>(length, at + noise.below(16384));
    for (size_t i = at; i < end; ++i) data[i] = static_cast<std::byte>(noise.below(256));
  }
  return data;
}

void check_own(Input& input, size_t length) {
  const int level = 1 + static_cast<int>(input.below(3));
  const std::vector<std::byte> data = data_from(input, length);
  std::vector<std::byte> payload(wire::compressed_bytes_max(length) + kCanaryBytes, kCanary);
  const size_t used = wire::compress(data, level, payload);
  require(used <= wire::compressed_bytes_max(length) && (used == 0 || used < length),
          "a payload that is longer than it may be");
  require(std::all_of(payload.end() - kCanaryBytes, payload.end(),
                      [](std::byte byte) { return byte == kCanary; }),
          "compressed past the room that there is");
  if (used == 0) return;
  payload.resize(used);
  std::vector<std::byte> back(length, kCanary);
  const std::string error = decompressed(payload, back);
  require(error.empty(), "what was compressed does not come back", error);
  require(back == data, "what was compressed comes back as something else");
  // Now changed, as no checksum would let it pass.
  while (!input.empty() && !payload.empty()) {
    const uint8_t kind = input.byte();
    const size_t at =
        input.take<uint16_t>() % std::min<size_t>(payload.size(), (kind & 1) != 0 ? 24 : 65536);
    if (kind % 8 == 6)
      payload.resize(at);
    else if (kind % 8 == 7)
      payload.insert(payload.end(), at % 300, kCanary);
    else
      payload[at] ^= std::byte{input.byte()};
  }
  check_foreign(payload, length);
}

}  // namespace
}  // namespace twinblock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace twinblock;
  using namespace twinblock::fuzz;
  static constexpr size_t kLengths[] = {1,     512,        4096,
                                        65536, 128 * kKiB, limits::kFramePayloadBytesMax};
  Input input(data, size);
  const uint8_t manner = input.byte();
  size_t length = kLengths[(manner >> 1) % std::size(kLengths)];
  if ((manner & 0x80) != 0) length = 1 + input.take<uint16_t>();
  if ((manner & 1) != 0)
    check_foreign(input.rest(), length);
  else
    check_own(input, length);
  return 0;
}
