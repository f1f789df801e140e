// Frames: what passes the checks and what does not, and how a byte stream is cut into them.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "allocated_bytes.h"
#include "base/crc32c.h"
#include "base/limits.h"
#include "wire/codec.h"
#include "wire/frame_checks.h"
#include "wire/frame_reader.h"

namespace twinblock::wire {
namespace {

constexpr uint64_t kVolume = 16 * kMiB;
using Bytes = std::vector<std::byte>;

FrameHeader data_header(uint64_t offset, uint64_t length, uint8_t flags = 0) {
  FrameHeader header = header_of(FrameType::kData);
  header.flags = flags;
  header.offset = offset;
  header.length = length;
  header.sequence = 7;
  return header;
}

// With nothing that is refused.
FrameHeader plain_header(FrameType type) {
  return type == FrameType::kVerdict ? to_header(VerdictFrame{}) : header_of(type);
}

Bytes pattern(size_t length, unsigned seed = 1) {
  std::mt19937 random(seed);
  Bytes bytes(length);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

Bytes frame(FrameHeader header, const Bytes& payload = {}) {
  const HeaderBytes sealed = seal(header, payload);
  Bytes bytes(sealed.begin(), sealed.end());
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

std::string error_of(const HeaderBytes& bytes, uint64_t volume = kVolume) {
  return check_header(bytes, volume).error;
}

// A header whose fields are whatever `change` makes of them, with a good checksum over them.
std::string error_with(FrameHeader header, uint32_t payload_bytes,
                       const std::function<void(FrameHeader&)>& change = {}) {
  HeaderBytes bytes = seal(header, payload_bytes, 0x1234);
  FrameHeader raw;
  std::memcpy(&raw, bytes.data(), sizeof raw);
  if (change) change(raw);
  std::memcpy(bytes.data(), &raw, sizeof raw);
  const uint32_t crc = crc32c(std::span(bytes).subspan(sizeof raw.header_crc));
  std::memcpy(bytes.data(), &crc, sizeof crc);
  return error_of(bytes);
}

TEST(Header, ComesBackAsItWasSealed) {
  FrameHeader header = data_header(4096, 8192, 0);
  header.type = static_cast<uint8_t>(FrameType::kAck);  // it has all fields, …
  header.status = 5;
  header.aux0 = 11;
  const CheckedHeader checked = check_header(seal(header, 8192, 99), kVolume);
  ASSERT_EQ(checked.error, "");
  EXPECT_EQ(checked.header.offset, 4096u);
  EXPECT_EQ(checked.header.length, 8192u);
  EXPECT_EQ(checked.header.payload_bytes, 8192u);
  EXPECT_EQ(checked.header.payload_crc, 99u);
  EXPECT_EQ(checked.header.sequence, 7u);
  EXPECT_EQ(checked.header.status, 5u);
  EXPECT_EQ(checked.header.aux0, 11u);
  header.offset = header.length = header.aux0 = 0;  // … and in order no times, but a number
  header.flags = kFlagControl;
  header.aux1 = 12;
  const CheckedHeader in_order = check_header(seal(header, 8192, 99), kVolume);
  ASSERT_EQ(in_order.error, "");
  EXPECT_EQ(in_order.header.flags, kFlagControl);
  EXPECT_EQ(in_order.header.aux1, 12u);
}

TEST(Header, AnyFlippedBitIsNoticed) {
  const HeaderBytes good = seal(data_header(4096, 8192, kFlagFua), 8192, 99);
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    HeaderBytes bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    EXPECT_NE(error_of(bad), "") << "bit " << bit;
  }
}

TEST(Header, UnknownTypesFlagsAndReservedFieldsAreRefused) {
  for (unsigned type = 0; type < 256; ++type) {
    const std::string error =
        error_with(header_of(FrameType::kHeartbeat), 0,
                   [type](FrameHeader& h) { h.type = static_cast<uint8_t>(type); });
    const bool known = std::string(frame_type_name(static_cast<uint8_t>(type))) != "unknown";
    if (!known) {
      EXPECT_NE(error, "") << type;
    }
  }
  EXPECT_NE(error_with(data_header(0, 512), 512, [](FrameHeader& h) { h.reserved0 = 1; }), "");
  EXPECT_NE(error_with(data_header(0, 512, kFlagCompressed), 512), "");
  EXPECT_NE(error_with(data_header(0, 512, 0x80), 512), "");
  FrameHeader beat = header_of(FrameType::kHeartbeat);
  beat.flags = kFlagFua;
  EXPECT_NE(error_with(beat, 0), "");
}

// What a later version means by them this one would not heed.
TEST(Header, FieldsThatATypeDoesNotHaveAreZero) {
  using Change = std::function<void(FrameHeader&)>;
  const std::vector<std::pair<FrameType, Change>> all{
      {FrameType::kHello, [](FrameHeader& h) { h.offset = 1; }},
      {FrameType::kChallenge, [](FrameHeader& h) { h.length = 1; }},
      {FrameType::kVerdict, [](FrameHeader& h) { h.offset = 1; }},
      {FrameType::kJoin, [](FrameHeader& h) { h.aux1 = 1; }},
      {FrameType::kFlush, [](FrameHeader& h) { h.length = 1; }},
      {FrameType::kRetire, [](FrameHeader& h) { h.status = 1; }},
      {FrameType::kGoodbye, [](FrameHeader& h) { h.sequence = 1; }},
      {FrameType::kRetired, [](FrameHeader& h) { h.offset = 1; }},
      {FrameType::kRole, [](FrameHeader& h) { h.aux0 = 1; }}};
  for (const auto& [type, change] : all) {
    const FrameHeader header = plain_header(type);
    const uint32_t payload = type == FrameType::kHello ? sizeof(HelloPayload) : 0;
    EXPECT_EQ(error_with(header, payload), "");
    EXPECT_NE(error_with(header, payload, change).find("field"), std::string::npos)
        << frame_type_name(header.type);
    FrameHeader cleared = header;
    change(cleared);
    clear_unused(cleared);
    EXPECT_EQ(std::memcmp(&cleared, &header, sizeof header), 0);
  }
  FrameHeader role = header_of(FrameType::kRole);
  role.flags = kFlagControl;
  role.aux1 = 1;
  EXPECT_EQ(error_with(role, 0), "") << "its number in the control stream";
}

TEST(Header, BeforeTheHandshakeOnlyItsOwnFramesPass) {
  for (unsigned type = 1; std::string(frame_type_name(static_cast<uint8_t>(type))) != "unknown";
       ++type) {
    FrameHeader header = data_header(0, 512);
    header.type = static_cast<uint8_t>(type);
    clear_unused(header);
    uint32_t payload = 0;
    if (header.type == static_cast<uint8_t>(FrameType::kHello)) payload = sizeof(HelloPayload);
    if (header.type == static_cast<uint8_t>(FrameType::kGeneration))
      payload = sizeof(GenerationPayload);
    if (header.type == static_cast<uint8_t>(FrameType::kLinkChange))
      payload = sizeof(LinkChangePayload);
    if (header.type == static_cast<uint8_t>(FrameType::kData)) payload = 512;
    if (header.type == static_cast<uint8_t>(FrameType::kProbeHost)) payload = sizeof(ProbeHostPayload);
    const bool handshake = check_header(seal(header, payload, 0), 0).error.empty();
    const bool wanted = type <= 3 || type == static_cast<unsigned>(FrameType::kJoin) ||
                        type == static_cast<unsigned>(FrameType::kChallenge) ||
                        (type >= static_cast<unsigned>(FrameType::kProbe) &&
                         type <= static_cast<unsigned>(FrameType::kProbeReport));
    EXPECT_EQ(handshake, wanted) << frame_type_name(header.type);
  }
}

TEST(Header, DataStaysInsideTheVolumeAndTheFrame) {
  constexpr uint32_t kFrameMax = limits::kFramePayloadBytesMax;
  EXPECT_EQ(error_with(data_header(0, 1), 1), "");
  EXPECT_EQ(error_with(data_header(kVolume - 512, 512), 512), "");
  EXPECT_EQ(error_with(data_header(0, kFrameMax), kFrameMax), "");
  EXPECT_NE(error_with(data_header(0, 0), 0), "");
  EXPECT_NE(error_with(data_header(0, kFrameMax + 1), kFrameMax + 1), "");
  EXPECT_NE(error_with(data_header(kVolume, 512), 512), "");
  EXPECT_NE(error_with(data_header(kVolume - 511, 512), 512), "");
  EXPECT_NE(error_with(data_header(~uint64_t{0} - 255, 512), 512), "") << "the sum wraps around";
  EXPECT_NE(error_with(data_header(0, 512), 511), "");
  EXPECT_NE(error_with(data_header(0, 512), 513), "");
}

TEST(Header, ZeroesCarryNoPayloadAndMayBeLong) {
  EXPECT_EQ(error_with(data_header(0, kVolume, kFlagZero | kFlagUnmap), 0), "");
  EXPECT_NE(error_with(data_header(0, kVolume + 1, kFlagZero), 0), "");
  EXPECT_NE(error_with(data_header(0, 512, kFlagZero), 512), "");
  EXPECT_NE(error_with(data_header(0, 512, kFlagUnmap), 512), "") << "a trim is a zero";
  FrameHeader huge = data_header(0, limits::kFrameZeroBytesMax + 1, kFlagZero);
  EXPECT_NE(check_header(seal(huge, 0, 0), 64 * kTiB).error, "");
}

TEST(Header, ReadsAreBounded) {
  FrameHeader read = header_of(FrameType::kRead);
  read.length = limits::kFramePayloadBytesMax;
  EXPECT_EQ(error_with(read, 0), "");
  ++read.length;
  EXPECT_NE(error_with(read, 0), "");
  read.length = 0;
  EXPECT_NE(error_with(read, 0), "");
}

TEST(Header, AHoleIsAskedForInWholeBlocksAndWithinBounds) {
  FrameHeader question = header_of(FrameType::kDigest);
  const auto error = [&] { return check_header(seal(question, 0, 0), 64 * kTiB).error; };
  question.length = limits::kFrameHoleBytesMax;
  EXPECT_NE(error(), "") << "of digests, a frame's worth only";
  question.flags = kFlagZero;
  EXPECT_EQ(error(), "");
  question.offset = 64 * kTiB - question.length;
  EXPECT_EQ(error(), "");
  question.offset += limits::kBlockBytes;
  EXPECT_NE(error(), "");
  question.offset = 512;
  EXPECT_NE(error(), "");
  question.offset = 0;
  question.length += limits::kBlockBytes;
  EXPECT_NE(error(), "");
  question.length = limits::kBlockBytes;
  question.flags = kFlagZero | kFlagUnmap;
  EXPECT_NE(error(), "") << "it changes nothing";
}

TEST(Payload, AnyFlippedBitIsNoticed) {
  Bytes payload = pattern(300);
  const CheckedHeader checked = check_header(seal(data_header(0, 300), payload), kVolume);
  EXPECT_TRUE(check_payload(checked.header, payload));
  for (size_t bit = 0; bit < payload.size() * 8; ++bit) {
    payload[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    EXPECT_FALSE(check_payload(checked.header, payload)) << bit;
    payload[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
  }
  EXPECT_FALSE(check_payload(checked.header, std::span(payload).first(299)));
}

TEST(Text, IsStrippedOfWhatCouldForgeALogLine) {
  const std::string evil = "a\nb\x1b[31mc\x7f\xff";
  EXPECT_EQ(printable(text_bytes(evil)), "a?b?[31mc??");
  EXPECT_EQ(text_bytes(std::string(5000, 'x')).size(), kTextBytesMax);
}

TEST(Names, SurviveTheirFieldAndAreNeverReadPastIt) {
  char field[kNameBytes];
  set_name(field, std::string(63, 'n'));
  EXPECT_EQ(get_name(field), std::string(63, 'n'));
  std::memset(field, 'x', sizeof field);  // a peer that does not end its names
  EXPECT_EQ(get_name(field), std::string(64, 'x'));
}

// Hands out a byte stream in the pieces that the test asks for.
class Stream final : public Connection {
 public:
  explicit Stream(Bytes bytes) : bytes_(std::move(bytes)) {}
  void allow(size_t bytes) { allowed_ = std::min(bytes_.size(), allowed_ + bytes); }
  void append(const Bytes& more) { bytes_.insert(bytes_.end(), more.begin(), more.end()); }
  [[nodiscard]] bool exhausted() const { return at_ == bytes_.size(); }
  void set_handler(ConnectionHandler*) override {}
  size_t read(std::span<std::byte> into) override {
    EXPECT_FALSE(into.empty()) << "a read of nothing looks like the end of the stream";
    const size_t got = std::min(into.size(), allowed_ - at_);
    if (got > 0) std::memcpy(into.data(), bytes_.data() + at_, got);
    at_ += got;
    return got;
  }
  void send(std::span<const std::byte>, std::span<const std::byte>) override {}
  void pause_reading(bool) override {}
  [[nodiscard]] uint64_t queued_bytes_total() const override { return 0; }
  [[nodiscard]] uint64_t sent_bytes_total() const override { return 0; }
  [[nodiscard]] std::string peer_address() const override { return "test"; }

 private:
  Bytes bytes_;
  size_t at_ = 0;
  size_t allowed_ = 0;
};

// All frames that are there, over as many turns as they take.
void drain(FrameReader& reader, Stream& stream, std::vector<Frame>& frames) {
  for (int idle = 0; idle < 3;) {
    reader.begin_turn();
    Frame frame;
    FrameReader::Outcome outcome;
    ++idle;
    while ((outcome = reader.next(stream, frame)) == FrameReader::Outcome::kFrame) {
      frames.push_back(frame);
      idle = 0;
    }
    ASSERT_EQ(outcome, FrameReader::Outcome::kNothing) << reader.error();
  }
}

TEST(FrameReader, AShortPayloadCanBeKeptWithoutTheSlabThatItCameIn) {
  const Bytes small = pattern(100), large = pattern(limits::kFramePayloadBytesMax);
  Bytes bytes = frame(data_header(0, 100), small);
  const Bytes more = frame(data_header(0, large.size()), large);
  bytes.insert(bytes.end(), more.begin(), more.end());
  Stream stream(bytes);
  stream.allow(bytes.size());
  FrameReader reader;
  reader.set_volume_bytes(8 * kMiB);
  std::vector<Frame> frames;
  drain(reader, stream, frames);
  ASSERT_EQ(frames.size(), 2u);
  for (Frame& each : frames) keep_apart(each);
  EXPECT_EQ(frames[0].keeps_payload->size, small.size());
  EXPECT_EQ(Bytes(frames[0].payload.begin(), frames[0].payload.end()), small);
  EXPECT_EQ(frames[1].keeps_payload->size, limits::kReceiveSlabBytes) << "a long one is not copied";
  EXPECT_EQ(Bytes(frames[1].payload.begin(), frames[1].payload.end()), large);
  Frame none;
  keep_apart(none);
  EXPECT_EQ(none.keeps_payload, nullptr);
}

TEST(FrameReader, CutsTheSameFramesFromEverySegmentation) {
  const Bytes payload = pattern(700);
  Bytes stream_bytes = frame(header_of(FrameType::kHeartbeat));
  for (const Bytes& more :
       {frame(data_header(0, 700), payload), frame(header_of(FrameType::kFlush)),
        frame(data_header(512, 4096, kFlagZero)), frame(data_header(9, 1), pattern(1, 5))})
    stream_bytes.insert(stream_bytes.end(), more.begin(), more.end());
  for (size_t piece = 1; piece <= stream_bytes.size(); ++piece) {
    Stream stream(stream_bytes);
    FrameReader reader;
    reader.set_volume_bytes(kVolume);
    std::vector<Frame> frames;
    while (!stream.exhausted()) {
      stream.allow(piece);
      drain(reader, stream, frames);
      if (HasFatalFailure()) return;
    }
    ASSERT_EQ(frames.size(), 5u) << "pieces of " << piece;
    EXPECT_EQ(Bytes(frames[1].payload.begin(), frames[1].payload.end()), payload);
    EXPECT_EQ(frames[3].header.length, 4096u);
    EXPECT_EQ(frames[4].payload[0], pattern(1, 5)[0]);
    EXPECT_EQ(reader.received_bytes_total(), stream_bytes.size());
  }
}

TEST(FrameReader, AFrameThatIsNotWholeIsNotHandedOut) {
  const Bytes whole = frame(data_header(0, 512), pattern(512));
  for (size_t cut = 0; cut < whole.size(); ++cut) {
    Stream stream(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(cut)));
    stream.allow(cut);
    FrameReader reader;
    reader.set_volume_bytes(kVolume);
    reader.begin_turn();
    Frame frame;
    ASSERT_EQ(reader.next(stream, frame), FrameReader::Outcome::kNothing) << cut;
  }
}

// Payloads go to the disk by reference: they stay as they are while more frames come in.
TEST(FrameReader, HeldPayloadsAreNotOverwritten) {
  std::mt19937 random(3);
  Bytes bytes;
  std::vector<Bytes> payloads;
  for (unsigned i = 0; i < 200; ++i) {
    payloads.push_back(
        pattern(1 + random() % (i % 10 == 0 ? limits::kFramePayloadBytesMax : 9000), i));
    const Bytes one = frame(data_header(0, payloads.back().size()), payloads.back());
    bytes.insert(bytes.end(), one.begin(), one.end());
  }
  Stream stream(bytes);
  FrameReader reader;
  reader.set_volume_bytes(kVolume);
  std::vector<Frame> held;
  size_t seen = 0;
  while (!stream.exhausted()) {
    stream.allow(1 + random() % 300'000);
    std::vector<Frame> frames;
    drain(reader, stream, frames);
    if (HasFatalFailure()) return;
    for (Frame& each : frames) {
      held.push_back(each);
      ++seen;
    }
    while (held.size() > random() % 12 + 1) {  // the disk has finished the oldest
      const size_t index = seen - held.size();
      ASSERT_EQ(Bytes(held[0].payload.begin(), held[0].payload.end()), payloads[index]) << index;
      held.erase(held.begin());
    }
  }
  EXPECT_EQ(seen, payloads.size());
}

TEST(FrameReader, DamageIsAnErrorThatSaysWhat) {
  const auto error_for = [](Bytes bytes, uint64_t volume = kVolume) {
    Stream stream(bytes);
    stream.allow(bytes.size());
    FrameReader reader;
    reader.set_volume_bytes(volume);
    reader.begin_turn();
    Frame frame;
    EXPECT_EQ(reader.next(stream, frame), FrameReader::Outcome::kError);
    return reader.error();
  };
  Bytes payload_damage = frame(data_header(0, 512), pattern(512));
  payload_damage.back() ^= std::byte{1};
  EXPECT_NE(error_for(payload_damage).find("payload checksum"), std::string::npos);
  Bytes header_damage = frame(data_header(0, 512), pattern(512));
  header_damage[40] ^= std::byte{1};
  EXPECT_NE(error_for(header_damage).find("checksum"), std::string::npos);
  EXPECT_NE(error_for(pattern(64)).find("magic"), std::string::npos);
  EXPECT_NE(error_for(frame(data_header(0, 512), pattern(512)), 0).find("handshake"),
            std::string::npos);
}

TEST(FrameReader, OneTurnReadsOnlySoMuch) {
  Bytes bytes;
  const Bytes one =
      frame(data_header(0, limits::kFramePayloadBytesMax), pattern(limits::kFramePayloadBytesMax));
  for (int i = 0; i < 20; ++i) bytes.insert(bytes.end(), one.begin(), one.end());
  Stream stream(bytes);
  stream.allow(bytes.size());
  FrameReader reader;
  reader.set_volume_bytes(kVolume);
  reader.begin_turn();
  Frame frame;
  int frames = 0;
  while (reader.next(stream, frame) == FrameReader::Outcome::kFrame) ++frames;
  EXPECT_GT(frames, 0);
  EXPECT_LT(frames, 10);
}

TEST(SlabPool, ASlabIsUsedAgainAndMayOutliveItsPool) {
  auto pool = std::make_unique<SlabPool>();
  std::shared_ptr<Slab> slab = pool->take();
  const std::byte* memory = slab->bytes.get();
  slab.reset();
  slab = pool->take();
  EXPECT_EQ(slab->bytes.get(), memory);
  pool.reset();
  slab->bytes[0] = std::byte{1};
}

TEST(SlabPool, KeepsSomeAndGivesTheRestBack) {
  SlabPool pool;
  const size_t before = allocated_bytes();
  std::vector<std::shared_ptr<Slab>> slabs;
  for (size_t i = 0; i < 4 * limits::kReceiveSlabsKept; ++i) slabs.push_back(pool.take());
  slabs.clear();
  EXPECT_LE(allocated_bytes() - std::min(before, allocated_bytes()), (limits::kReceiveSlabsKept + 1) * limits::kReceiveSlabBytes);
}

TEST(FrameReader, AFrameIsAloneWhenNothingElseWasReadWithIt) {
  const Bytes beat = frame(header_of(FrameType::kHeartbeat));
  Bytes bytes = beat;
  for (int i = 0; i < 2; ++i) bytes.insert(bytes.end(), beat.begin(), beat.end());
  Stream stream(bytes);
  FrameReader reader;
  reader.set_volume_bytes(kVolume);
  std::vector<Frame> frames;
  stream.allow(beat.size());
  drain(reader, stream, frames);
  stream.allow(2 * beat.size());
  drain(reader, stream, frames);
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_TRUE(frames[0].arrived_alone);
  EXPECT_FALSE(frames[1].arrived_alone);
  EXPECT_FALSE(frames[2].arrived_alone);
}

}  // namespace
}  // namespace twinblock::wire
