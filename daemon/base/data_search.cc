#include "base/data_search.h"

#include <algorithm>
#include <bit>

#include "base/limits.h"

namespace twinblock {

SearchOrder::SearchOrder(uint64_t size_bytes)
    : size_bytes_(size_bytes), stride_bytes_(std::bit_floor(size_bytes)), at_bytes_(stride_bytes_) {}

SearchOrder::Place SearchOrder::at(uint64_t offset_bytes, uint64_t length_bytes) const {
  return {offset_bytes, std::min(length_bytes, size_bytes_ - offset_bytes), part_ == Part::kAll};
}

std::optional<SearchOrder::Place> SearchOrder::next() {
  if (size_bytes_ == 0) return std::nullopt;
  switch (part_) {
    case Part::kBegin:
      part_ = Part::kEnd;
      return at(0, limits::kSearchEdgeBytes);
    case Part::kEnd:
      part_ = Part::kStrides;
      return at(size_bytes_ - std::min(size_bytes_, limits::kSearchEdgeBytes), limits::kSearchEdgeBytes);
    case Part::kStrides:
      if (const auto place = next_stride()) return place;
      part_ = Part::kAll;
      at_bytes_ = 0;
      [[fallthrough]];
    case Part::kAll:
      break;
  }
  return next_of_all();
}

// The odd multiples of each stride: the even ones were named by larger strides.
std::optional<SearchOrder::Place> SearchOrder::next_stride() {
  while (stride_bytes_ >= limits::kSearchStrideBytesMin) {
    if (at_bytes_ < size_bytes_) {
      const Place place = at(at_bytes_, limits::kSearchPlaceBytes);
      at_bytes_ += 2 * stride_bytes_;
      return place;
    }
    stride_bytes_ /= 2;
    at_bytes_ = stride_bytes_;
  }
  return std::nullopt;
}

std::optional<SearchOrder::Place> SearchOrder::next_of_all() {
  if (at_bytes_ >= size_bytes_) return std::nullopt;
  const Place place = at(at_bytes_, limits::kSearchEdgeBytes);
  at_bytes_ += place.length_bytes;
  return place;
}

}  // namespace twinblock
