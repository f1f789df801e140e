#include "wire/compression.h"

#include <zstd.h>

#include <array>
#include <cstring>
#include <memory>

#include "base/checks.h"
#include "base/limits.h"

namespace twinblock::wire {
namespace {

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

}  // namespace

size_t compress(std::span<const std::byte> raw, int level, std::span<std::byte> into) {
  TB_CHECK(level >= limits::kCompressionLevelMin && level <= limits::kCompressionLevelMax,
           "levels are checked where they come in");
  static thread_local const std::unique_ptr<ZSTD_CCtx, FreeContext> context(ZSTD_createCCtx());
  const size_t room = compressed_bytes_max(raw.size());
  TB_CHECK(!raw.empty() && into.size() >= room, "room for the longest payload");
  // Without memory it travels as it is, too.
  if (context == nullptr) return 0;
  const size_t length =
      ZSTD_compressCCtx(context.get(), into.data(), room, raw.data(), raw.size(), level);
  return ZSTD_isError(length) != 0 || length >= raw.size() ? 0 : length;
}

std::string decompress(std::span<const std::byte> payload, std::span<std::byte> into) {
  static thread_local const std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
  TB_CHECK(context != nullptr, "out of memory");
  // The library reads formats that are older than its own, too; those are nothing that we write.
  static constexpr std::array<unsigned char, 4> kZstdMagic{0x28, 0xB5, 0x2F, 0xFD};
  if (payload.size() < kZstdMagic.size() ||
      std::memcmp(payload.data(), kZstdMagic.data(), kZstdMagic.size()) != 0)
    return "no zstd frame";
  const unsigned long long content = ZSTD_getFrameContentSize(payload.data(), payload.size());
  if (content == ZSTD_CONTENTSIZE_ERROR) return "no zstd frame";
  if (content == ZSTD_CONTENTSIZE_UNKNOWN) return "a zstd frame without the length of its content";
  if (content != into.size())
    return "a zstd frame of " + std::to_string(content) + " bytes for a range of " +
           std::to_string(into.size());
  const size_t whole = ZSTD_findFrameCompressedSize(payload.data(), payload.size());
  if (ZSTD_isError(whole) != 0) return "a zstd frame that is cut off or damaged";
  if (whole != payload.size()) return "a zstd frame with something behind it";
  const size_t length =
      ZSTD_decompressDCtx(context.get(), into.data(), into.size(), payload.data(), payload.size());
  if (ZSTD_isError(length) != 0)
    return std::string("a zstd frame that is damaged (") + ZSTD_getErrorName(length) + ")";
  if (length != into.size()) return "a zstd frame that is shorter than it says";
  return {};
}

}  // namespace twinblock::wire
