#include "metadata/intent_store.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/checks.h"
#include "base/limits.h"
#include "metadata/intent_page.h"

namespace twinblock::metadata {
namespace {

// Calls visit(word, mask) for the words that hold the bits first … last.
template <typename Visit>
void for_words(uint64_t first, uint64_t last, const Visit& visit) {
  for (uint64_t word = first / 64; word <= last / 64; ++word) {
    const uint64_t from = word == first / 64 ? first % 64 : 0;
    const uint64_t to = word == last / 64 ? last % 64 : 63;
    visit(word, low_bits(to + 1) & ~low_bits(from));
  }
}

}  // namespace

IntentStore::IntentStore(Disk& disk, uint64_t volume_bytes, uint32_t region_bytes, Clock* clock)
    : disk_(disk),
      volume_bytes_(volume_bytes),
      shift_(static_cast<unsigned>(std::countr_zero(region_bytes))),
      gathering_(clock, [this] { begin(); }) {
  TB_CHECK(region_bytes_valid(region_bytes) && volume_bytes > 0, "what the superblock may hold");
  grow(volume_bytes);
  flush_.op = DiskOp::kFlush;
  flush_.done = [this](DiskRequest& request) { request_done(request); };
  growth_.request.done = [this](DiskRequest&) { growth_step(); };
}

void IntentStore::load(const std::vector<uint64_t>& words, uint64_t tag, uint64_t sequence) {
  TB_CHECK(step_ == Step::kIdle && set_regions_ == 0, "loaded once, before use");
  TB_CHECK(words.empty() || words.size() == bits_.size(), "the words of this volume");
  tag_ = tag;
  sequence_ = sequence;
  for (uint64_t word = 0; word < words.size(); ++word) {
    if (words[word] == 0) continue;
    bits_[word] = touched_now_[word] = words[word];
    set_regions_ += static_cast<uint64_t>(std::popcount(words[word]));
    pages_.change(word / kIntentWords, PageState::kLazy);
  }
}

void IntentStore::create(uint64_t tag, std::function<void(int)> done) {
  TB_CHECK(!creation_.wanted, "created once at a time");
  if (error_ != 0) {
    done(error_);
    return;
  }
  tag_ = tag;
  creation_.done = std::move(done);
  creation_.wanted = true;
  forget_bits();
  if (step_ == Step::kIdle) begin();
}

void IntentStore::prepare_growth(uint64_t volume_bytes, std::function<void(int)> done) {
  if (error_ != 0) {
    done(error_);
    return;
  }
  TB_CHECK(growth_.volume_bytes == 0 && volume_bytes >= volume_bytes_, "one growth at a time");
  growth_.volume_bytes = volume_bytes;
  growth_.done = std::move(done);
  const uint64_t pages = layout_of(volume_bytes, region_bytes()).intent_pages;
  growth_.images.clear();
  for (uint64_t page = layout_.intent_pages; page < pages; ++page)
    growth_.images.push_back(encode_page(static_cast<uint32_t>(page), 0, tag_, {}));
  DiskRequest& request = growth_.request;
  request.op = growth_.images.empty() ? DiskOp::kFlush : DiskOp::kWrite;
  request.error = 0;
  request.offset_bytes = layout_.intent_offset + layout_.intent_pages * kPageBytes;
  request.length_bytes = growth_.images.size() * kPageBytes;
  request.data = reinterpret_cast<std::byte*>(growth_.images.data());
  disk_.submit(request);
}

void IntentStore::growth_step() {
  DiskRequest& request = growth_.request;
  if (growth_.done && request.error == 0 && request.op == DiskOp::kWrite) {
    request.op = DiskOp::kFlush;
    request.offset_bytes = request.length_bytes = 0;
    request.data = nullptr;
    disk_.submit(request);
    return;
  }
  growth_.volume_bytes = 0;
  growth_.images = {};
  if (const auto done = std::exchange(growth_.done, nullptr)) done(request.error);
}

void IntentStore::grow(uint64_t volume_bytes) {
  TB_CHECK(volume_bytes >= volume_bytes_ && !creating(), "a volume never shrinks");
  volume_bytes_ = volume_bytes;
  layout_ = layout_of(volume_bytes, region_bytes());
  const uint64_t words = (layout_.regions + 63) / 64;
  for (auto* bitmap : {&bits_, &durable_, &touched_now_, &touched_before_}) bitmap->resize(words);
  pages_.grow(layout_.intent_pages);
}

bool IntentStore::durable(uint64_t first, uint64_t last) const {
  TB_CHECK(first <= last && last < layout_.regions, "a range inside the volume");
  bool all = true;
  for_words(first, last,
            [&](uint64_t word, uint64_t mask) { all = all && (durable_[word] & mask) == mask; });
  return all;
}

bool IntentStore::covered_many(uint64_t first, uint64_t last) {
  if (!durable(first, last)) return false;
  for_words(first, last, [&](uint64_t word, uint64_t mask) { touched_now_[word] |= mask; });
  return true;
}

int IntentStore::cover(uint64_t offset_bytes, uint64_t length_bytes, Waiter& waiter) {
  if (error_ != 0) return error_;
  const uint64_t first = offset_bytes >> shift_;
  const uint64_t last = (offset_bytes + length_bytes - 1) >> shift_;
  TB_CHECK(length_bytes > 0 && last < layout_.regions, "a range inside the volume");
  set(first, last);
  waiting_.push_back({&waiter, first, last});
  ++waits_;
  if (step_ == Step::kIdle) begin_when_worth();
  return 0;
}

void IntentStore::begin_when_worth() {
  if (error_ == 0 && !creating() && gathering_.worth_waiting(waiting_.size()))
    gathering_.wait();
  else
    begin();
}

// A bit that is set but not durable lies on a page that is to be written, or in the images of the
// commit under way.
void IntentStore::set(uint64_t first, uint64_t last) {
  for_words(first, last, [&](uint64_t word, uint64_t mask) {
    const uint64_t fresh = mask & ~bits_[word];
    bits_[word] |= fresh;
    touched_now_[word] |= mask;
    set_regions_ += static_cast<uint64_t>(std::popcount(fresh));
    const uint64_t page = word / kIntentWords;
    const bool waits = (mask & ~durable_[word]) != 0 && pages_.state(page) == PageState::kLazy;
    if (fresh != 0 || waits) pages_.change(page, PageState::kUrgent);
  });
}

void IntentStore::forget_bits() {
  for (uint64_t word = 0; word < bits_.size(); ++word) {
    if (bits_[word] != 0) pages_.change(word / kIntentWords, PageState::kLazy);
    bits_[word] = durable_[word] = touched_now_[word] = touched_before_[word] = 0;
  }
  set_regions_ = 0;
  for (const Waiting& each : waiting_) set(each.first, each.last);
}

void IntentStore::clear_all() {
  forget_bits();
  if (step_ == Step::kIdle && pages_.any()) begin();
}

void IntentStore::give_up(int error) {
  if (error_ == 0) error_ = error;
  for (const Waiting& each : std::exchange(waiting_, {})) each.waiter->intent_recorded(error_);
  creation_.wanted = false;
  for (auto* done : {&creation_.done, &growth_.done})
    if (const auto waits = std::exchange(*done, nullptr)) waits(error_);
}

void IntentStore::age(const std::function<bool(uint64_t, uint64_t)>& needed) {
  for (const Waiting& each : waiting_)
    for_words(each.first, each.last,
              [&](uint64_t word, uint64_t mask) { touched_now_[word] |= mask; });
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
  if (step_ == Step::kIdle && pages_.any()) begin();
}

void IntentStore::begin() {
  if (error_ != 0) return;
  gathering_.began();
  step_error_ = 0;
  if (creation_.wanted) {
    begin_create();
    return;
  }
  const std::vector<uint32_t> picked = pages_.pick(kCommitPagesMax);
  ++sequence_;
  images_.clear();
  for (const uint32_t page : picked) {
    const std::span words = std::span(bits_).subspan(page * kIntentWords);
    images_.push_back(
        encode_page(page, sequence_, tag_, words.first(std::min(words.size(), kIntentWords))));
  }
  if (picked.empty()) {
    submit_flush(Step::kFlush);
    return;
  }
  step_ = Step::kWrite;
  submit_pages();
}

// Whatever the disk holds is overwritten with cleared pages; what is waited for comes after them.
void IntentStore::begin_create() {
  pages_.all_written();
  for (uint64_t word = 0; word < bits_.size(); ++word)
    if (bits_[word] != 0) pages_.change(word / kIntentWords, PageState::kUrgent);
  sequence_ = 0;
  creation_.written_pages = 0;
  create_pages();
}

// The images, neighbours in one request.
void IntentStore::submit_pages() {
  size_t runs = 0;
  for (size_t i = 0; i < images_.size(); ++i)
    if (i == 0 || images_[i].index != images_[i - 1].index + 1) ++runs;
  if (writes_.size() < runs) writes_.resize(runs);
  size_t run = 0;
  for (size_t i = 0; i < images_.size(); ++run) {
    size_t end = i + 1;
    while (end < images_.size() && images_[end].index == images_[end - 1].index + 1) ++end;
    DiskRequest& request = writes_[run];
    request.op = DiskOp::kWrite;
    request.error = 0;
    request.offset_bytes = layout_.intent_offset + uint64_t{images_[i].index} * kPageBytes;
    request.length_bytes = (end - i) * kPageBytes;
    request.data = reinterpret_cast<std::byte*>(&images_[i]);
    request.done = [this](DiskRequest& done) { request_done(done); };
    i = end;
  }
  outstanding_ = runs;
  for (size_t i = 0; i < runs; ++i) disk_.submit(writes_[i]);
}

void IntentStore::submit_flush(Step step) {
  step_ = step;
  ++commits_;
  flush_.error = 0;
  outstanding_ = 1;
  disk_.submit(flush_);
}

// The next cleared pages of a create().
void IntentStore::create_pages() {
  step_ = Step::kCreateWrite;
  const uint64_t end = std::min(creation_.written_pages + kCommitPagesMax, layout_.intent_pages);
  images_.clear();
  for (; creation_.written_pages < end; ++creation_.written_pages)
    images_.push_back(encode_page(static_cast<uint32_t>(creation_.written_pages), 0, tag_, {}));
  submit_pages();
}

void IntentStore::request_done(const DiskRequest& request) {
  TB_CHECK(outstanding_ > 0, "a completion without a request");
  if (request.error != 0) step_error_ = request.error;
  if (--outstanding_ == 0) step_done();
}

void IntentStore::step_done() {
  if (step_error_ != 0 || error_ != 0) {
    if (error_ == 0) error_ = step_error_;
    tell();
    return;
  }
  switch (step_) {
    case Step::kWrite:
      submit_flush(Step::kFlush);
      return;
    case Step::kFlush:
      commit_done();
      return;
    case Step::kCreateWrite:
      if (creation_.written_pages < layout_.intent_pages)
        create_pages();
      else
        submit_flush(Step::kCreateFlush);
      return;
    case Step::kCreateFlush:
      tell();
      return;
    case Step::kIdle:
    case Step::kTell:
      break;
  }
  TB_CHECK(false, "a completion without a step");
}

void IntentStore::commit_done() {
  // What create() is about to overwrite is no promise.
  if (creation_.wanted) images_.clear();
  for (const IntentPage& image : images_) {
    // A bit that was cleared meanwhile does not count, as the next commit takes it off the disk;
    // one that has been set again is on the disk, and will be in the next commit, too.
    const uint64_t first = uint64_t{image.index} * kIntentWords;
    const uint64_t words = std::min<uint64_t>(kIntentWords, bits_.size() - first);
    for (uint64_t i = 0; i < words; ++i) durable_[first + i] |= image.bits[i] & bits_[first + i];
  }
  tell();
}

// Everybody whose regions are durable, or everybody if the disk has failed; then goes on.
void IntentStore::tell() {
  const bool created = step_ == Step::kCreateFlush || step_ == Step::kCreateWrite;
  step_ = Step::kTell;  // who is told may ask for more, which then shares one commit
  if (creation_.wanted && (created || error_ != 0)) {
    creation_.wanted = false;
    std::exchange(creation_.done, nullptr)(error_);
  }
  std::vector<Waiting> told;
  const auto done = std::stable_partition(
      waiting_.begin(), waiting_.end(),
      [this](const Waiting& each) { return error_ == 0 && !durable(each.first, each.last); });
  told.assign(done, waiting_.end());
  waiting_.erase(done, waiting_.end());
  gathering_.told(told.size());
  for (const Waiting& each : told) each.waiter->intent_recorded(error_);
  step_ = Step::kIdle;
  if (creation_.wanted || !waiting_.empty() || pages_.any()) begin_when_worth();
}

void IntentStore::for_each_set(const std::function<void(uint64_t, uint64_t)>& visit) const {
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

bool IntentStore::any(uint64_t offset_bytes, uint64_t length_bytes) const {
  if (length_bytes == 0) return false;
  const uint64_t last = (offset_bytes + length_bytes - 1) >> shift_;
  TB_CHECK(last < layout_.regions, "a range inside the volume");
  bool found = false;
  for_words(offset_bytes >> shift_, last,
            [&](uint64_t word, uint64_t mask) { found = found || (bits_[word] & mask) != 0; });
  return found;
}

uint64_t IntentStore::set_bytes() const {
  const uint64_t last = layout_.regions - 1;
  const uint64_t past_end = (layout_.regions << shift_) - volume_bytes_;
  const bool last_set = (bits_[last / 64] >> (last % 64) & 1) != 0;
  return (set_regions_ << shift_) - (last_set ? past_end : 0);
}

}  // namespace twinblock::metadata
