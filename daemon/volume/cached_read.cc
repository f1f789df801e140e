#include "volume/cached_read.h"

#include "base/limits.h"

namespace twinblock {
namespace {

constexpr uint64_t kBlock = limits::kBlockBytes;
constexpr size_t kGapsMax = 4;

}  // namespace

CachedRead::CachedRead(ContentCache* cache, const WorkerView& view, InflightFilter::Mark mark, uint64_t offset_bytes,
                       std::span<std::byte> into)
    : cache_(cache), view_(view), mark_(mark), offset_bytes_(offset_bytes), whole_{0, into.size()} {
  if (cache == nullptr) return;
  first_block_ = (offset_bytes + kBlock - 1) / kBlock;
  const uint64_t end_block = (offset_bytes + into.size()) / kBlock;
  if (end_block <= first_block_) return;
  const uint64_t begin_bytes = first_block_ * kBlock - offset_bytes;
  blocks_ = into.subspan(begin_bytes, (end_block - first_block_) * kBlock);
  blocks_missing_ = cache->look(first_block_, blocks_, found_);
  // Calls cost more than bytes: where most is missing, or here and there, all is read.
  all_ = blocks_missing_ * 2 > found_.size();
  if (!all_) find_gaps(begin_bytes);
  all_ = all_ || gaps_.size() > kGapsMax;
}

void CachedRead::find_gaps(uint64_t begin_bytes) {
  uint64_t from = 0;
  for (size_t i = 0; i < found_.size(); ++i) {
    if (!found_[i]) continue;
    const uint64_t at = begin_bytes + i * kBlock;
    if (at > from) gaps_.push_back({from, at - from});
    from = at + kBlock;
  }
  if (from < whole_.length_bytes) gaps_.push_back({from, whole_.length_bytes - from});
}

void CachedRead::keep() const {
  if (blocks_missing_ == 0) return;
  cache_->keep(first_block_, blocks_, found_,
               [this] { return view_.unchanged(offset_bytes_, whole_.length_bytes, mark_); });
}

}  // namespace twinblock
