// Where to look on a device, in which order, to find out whether it holds anybody's data. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>

namespace twinblock {

// How a look ended.
enum class DataFound : uint8_t {
  kSome,
  kNone,     // proven: all that there is was read as zeroes, or nothing was ever written to the file
  kUnknown,  // nothing was found in the time that there was, and not all of it was read
};

// The beginning and the end, where tables and headers lie; then one place in each half, in each quarter and so on,
// so that data are found soon wherever they lie; then all of it from the beginning on: when that has been read, the
// answer is proven.
class SearchOrder {
 public:
  struct Place {
    uint64_t offset_bytes = 0;
    uint64_t length_bytes = 0;  // at most limits::kSearchEdgeBytes
    bool all = false;           // of the last part, which leaves nothing out
  };
  explicit SearchOrder(uint64_t size_bytes);
  // Nothing: all was named.
  std::optional<Place> next();

 private:
  enum class Part : uint8_t { kBegin, kEnd, kStrides, kAll };

  [[nodiscard]] Place at(uint64_t offset_bytes, uint64_t length_bytes) const;
  std::optional<Place> next_stride();
  std::optional<Place> next_of_all();

  const uint64_t size_bytes_;
  Part part_ = Part::kBegin;
  uint64_t stride_bytes_ = 0;
  uint64_t at_bytes_ = 0;
};

}  // namespace twinblock
