#include "volume/cached_read.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"

namespace twinblock {
namespace {

constexpr uint64_t kBlock = limits::kBlockBytes;
constexpr size_t kGapsMax = 4;

}  // namespace

CachedRead::CachedRead(ContentCache* cache, const WorkerView& view, InflightFilter::Mark mark, uint64_t offset_bytes,
                       std::span<std::byte> into, uint64_t now_ns)
    : cache_(cache), view_(view), mark_(mark), offset_bytes_(offset_bytes), whole_{0, into.size()} {
  if (cache == nullptr) return;
  first_block_ = (offset_bytes + kBlock - 1) / kBlock;
  const uint64_t end_block = (offset_bytes + into.size()) / kBlock;
  if (end_block <= first_block_) return;
  blocks_begin_bytes_ = first_block_ * kBlock - offset_bytes;
  blocks_ = into.subspan(blocks_begin_bytes_, (end_block - first_block_) * kBlock);
  const std::vector<PlaceIndex::Place> places = cache->places(first_block_, end_block - first_block_);
  if (cache->look(places, blocks_, found_) > 0) join_others(places, now_ns);
  find_gaps();
  // Calls cost more than bytes: where most is missing, or here and there, all is read.
  const auto missing = static_cast<size_t>(std::ranges::count(found_, false));
  all_ = missing * 2 > found_.size() || gaps_.size() > kGapsMax;
  if (!all_) return;
  for (const Coming& each : std::exchange(coming_, {})) found_[each.block] = false;
}

void CachedRead::join_others(std::span<const PlaceIndex::Place> places, uint64_t now_ns) {
  mine_ = std::make_shared<ReadsUnderWay::Reading>(now_ns);
  std::vector<std::shared_ptr<ReadsUnderWay::Reading>> others(places.size());
  cache_->under_way().begin(mine_, places, found_, others, now_ns);
  for (size_t i = 0; i < others.size(); ++i) {
    if (!others[i]) continue;
    coming_.push_back({i, places[i].tag, std::move(others[i])});
    found_[i] = true;
  }
}

void CachedRead::find_gaps() {
  gaps_.clear();
  uint64_t from = 0;
  for (size_t i = 0; i < found_.size(); ++i) {
    if (!found_[i]) continue;
    const uint64_t at = blocks_begin_bytes_ + i * kBlock;
    if (at > from) gaps_.push_back({from, at - from});
    from = at + kBlock;
  }
  if (from < whole_.length_bytes) gaps_.push_back({from, whole_.length_bytes - from});
}

bool CachedRead::worth_keeping(uint64_t now_ns) const {
  return std::ranges::count(found_, false) > 0 &&
         (cache_->may_keep(blocks_, found_, now_ns) || (mine_ && mine_->awaited()));
}

void CachedRead::keep() const {
  if (std::ranges::count(found_, false) == 0) return;
  cache_->keep(first_block_, blocks_, found_,
               [this] { return view_.unchanged(offset_bytes_, whole_.length_bytes, mark_); });
}

void CachedRead::end() {
  if (mine_) std::exchange(mine_, nullptr)->end();
}

bool CachedRead::waits(uint64_t now_ns) const {
  return std::ranges::any_of(coming_, [now_ns](const Coming& each) { return !each.reading->over(now_ns); });
}

void CachedRead::wait(const Clock& clock) {
  for (const Coming& each : coming_) each.reading->wait(clock.now_ns());
}

// What a digest stands for never changes, and that it lay at the place was known under the mark, as of a block that was there
// at once.
void CachedRead::take_what_came() {
  gaps_.clear();
  all_ = false;
  for (const Coming& each : std::exchange(coming_, {})) {
    if (cache_->copy(each.tag, blocks_.data() + each.block * kBlock)) continue;
    const uint64_t at = blocks_begin_bytes_ + each.block * kBlock;
    if (!gaps_.empty() && gaps_.back().at_bytes + gaps_.back().length_bytes == at)
      gaps_.back().length_bytes += kBlock;
    else
      gaps_.push_back({at, kBlock});
  }
}

}  // namespace twinblock
