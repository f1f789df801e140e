#include "disk_image.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/limits.h"

namespace twinblock::sim {

DiskImage::DiskImage(std::span<const std::byte> contents)
    : size_bytes_(contents.size()), sectors_(contents.size() / kSectorBytes) {
  const std::byte* at = contents.data();
  for (const std::byte*& sector : sectors_) {
    sector = at;
    at += kSectorBytes;
  }
}

void DiskImage::put(uint64_t offset_bytes, uint64_t length_bytes, const std::byte* data) {
  static constexpr std::array<std::byte, kSectorBytes> kZeroes{};
  for (uint64_t at = 0; at < length_bytes; at += kSectorBytes)
    sectors_[(offset_bytes + at) / kSectorBytes] = data == nullptr ? kZeroes.data() : data + at;
}

void DiskImage::read(uint64_t offset_bytes, std::span<std::byte> into) const {
  for (size_t done = 0; done < into.size();) {
    const uint64_t at = offset_bytes + done, in_sector = at % kSectorBytes;
    const size_t length = std::min<size_t>(into.size() - done, kSectorBytes - in_sector);
    std::memcpy(into.data() + done, sectors_[at / kSectorBytes] + in_sector, length);
    done += length;
  }
}

std::optional<uint64_t> first_difference(const DiskImage& a, const DiskImage& b,
                                         uint64_t from_bytes) {
  for (uint64_t at = from_bytes; at < a.size_bytes(); at += kSectorBytes) {
    const size_t index = at / kSectorBytes;
    if (std::memcmp(a.sector(index).data(), b.sector(index).data(), kSectorBytes) != 0)
      return at / limits::kBlockBytes * limits::kBlockBytes;
  }
  return std::nullopt;
}

}  // namespace twinblock::sim
