// What a disk may hold after a crash: for each sector, where its bytes lie now. So nothing is
// copied, and the image is valid until the disk changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace twinblock::sim {

constexpr uint64_t kSectorBytes = 512;

class DiskImage {
 public:
  explicit DiskImage(std::span<const std::byte> contents);

  // Whole sectors; null: zeroes.
  void put(uint64_t offset_bytes, uint64_t length_bytes, const std::byte* data);
  [[nodiscard]] uint64_t size_bytes() const { return size_bytes_; }
  [[nodiscard]] std::span<const std::byte> sector(size_t index) const {
    return {sectors_[index], kSectorBytes};
  }
  void read(uint64_t offset_bytes, std::span<std::byte> into) const;

 private:
  uint64_t size_bytes_;
  std::vector<const std::byte*> sectors_;
};

// The first block from `from_bytes` on, where one begins, that differs.
std::optional<uint64_t> first_difference(const DiskImage& a, const DiskImage& b,
                                         uint64_t from_bytes = 0);

}  // namespace twinblock::sim
