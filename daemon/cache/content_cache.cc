#include "cache/content_cache.h"

#include "base/limits.h"

namespace twinblock {
namespace {

// Of the memory, an eighth says what lies where: of some twelve times as many places as there is data for.
constexpr uint64_t kPlacesPart = 8;
// … and some thousandths what has been seen and what is under way.
constexpr uint64_t kBytesForHash = limits::kBlockBytes, kBytesForSlot = 4 * limits::kBlockBytes;

uint64_t whole_block_from(uint64_t offset_bytes) {
  return (offset_bytes + limits::kBlockBytes - 1) / limits::kBlockBytes;
}

}  // namespace

ContentCache::ContentCache(uint64_t volume_bytes, uint64_t size_bytes, const ContentDigest::Key& key)
    : size_bytes_(size_bytes),
      digest_(key),
      places_(volume_bytes, size_bytes / kPlacesPart),
      probe_(size_bytes / kBytesForHash),
      under_way_(size_bytes / kBytesForSlot),
      contents_(size_bytes - index_bytes()) {}

std::vector<PlaceIndex::Place> ContentCache::places(uint64_t first, size_t count) {
  std::vector<PlaceIndex::Place> places(count);
  places_.find(first, places);
  return places;
}

size_t ContentCache::look(std::span<const PlaceIndex::Place> places, std::span<std::byte> into,
                          std::vector<bool>& found) {
  const size_t blocks = places.size();
  found.assign(blocks, false);
  uint64_t hits = 0, equal = 0;
  for (size_t i = 0; i < blocks; ++i) {
    if (!places[i].known || !contents_.copy(places[i].tag, into.data() + i * limits::kBlockBytes)) continue;
    found[i] = true;
    ++hits;
    if (!places[i].was_read) ++equal;
  }
  hits_.fetch_add(hits, std::memory_order_relaxed);
  equal_hits_.fetch_add(equal, std::memory_order_relaxed);
  misses_.fetch_add(blocks - hits, std::memory_order_relaxed);
  effort_.found(hits);
  return blocks - hits;
}

void ContentCache::keep(uint64_t first, std::span<const std::byte> data, const std::vector<bool>& found,
                        const std::function<bool()>& still_true) {
  const size_t blocks = data.size() / limits::kBlockBytes;
  std::vector<ContentTag> tags(blocks);
  for (size_t begin = 0; begin < blocks;) {
    if (found[begin]) {
      ++begin;
      continue;
    }
    size_t end = begin;
    while (end < blocks && !found[end]) ++end;
    const std::span<ContentTag> run(tags.data() + begin, end - begin);
    digest_.tags_of(data.subspan(begin * limits::kBlockBytes, run.size() * limits::kBlockBytes), run);
    size_t learned = begin;
    for (size_t i = begin; i < end; ++i) {
      const ContentStore::Put put = contents_.put(tags[i], data.data() + i * limits::kBlockBytes);
      if (put == ContentStore::Put::kThere) shared_blocks_.fetch_add(1, std::memory_order_relaxed);
      if (put != ContentStore::Put::kDiffers) continue;
      // The digest stands for another content: nobody may be told that it lies here.
      places_.learn(first + learned, std::span(tags).subspan(learned, i - learned), true, still_true);
      learned = i + 1;
    }
    places_.learn(first + learned, std::span(tags).subspan(learned, end - learned), true, still_true);
    begin = end;
  }
}

bool ContentCache::may_keep(std::span<const std::byte> data, const std::vector<bool>& found, uint64_t now_ns) {
  uint64_t equal = 0, missing = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i]) continue;
    ++missing;
    equal += probe_.equal(data.subspan(i * limits::kBlockBytes, limits::kBlockBytes));
  }
  effort_.equal(equal);
  return effort_.may_learn_read(missing, now_ns);
}

bool ContentCache::may_learn(uint64_t offset_bytes, std::span<const std::byte> data, uint64_t now_ns) {
  const uint64_t begin_bytes = whole_block_from(offset_bytes) * limits::kBlockBytes - offset_bytes;
  if (data.size() < begin_bytes + limits::kBlockBytes) return false;
  const auto blocks = data.subspan(begin_bytes);
  effort_.equal(probe_.equal(blocks));
  return effort_.may_learn_write(blocks.size() / limits::kBlockBytes, now_ns);
}

std::vector<ContentTag> ContentCache::tags_of(uint64_t offset_bytes, std::span<const std::byte> data) {
  const uint64_t first = whole_block_from(offset_bytes);
  const uint64_t end = (offset_bytes + data.size()) / limits::kBlockBytes;
  if (end <= first) return {};
  std::vector<ContentTag> tags(end - first);
  digest_.tags_of(data.subspan(first * limits::kBlockBytes - offset_bytes, tags.size() * limits::kBlockBytes), tags);
  return tags;
}

void ContentCache::written(uint64_t offset_bytes, std::span<const ContentTag> tags) {
  if (tags.empty()) return;
  places_.learn(whole_block_from(offset_bytes), tags, false, [] { return true; });
}

void ContentCache::forget(uint64_t offset_bytes, uint64_t length_bytes) {
  const uint64_t first = offset_bytes / limits::kBlockBytes;
  places_.forget(first, whole_block_from(offset_bytes + length_bytes) - first);
}

ContentCache::Figures ContentCache::figures() const {
  Figures figures;
  figures.hits = hits_.load(std::memory_order_relaxed);
  figures.misses = misses_.load(std::memory_order_relaxed);
  figures.equal_hits = equal_hits_.load(std::memory_order_relaxed);
  figures.shared_blocks = shared_blocks_.load(std::memory_order_relaxed);
  figures.blocks = contents_.blocks();
  figures.blocks_max = contents_.blocks_max();
  figures.places = places_.known();
  figures.places_max = places_.places_max();
  // What has been touched: the contents' share of what they may take, and the places' table, whose pages all have been
  // after a while.
  figures.memory_bytes =
      index_bytes() + contents_.memory_bytes() * figures.blocks / figures.blocks_max;
  figures.size_bytes = size_bytes_;
  return figures;
}

}  // namespace twinblock
