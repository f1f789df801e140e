// What a worker makes of a client's write: an engine on virtual parts, in duplex with the fuzzers' peer.
#include "prepare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "volume_primary_support.h"
#include "wire/compression.h"

namespace twinblock::fuzz {
namespace {

using Bytes = std::vector<std::byte>;

// Words out of a few hundred, which no two levels put into the same bytes.
Bytes text(size_t length_bytes) {
  std::mt19937_64 random(1);
  std::vector<std::string> words(400);
  for (std::string& word : words) word = std::to_string(random()) + ' ';
  Bytes bytes;
  while (bytes.size() < length_bytes) {
    const auto word = std::as_bytes(std::span(words[random() % words.size()]));
    bytes.insert(bytes.end(), word.begin(), word.end());
  }
  bytes.resize(length_bytes);
  return bytes;
}

Bytes compressed(std::span<const std::byte> raw, int level) {
  Bytes room(wire::compressed_bytes_max(raw.size()));
  room.resize(wire::compress(raw, level, room));
  return room;
}

class PrepareTest : public PrimaryTest {
 protected:
  void set(Compression mode, int level) { node_->engine->compression().set({mode, level}); }
};

TEST_F(PrepareTest, APieceIsCompressedAtTheLevelThatIsSet) {
  const Bytes data = text(64 * kKiB);
  ASSERT_NE(compressed(data, 1), compressed(data, 3));
  ASSERT_NE(compressed(data, 3), compressed(data, 12));
  for (const int level : {1, 3, 12}) {
    set(Compression::kOn, level);
    const PreparedWrite write(*node_->engine, 0, data);
    ClientRequest request;
    write.describe(request);
    ASSERT_EQ(request.pieces.size(), 1u);
    ASSERT_TRUE(request.pieces[0].compressed);
    EXPECT_TRUE(std::ranges::equal(request.pieces[0].payload, compressed(data, level))) << level;
  }
}

// Those that do not shrink lie between others, which share the memory of the worker's.
TEST_F(PrepareTest, EachPieceIsOfItsOwnPartOfTheData) {
  constexpr uint64_t kPieceBytes = 8 * kKiB;
  Bytes data = text(5 * kPieceBytes + 512);
  std::mt19937_64 random(2);
  for (uint64_t at = kPieceBytes; at < 2 * kPieceBytes; ++at) data[at] = static_cast<std::byte>(random());
  node_->engine->worker_view().set_links(kPieceBytes, 0);
  for (const Compression mode : {Compression::kOn, Compression::kOff}) {
    set(mode, 1);
    const PreparedWrite write(*node_->engine, 0, data);
    ClientRequest request;
    write.describe(request);
    ASSERT_EQ(request.piece_bytes, kPieceBytes);
    ASSERT_EQ(request.pieces.size(), 6u);
    Bytes all;
    for (size_t i = 0; i < request.pieces.size(); ++i) {
      const WirePiece& piece = request.pieces[i];
      EXPECT_EQ(piece.crc, crc32c(piece.payload));
      EXPECT_EQ(piece.compressed, mode == Compression::kOn && i != 1) << i;
      Bytes raw(std::min(kPieceBytes, data.size() - all.size()));
      if (piece.compressed)
        EXPECT_EQ(wire::decompress(piece.payload, raw), "") << i;
      else
        raw.assign(piece.payload.begin(), piece.payload.end());
      all.insert(all.end(), raw.begin(), raw.end());
    }
    EXPECT_TRUE(all == data);
  }
}

}  // namespace
}  // namespace twinblock::fuzz
