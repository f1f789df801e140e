#include "metadata/intent_map.h"

#include <algorithm>
#include <bit>

#include "base/checks.h"
#include "metadata/intent_page.h"

namespace twinblock::metadata {
namespace {

// Calls visit(word, mask) for the words that hold their bits.
template <typename Visit>
void for_words(IntentMap::Regions regions, const Visit& visit) {
  const auto [first, last] = regions;
  for (uint64_t word = first / 64; word <= last / 64; ++word) {
    const uint64_t from = word == first / 64 ? first % 64 : 0;
    const uint64_t to = word == last / 64 ? last % 64 : 63;
    visit(word, low_bits(to + 1) & ~low_bits(from));
  }
}

}  // namespace

IntentMap::IntentMap(uint32_t region_bytes)
    : shift_(static_cast<unsigned>(std::countr_zero(region_bytes))) {
  TB_CHECK(region_bytes_valid(region_bytes), "what the superblock may hold");
}

void IntentMap::grow(uint64_t volume_bytes) {
  TB_CHECK(volume_bytes > 0 && volume_bytes >= volume_bytes_, "a volume never shrinks");
  const Layout layout = layout_of(volume_bytes, region_bytes());
  volume_bytes_ = volume_bytes;
  regions_ = layout.regions;
  const uint64_t words = (regions_ + 63) / 64;
  for (auto* bitmap : {&bits_, &durable_, &touched_now_, &touched_before_}) bitmap->resize(words);
  pages_.grow(layout.intent_pages);
}

void IntentMap::load(const std::vector<uint64_t>& words) {
  TB_CHECK(set_regions_ == 0, "loaded once, before use");
  TB_CHECK(words.empty() || words.size() == bits_.size(), "the words of this volume");
  for (uint64_t word = 0; word < words.size(); ++word) {
    if (words[word] == 0) continue;
    bits_[word] = touched_now_[word] = words[word];
    set_regions_ += static_cast<uint64_t>(std::popcount(words[word]));
    pages_.change(word / kIntentWords, PageState::kLazy);
  }
}

IntentMap::Regions IntentMap::regions_of(uint64_t offset_bytes, uint64_t length_bytes) const {
  const Regions regions{offset_bytes >> shift_, (offset_bytes + length_bytes - 1) >> shift_};
  TB_CHECK(length_bytes > 0 && regions.last < regions_, "a range inside the volume");
  return regions;
}

bool IntentMap::durable(Regions regions) const {
  TB_CHECK(regions.first <= regions.last && regions.last < regions_, "a range inside the volume");
  bool all = true;
  for_words(regions,
            [&](uint64_t word, uint64_t mask) { all = all && (durable_[word] & mask) == mask; });
  return all;
}

bool IntentMap::covered_many(Regions regions) {
  if (!durable(regions)) return false;
  touch(regions);
  return true;
}

// A bit that is set but not durable lies on a page that is to be written, or in the images that were taken last.
void IntentMap::set(Regions regions) {
  for_words(regions, [&](uint64_t word, uint64_t mask) {
    const uint64_t fresh = mask & ~bits_[word];
    bits_[word] |= fresh;
    touched_now_[word] |= mask;
    set_regions_ += static_cast<uint64_t>(std::popcount(fresh));
    const uint64_t page = word / kIntentWords;
    const bool waits = (mask & ~durable_[word]) != 0 && pages_.state(page) == PageState::kLazy;
    if (fresh != 0 || waits) pages_.change(page, PageState::kUrgent);
  });
}

void IntentMap::touch(Regions regions) {
  for_words(regions, [&](uint64_t word, uint64_t mask) { touched_now_[word] |= mask; });
}

void IntentMap::age(const std::function<bool(uint64_t, uint64_t)>& needed) {
  const uint64_t region_bytes = uint64_t{1} << shift_;
  uint64_t looks = 0;
  for (uint64_t walked = 0; walked < bits_.size() && looks < kAgeLooksMax; ++walked) {
    const uint64_t word = age_word_;
    age_word_ = (age_word_ + 1) % bits_.size();
    uint64_t old = bits_[word] & ~(touched_now_[word] | touched_before_[word]);
    for (; old != 0; old &= old - 1) {
      ++looks;
      const uint64_t region = word * 64 + static_cast<uint64_t>(std::countr_zero(old));
      const uint64_t offset = region << shift_;
      if (needed(offset, std::min(region_bytes, volume_bytes_ - offset))) continue;
      const uint64_t keep = ~(old & (~old + 1));
      bits_[word] &= keep;
      durable_[word] &= keep;
      --set_regions_;
      pages_.change(word / kIntentWords, PageState::kLazy);
    }
  }
  touched_before_.swap(touched_now_);
  std::fill(touched_now_.begin(), touched_now_.end(), 0);
}

void IntentMap::clear() {
  for (uint64_t word = 0; word < bits_.size(); ++word) {
    if (bits_[word] != 0) pages_.change(word / kIntentWords, PageState::kLazy);
    bits_[word] = durable_[word] = touched_now_[word] = touched_before_[word] = 0;
  }
  set_regions_ = 0;
}

void IntentMap::take_changed(size_t pages_max, uint64_t sequence, uint64_t tag,
                             std::vector<IntentPage>& images) {
  images.clear();
  for (const uint32_t page : pages_.pick(pages_max)) {
    const std::span words = std::span(bits_).subspan(page * kIntentWords);
    images.push_back(
        encode_page(page, sequence, tag, words.first(std::min(words.size(), kIntentWords))));
  }
}

void IntentMap::stored(std::span<const IntentPage> images) {
  for (const IntentPage& image : images) {
    // A bit that was cleared meanwhile does not count, as the next commit takes it off the disk;
    // one that has been set again is on the disk, and will be in the next commit, too.
    const uint64_t first = uint64_t{image.index} * kIntentWords;
    const uint64_t words = std::min<uint64_t>(kIntentWords, bits_.size() - first);
    for (uint64_t i = 0; i < words; ++i) durable_[first + i] |= image.bits[i] & bits_[first + i];
  }
}

void IntentMap::disk_is_cleared() {
  pages_.all_written();
  for (uint64_t word = 0; word < bits_.size(); ++word)
    if (bits_[word] != 0) pages_.change(word / kIntentWords, PageState::kUrgent);
}

void IntentMap::for_each_set(const std::function<void(uint64_t, uint64_t)>& visit) const {
  uint64_t begin = 0, end = 0;  // the run so far, in regions
  const auto emit = [&] {
    if (begin == end) return;
    const uint64_t offset = begin << shift_;
    visit(offset, std::min(end << shift_, volume_bytes_) - offset);
  };
  for (uint64_t word = 0; word < bits_.size(); ++word) {
    for (uint64_t rest = bits_[word]; rest != 0;) {
      const auto at = static_cast<uint64_t>(std::countr_zero(rest));
      const auto length = static_cast<uint64_t>(std::countr_one(rest >> at));
      rest &= ~(low_bits(length) << at);
      const uint64_t region = word * 64 + at;
      if (region != end) {
        emit();
        begin = region;
      }
      end = region + length;
    }
  }
  emit();
}

bool IntentMap::any(uint64_t offset_bytes, uint64_t length_bytes) const {
  if (length_bytes == 0) return false;
  bool found = false;
  for_words(regions_of(offset_bytes, length_bytes),
            [&](uint64_t word, uint64_t mask) { found = found || (bits_[word] & mask) != 0; });
  return found;
}

uint64_t IntentMap::set_bytes() const {
  const uint64_t last = regions_ - 1;
  const uint64_t past_end = (regions_ << shift_) - volume_bytes_;
  const bool last_set = (bits_[last / 64] >> (last % 64) & 1) != 0;
  return (set_regions_ << shift_) - (last_set ? past_end : 0);
}

}  // namespace twinblock::metadata
