// Compressed payloads: what comes back, what is not worth it, and what a hostile peer may send.
#include <gtest/gtest.h>
#include <zstd.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "base/limits.h"
#include "wire/codec.h"
#include "wire/compression.h"

namespace twinblock::wire {
namespace {

using Bytes = std::vector<std::byte>;

Bytes random_bytes(size_t length, unsigned seed = 1) {
  std::mt19937 random(seed);
  Bytes bytes(length);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

// The first part random, the rest of each 512 bytes zero.
Bytes mixed_bytes(size_t length, size_t random_of_512, unsigned seed = 1) {
  Bytes bytes = random_bytes(length, seed);
  for (size_t i = 0; i < length; ++i)
    if (i % 512 >= random_of_512) bytes[i] = std::byte{0};
  return bytes;
}

Bytes compressed(const Bytes& raw, int level = 1) {
  Bytes room(compressed_bytes_max(raw.size()));
  room.resize(compress(raw, level, room));
  return room;
}

std::string error_of(std::span<const std::byte> payload, size_t expected) {
  Bytes room(expected);
  return decompress(payload, room);
}

// As zstd's own functions make them, which may leave the length of the content out.
Bytes zstd_frame(const Bytes& raw, bool with_length) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, with_length ? 1 : 0);
  Bytes frame(ZSTD_compressBound(raw.size()));
  frame.resize(ZSTD_compress2(context, frame.data(), frame.size(), raw.data(), raw.size()));
  ZSTD_freeCCtx(context);
  return frame;
}

TEST(Compression, WhatIsCompressedComesBack) {
  for (const size_t length : {512u, 4096u, 5000u, 65536u, limits::kFramePayloadBytesMax})
    for (const int level : {1, 3, 19}) {
      const Bytes raw = mixed_bytes(length, 170, static_cast<unsigned>(length));
      const Bytes payload = compressed(raw, level);
      ASSERT_GT(payload.size(), 0u) << length;
      EXPECT_LT(payload.size(), length / 2);
      Bytes back(length, std::byte{0x55});
      ASSERT_EQ(decompress(payload, back), "");
      EXPECT_EQ(back, raw);
    }
}

TEST(Compression, WhatShrinksByLessThanAnEighthIsGivenUp) {
  EXPECT_TRUE(compressed(random_bytes(4096)).empty());
  EXPECT_TRUE(compressed(random_bytes(65536)).empty());
  EXPECT_TRUE(compressed(random_bytes(limits::kFramePayloadBytesMax)).empty());
  EXPECT_TRUE(compressed(mixed_bytes(65536, 480)).empty());
  EXPECT_FALSE(compressed(mixed_bytes(65536, 400)).empty());
  for (size_t length = 1; length < 64; ++length)
    EXPECT_LT(compressed(Bytes(length)).size(), length) << length;
}

TEST(Compression, EachThreadHasItsOwnContext) {
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed)
    threads.emplace_back([seed] {
      for (unsigned i = 0; i < 50; ++i) {
        const Bytes raw = mixed_bytes(16384, 100, seed * 100 + i);
        const Bytes payload = compressed(raw);
        Bytes back(raw.size());
        EXPECT_EQ(decompress(payload, back), "");
        EXPECT_EQ(back, raw);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(HostilePayload, AContentThatIsLongerOrShorterThanTheRangeIsRefusedBeforeItIsDecompressed) {
  const Bytes frame = zstd_frame(Bytes(size_t{256} * 1024 * 1024), true);  // a bomb
  EXPECT_LT(frame.size(), size_t{limits::kFramePayloadBytesMax});
  EXPECT_NE(error_of(frame, 4096).find("268435456 bytes"), std::string::npos)
      << error_of(frame, 4096);
  const Bytes short_one = zstd_frame(Bytes(4096), true);
  EXPECT_NE(error_of(short_one, 4097), "");
  EXPECT_NE(error_of(short_one, 4095), "");
  EXPECT_EQ(error_of(short_one, 4096), "");
}

TEST(HostilePayload, AFrameThatDoesNotSayHowLongItsContentIsIsRefused) {
  const Bytes frame = zstd_frame(mixed_bytes(4096, 100), false);
  EXPECT_NE(error_of(frame, 4096).find("without the length"), std::string::npos);
}

TEST(HostilePayload, AFrameThatLiesAboutItsLengthWritesNoMoreThanTheRange) {
  // The field of the content's length (frame header, RFC 8878) is changed; what follows is longer.
  const Bytes raw = mixed_bytes(8192, 100);
  Bytes frame = zstd_frame(raw, true);
  ASSERT_EQ(ZSTD_getFrameContentSize(frame.data(), frame.size()), 8192u);
  // Single segment, two bytes of length, which say 256 less than they mean.
  ASSERT_EQ(std::to_integer<int>(frame[4]) >> 6, 1);
  const uint16_t said = 4096 - 256;
  std::memcpy(frame.data() + 5, &said, sizeof said);
  ASSERT_EQ(ZSTD_getFrameContentSize(frame.data(), frame.size()), 4096u);
  Bytes room(4096 + 64, std::byte{0x77});
  EXPECT_NE(decompress(frame, std::span(room).first(4096)), "");
  for (size_t i = 4096; i < room.size(); ++i) EXPECT_EQ(room[i], std::byte{0x77});
}

TEST(HostilePayload, AnythingCutOffIsRefused) {
  const Bytes frame = compressed(mixed_bytes(4096, 200));
  for (size_t length = 0; length < frame.size(); ++length)
    EXPECT_NE(error_of(std::span(frame).first(length), 4096), "") << length;
}

TEST(HostilePayload, SomethingBehindTheFrameIsRefused) {
  Bytes frame = compressed(mixed_bytes(4096, 200));
  frame.push_back(std::byte{0});
  EXPECT_NE(error_of(frame, 4096), "");
  frame.pop_back();
  const Bytes empty = zstd_frame({}, true);
  frame.insert(frame.end(), empty.begin(), empty.end());
  EXPECT_NE(error_of(frame, 4096), "") << "a second frame, without content";
}

TEST(HostilePayload, OtherFormatsThatTheLibraryKnowsAreRefused) {
  Bytes skippable(64);
  const uint32_t magic = 0x184D2A50;
  const uint32_t length = 56;
  std::memcpy(skippable.data(), &magic, sizeof magic);
  std::memcpy(skippable.data() + 4, &length, sizeof length);
  EXPECT_EQ(error_of(skippable, 4096), "no zstd frame");
  for (const uint32_t legacy : {0xFD2FB525u, 0xFD2FB526u, 0xFD2FB527u}) {
    std::memcpy(skippable.data(), &legacy, sizeof legacy);
    EXPECT_EQ(error_of(skippable, 4096), "no zstd frame");
  }
}

TEST(HostilePayload, FlippedBitsNeverDoHarm) {
  const Bytes good = compressed(mixed_bytes(4096, 60));
  ASSERT_FALSE(good.empty());
  Bytes room(4096 + 64, std::byte{0x77});
  size_t refused = 0;
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    Bytes bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    if (!decompress(bad, std::span(room).first(4096)).empty()) ++refused;
  }
  EXPECT_GT(refused, 0u);
  for (size_t i = 4096; i < room.size(); ++i) EXPECT_EQ(room[i], std::byte{0x77});
  EXPECT_EQ(decompress(good, std::span(room).first(4096)), "") << "the context is as good as new";
}

TEST(CompressedFrame, TheHeaderMustSuitIt) {
  const auto error_with = [](uint8_t flags, uint64_t length, uint32_t payload_bytes) {
    FrameHeader header = header_of(FrameType::kData);
    header.flags = flags;
    header.length = length;
    return check_header(seal(header, payload_bytes, 1), 16 * kMiB).error;
  };
  EXPECT_EQ(error_with(kFlagCompressed, 4096, 4095), "");
  EXPECT_EQ(error_with(kFlagCompressed | kFlagFua | kFlagResync, 4096, 9), "");
  EXPECT_EQ(error_with(kFlagCompressed, limits::kFramePayloadBytesMax, 100), "");
  EXPECT_NE(error_with(kFlagCompressed, 4096, 4096), "") << "not shorter";
  EXPECT_NE(error_with(kFlagCompressed, 4096, 8192), "");
  EXPECT_NE(error_with(kFlagCompressed, 4096, 0), "") << "nothing to decompress";
  EXPECT_NE(error_with(kFlagCompressed | kFlagZero, 4096, 0), "");
  EXPECT_NE(error_with(kFlagCompressed, limits::kFramePayloadBytesMax + 1, 100), "")
      << "a range that no buffer is for";
  EXPECT_NE(error_with(0, 4096, 100), "") << "short without being compressed";
  FrameHeader flush = header_of(FrameType::kFlush);
  flush.flags = kFlagCompressed;
  EXPECT_NE(check_header(seal(flush), 16 * kMiB).error, "");
}

TEST(CompressionOrder, ModesAndLevelsThatDoNotExistAreRefused) {
  const auto error_of_order = [](uint64_t mode, uint64_t level) {
    FrameHeader header = header_of(FrameType::kCompression);
    header.sequence = mode;
    header.offset = level;
    return check_header(seal(header), 16 * kMiB).error;
  };
  for (uint64_t mode = 0; mode <= 2; ++mode) {
    EXPECT_EQ(error_of_order(mode, 1), "");
    EXPECT_EQ(error_of_order(mode, 19), "");
  }
  EXPECT_NE(error_of_order(3, 1), "");
  EXPECT_NE(error_of_order(1, 0), "");
  EXPECT_NE(error_of_order(1, 20), "");
  EXPECT_NE(error_of_order(~uint64_t{0}, ~uint64_t{0}), "");
}

}  // namespace
}  // namespace twinblock::wire
