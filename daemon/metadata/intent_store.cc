#include "metadata/intent_store.h"

#include <algorithm>
#include <utility>

#include "base/checks.h"
#include "base/limits.h"
#include "metadata/intent_page.h"

namespace twinblock::metadata {

IntentStore::IntentStore(Disk& disk, uint64_t volume_bytes, uint32_t region_bytes, Clock* clock)
    : disk_(disk), map_(region_bytes), gathering_(clock, [this] { begin(); }) {
  grow(volume_bytes);
  flush_.op = DiskOp::kFlush;
  flush_.done = [this](DiskRequest& request) { request_done(request); };
  growth_.request.done = [this](DiskRequest&) { growth_step(); };
}

void IntentStore::load(const std::vector<uint64_t>& words, uint64_t tag, uint64_t sequence) {
  TB_CHECK(step_ == Step::kIdle, "loaded once, before use");
  map_.load(words);
  tag_ = tag;
  sequence_ = sequence;
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
  TB_CHECK(growth_.volume_bytes == 0 && volume_bytes >= map_.volume_bytes(), "one growth at a time");
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
  TB_CHECK(!creating(), "one change of the pages at a time");
  map_.grow(volume_bytes);
  layout_ = layout_of(volume_bytes, region_bytes());
}

int IntentStore::cover(uint64_t offset_bytes, uint64_t length_bytes, Waiter& waiter) {
  if (error_ != 0) return error_;
  const IntentMap::Regions regions = map_.regions_of(offset_bytes, length_bytes);
  map_.set(regions);
  waiting_.push_back({&waiter, regions});
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

void IntentStore::forget_bits() {
  map_.clear();
  for (const Waiting& each : waiting_) map_.set(each.regions);
}

void IntentStore::clear_all() {
  forget_bits();
  if (step_ == Step::kIdle && map_.changed()) begin();
}

void IntentStore::give_up(int error) {
  if (error_ == 0) error_ = error;
  for (const Waiting& each : std::exchange(waiting_, {})) each.waiter->intent_recorded(error_);
  creation_.wanted = false;
  for (auto* done : {&creation_.done, &growth_.done})
    if (const auto waits = std::exchange(*done, nullptr)) waits(error_);
}

void IntentStore::age(const std::function<bool(uint64_t, uint64_t)>& needed) {
  for (const Waiting& each : waiting_) map_.touch(each.regions);
  map_.age(needed);
  if (step_ == Step::kIdle && map_.changed()) begin();
}

void IntentStore::begin() {
  if (error_ != 0) return;
  gathering_.began();
  step_error_ = 0;
  if (creation_.wanted) {
    begin_create();
    return;
  }
  ++sequence_;
  map_.take_changed(kCommitPagesMax, sequence_, tag_, images_);
  if (images_.empty()) {
    submit_flush(Step::kFlush);
    return;
  }
  step_ = Step::kWrite;
  submit_pages();
}

// Whatever the disk holds is overwritten with cleared pages; what is waited for comes after them.
void IntentStore::begin_create() {
  map_.disk_is_cleared();
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
  if (!creation_.wanted) map_.stored(images_);
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
      [this](const Waiting& each) { return error_ == 0 && !map_.durable(each.regions); });
  told.assign(done, waiting_.end());
  waiting_.erase(done, waiting_.end());
  gathering_.told(told.size());
  for (const Waiting& each : told) each.waiter->intent_recorded(error_);
  step_ = Step::kIdle;
  if (creation_.wanted || !waiting_.empty() || map_.changed()) begin_when_worth();
}

}  // namespace twinblock::metadata
