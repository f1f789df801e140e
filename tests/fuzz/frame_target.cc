// The frame decoder: wire/frame_reader.h over a connection whose bytes arrive in any portions,
// against a decoder that has all bytes at once. Whatever the portions, and whatever is still held
// of earlier payloads, both see the same frames; what passes is within every bound of PROTOCOL.md.
//
// Input: volume size, when it becomes known, portions, then either the stream itself or
// descriptions of frames (composed_frame.h).
#include <algorithm>
#include <cstring>
#include <deque>
#include <vector>

#include "composed_frame.h"
#include "input.h"
#include "metadata/block_map.h"
#include "wire/frame_checks.h"
#include "wire/frame_reader.h"

namespace twinblock::fuzz {
namespace {

using wire::FrameHeader;
using wire::FrameReader;
using wire::FrameType;

constexpr size_t kStreamBytesMax = 3 * kMiB;
constexpr size_t kHeldMax = 6;
constexpr uint64_t kVolumes[] = {64 * kKiB, 1 * kMiB, 128 * kMiB, 128 * kMiB + 64 * kKiB,
                                 64 * kTiB};

// Bytes that arrive in portions, and reads that get less than is there.
class ScriptedConnection final : public Connection {
 public:
  ScriptedConnection(std::span<const std::byte> stream, Noise& noise, bool short_reads)
      : stream_(stream), noise_(noise), short_reads_(short_reads) {}
  void set_handler(ConnectionHandler*) override {}
  size_t read(std::span<std::byte> into) override {
    size_t got = std::min(into.size(), unread());
    require(!into.empty(), "a read without room");
    if (short_reads_ && got > 1) got = 1 + noise_.below(got);
    if (got > 0) std::memcpy(into.data(), stream_.data() + read_, got);
    read_ += got;
    return got;
  }
  void send(std::span<const std::byte>, std::span<const std::byte>) override {}
  void pause_reading(bool) override {}
  [[nodiscard]] uint64_t queued_bytes_total() const override { return 0; }
  [[nodiscard]] uint64_t sent_bytes_total() const override { return 0; }
  [[nodiscard]] std::string peer_address() const override { return "fuzz"; }

  void arrive(size_t bytes) { arrived_ = std::min(stream_.size(), arrived_ + bytes); }
  [[nodiscard]] size_t unread() const { return arrived_ - read_; }
  [[nodiscard]] size_t read_total() const { return read_; }
  [[nodiscard]] bool all_arrived() const { return arrived_ == stream_.size(); }

 private:
  std::span<const std::byte> stream_;
  Noise& noise_;
  const bool short_reads_;
  size_t arrived_ = 0;
  size_t read_ = 0;
};

void inside(const FrameHeader& header, uint64_t volume_bytes, uint64_t longest) {
  require(header.length > 0 && header.length <= longest, "a range of a forbidden length passed");
  require(header.offset < volume_bytes && header.length <= volume_bytes - header.offset,
          "a range outside the volume passed");
}

void check_bounds(const FrameHeader& header, uint64_t volume_bytes) {
  require(header.magic == wire::kMagic, "a wrong magic passed");
  require(header.payload_bytes <= limits::kFramePayloadBytesMax, "too long a payload passed");
  const auto type = static_cast<FrameType>(header.type);
  require(std::strcmp(wire::frame_type_name(header.type), "unknown") != 0,
          "an unknown type passed");
  switch (type) {
    case FrameType::kData:
      if ((header.flags & wire::kFlagZero) != 0) {
        require(header.payload_bytes == 0, "a zero frame with a payload passed");
        inside(header, volume_bytes, limits::kFrameZeroBytesMax);
        break;
      }
      inside(header, volume_bytes, limits::kFramePayloadBytesMax);
      require((header.flags & wire::kFlagUnmap) == 0, "an unmap without zero passed");
      if ((header.flags & wire::kFlagCompressed) != 0)
        require(header.payload_bytes > 0 && header.payload_bytes < header.length,
                "compressed data that is not shorter passed");
      else
        require(header.payload_bytes == header.length, "data of another length passed");
      break;
    case FrameType::kRead:
      inside(header, volume_bytes, limits::kFramePayloadBytesMax);
      break;
    case FrameType::kDigest:
      inside(header, volume_bytes,
             (header.flags & wire::kFlagZero) != 0 ? limits::kFrameHoleBytesMax
                                                   : limits::kFramePayloadBytesMax);
      require(header.offset % limits::kBlockBytes == 0 && header.length % limits::kBlockBytes == 0,
              "a digest of half a block passed");
      break;
    case FrameType::kDirty:
      inside(header, volume_bytes, limits::kMapChunkBytes);
      require(header.offset % limits::kMapChunkBytes == 0, "a chunk at an odd offset passed");
      require(header.payload_bytes == 0 || header.payload_bytes == limits::kMapChunkBitsBytes,
              "a bitmap of another size passed");
      break;
    case FrameType::kHello:
      require(header.payload_bytes == sizeof(wire::HelloPayload), "a hello of another size passed");
      break;
    case FrameType::kGeneration:
      require(header.payload_bytes == sizeof(wire::GenerationPayload),
              "a generation of another size passed");
      break;
    case FrameType::kRefuse:
    case FrameType::kGoodbye:
    case FrameType::kPromoteAnswer:
      require(header.payload_bytes <= wire::kTextBytesMax, "too long a text passed");
      break;
    default:
      break;
  }
  const bool data = type == FrameType::kData || type == FrameType::kRead ||
                    type == FrameType::kDigest || type == FrameType::kDirty ||
                    type == FrameType::kFlush || type == FrameType::kAck;
  require(volume_bytes != 0 || !data, "a frame of the session passed before it stands");
}

// What the engine does with a payload next.
void use(const FrameHeader& header, std::span<const std::byte> payload, uint64_t volume_bytes) {
  if (header.type == static_cast<uint8_t>(FrameType::kRefuse)) {
    const std::string text = wire::printable(payload);
    require(text.size() == payload.size() && printable_line(text), "a text that is not printable");
  }
  if (header.type == static_cast<uint8_t>(FrameType::kDirty) && volume_bytes <= kGiB) {
    BlockMap map(volume_bytes);
    if (!map.merge_chunk({header.offset, header.length, payload})) {
      require(map.empty(), "a chunk that was refused changed the map");
      return;
    }
    uint64_t found = 0;
    for (uint64_t from = 0; const auto run = map.next_run(from, kGiB); from = run->end_bytes) {
      require(run->end_bytes <= volume_bytes && run->length() > 0, "a run outside the volume");
      found += run->length();
    }
    require(found == map.set_bytes(), "a map that has miscounted");
  }
}

struct Expected {
  struct Frame {
    FrameHeader header;
    std::span<const std::byte> payload;  // within the stream
  };
  std::vector<Frame> frames;
  bool error = false;
};

struct Plan {
  uint64_t volume_bytes;
  size_t handshake_frames;  // after so many, the volume's size is known
};

Expected decode_all(std::span<const std::byte> rest, const Plan& plan) {
  Expected expected;
  while (rest.size() >= sizeof(FrameHeader)) {
    const bool known = expected.frames.size() >= plan.handshake_frames;
    const uint64_t volume_bytes = known ? plan.volume_bytes : 0;
    const wire::CheckedHeader checked =
        wire::check_header(rest.first<sizeof(FrameHeader)>(), volume_bytes);
    if (!checked.error.empty()) {
      require(printable_line(checked.error), "an error that is no line");
      expected.error = true;
      break;
    }
    check_bounds(checked.header, volume_bytes);
    rest = rest.subspan(sizeof(FrameHeader));
    if (rest.size() < checked.header.payload_bytes) break;
    const auto payload = rest.first(checked.header.payload_bytes);
    if (!wire::check_payload(checked.header, payload) ||
        !wire::payload_problem(checked.header, payload).empty()) {
      expected.error = true;
      break;
    }
    use(checked.header, payload, volume_bytes);
    expected.frames.push_back({checked.header, payload});
    rest = rest.subspan(payload.size());
  }
  return expected;
}

// What has come out of the reader so far, and payloads that are still on their way to a disk.
class Receiver {
 public:
  Receiver(const Expected& expected, const Plan& plan, Noise& noise)
      : expected_(expected), plan_(plan), noise_(noise) {
    learn();
  }
  // As Session does it: until nothing more comes. False: the stream is in error.
  bool readable(ScriptedConnection& connection) {
    reader_.begin_turn();
    for (;;) {
      switch (reader_.next(connection, frame_)) {
        case FrameReader::Outcome::kNothing:
          return true;
        case FrameReader::Outcome::kFrame:
          take();
          break;
        case FrameReader::Outcome::kError:
          require(expected_.error && taken_ == expected_.frames.size(), "a good frame was refused");
          require(!reader_.error().empty(), "an error without words");
          return false;
      }
    }
  }
  void release_all() {
    while (!held_.empty()) release(0);
  }
  [[nodiscard]] size_t taken() const { return taken_; }
  [[nodiscard]] const FrameReader& reader() const { return reader_; }

 private:
  struct Held {
    wire::Frame frame;
    std::span<const std::byte> payload;
  };
  void learn() {
    if (taken_ == plan_.handshake_frames) reader_.set_volume_bytes(plan_.volume_bytes);
  }
  void take() {
    require(taken_ < expected_.frames.size(), "a frame that nobody sent");
    const Expected::Frame& expected = expected_.frames[taken_++];
    learn();
    require(std::memcmp(&frame_.header, &expected.header, sizeof(FrameHeader)) == 0,
            "another header than was sent");
    same(frame_, expected.payload);
    require(frame_.payload.empty() == (frame_.keeps_payload == nullptr),
            "a payload that nobody keeps");
    held_.push_back({frame_, expected.payload});
    while (held_.size() > noise_.below(kHeldMax)) release(noise_.below(held_.size()));
  }
  static void same(const wire::Frame& frame, std::span<const std::byte> payload) {
    require(std::equal(frame.payload.begin(), frame.payload.end(), payload.begin(), payload.end()),
            "a payload that is not, or no longer, what was sent");
  }
  void release(size_t index) {
    same(held_[index].frame, held_[index].payload);
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  const Expected& expected_;
  const Plan& plan_;
  Noise& noise_;
  FrameReader reader_;
  wire::Frame frame_;
  std::deque<Held> held_;
  size_t taken_ = 0;
};

void receive(std::span<const std::byte> stream, const Plan& plan, uint8_t manner) {
  const Expected expected = decode_all(stream, plan);
  Noise noise(manner);
  ScriptedConnection connection(stream, noise, (manner & 1) != 0);
  constexpr size_t kPortions[] = {kStreamBytesMax, 256 * kKiB, 2000, 65};
  const size_t portion = std::max(kPortions[(manner >> 1) & 3], stream.size() / 500);
  Receiver receiver(expected, plan, noise);
  bool good = true;
  while (good) {
    connection.arrive(1 + noise.below(portion));
    do {
      const size_t read = connection.read_total(), taken = receiver.taken();
      good = receiver.readable(connection);
      require(!good || connection.unread() == 0 || connection.read_total() > read ||
                  receiver.taken() > taken,
              "a turn without progress although bytes are there");
    } while (good && connection.unread() > 0);
    if (connection.all_arrived()) break;
  }
  require(good == !expected.error, good ? "a bad frame passed" : "a good frame was refused");
  require(receiver.taken() == expected.frames.size(), "a frame is missing");
  require(receiver.reader().received_bytes_total() == connection.read_total(),
          "received bytes are miscounted");
  receiver.release_all();
}

}  // namespace
}  // namespace twinblock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace twinblock::fuzz;
  Input input(data, size);
  Plan plan{};
  plan.volume_bytes = input.one_of(kVolumes);
  const uint8_t handshake_frames = input.byte();
  plan.handshake_frames = handshake_frames % 8;
  const uint8_t manner = input.byte();
  std::vector<std::byte> stream;
  if ((manner & 0x80) != 0) {
    const auto raw = input.rest();
    stream.assign(raw.begin(), raw.end());
  }
  while (!input.empty() && stream.size() < kStreamBytesMax) {
    const std::vector<std::byte> frame = composed_frame(input, plan.volume_bytes);
    stream.insert(stream.end(), frame.begin(), frame.end());
  }
  receive(stream, plan, manner);
  return 0;
}
