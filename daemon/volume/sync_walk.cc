#include "volume/sync_walk.h"

#include <algorithm>
#include <utility>

#include "base/checks.h"
#include "base/limits.h"

namespace twinblock {
namespace {

constexpr uint64_t kBlock = limits::kBlockBytes;

uint64_t block_up(uint64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }
uint64_t block_down(uint64_t bytes) { return bytes / kBlock * kBlock; }

bool holds(const ByteRange& range, uint64_t at_bytes) {
  return range.begin_bytes <= at_bytes && at_bytes < range.end_bytes;
}

}  // namespace

SyncWalk::SyncWalk(Core& core, Ranges ranges, std::function<void()> looked)
    : core_(core), ranges_(std::move(ranges)), looked_(std::move(looked)) {
  request_.op = DiskOp::kExtent;
  request_.done = [this](DiskRequest&) { found(); };
}

void SyncWalk::restart() {
  cursor_ = 0;
  plain_.clear();
  again_.clear();
  singly_.clear();
  data_ = hole_ = {};
  stretch_bytes_ = limits::kHoleBytesMin;
  outdated_ = looking_;
}

std::optional<ByteRange> SyncWalk::front() const {
  return again_.empty() ? ranges_(cursor_) : again_.front();
}

bool SyncWalk::exhausted() const { return !looking_ && plain_.empty() && singly_.empty() && !front(); }

SyncWalk::Step SyncWalk::take_from(std::deque<ByteRange>& ranges, uint64_t bytes_max) {
  ByteRange& left = ranges.front();
  const ByteRange range{left.begin_bytes, std::min(left.end_bytes, left.begin_bytes + bytes_max)};
  left.begin_bytes = range.end_bytes;
  if (left.length() == 0) ranges.pop_front();
  return {range, false};
}

std::optional<SyncWalk::Step> SyncWalk::next(uint64_t run_bytes, uint64_t hole_bytes) {
  TB_CHECK(run_bytes > 0 && hole_bytes > 0, "a step has a length");
  if (!plain_.empty()) return take_from(plain_, run_bytes);
  if (looking_) return std::nullopt;
  auto range = front();
  if (!range && !singly_.empty()) return take_from(singly_, kBlock);
  if (!range) return std::nullopt;
  const uint64_t begin = range->begin_bytes;
  const uint64_t hole_end = std::min({range->end_bytes, hole_.end_bytes, begin + hole_bytes});
  const bool hole = holds(hole_, begin) && hole_end - begin >= limits::kHoleBytesMin;
  if (hole) {
    range->end_bytes = hole_end;
  } else if (range->length() >= limits::kHoleBytesMin && !holds(data_, begin)) {
    look(begin);
    return std::nullopt;
  } else {
    const uint64_t data_end = holds(data_, begin) ? data_.end_bytes : range->end_bytes;
    range->end_bytes = std::min({range->end_bytes, data_end, begin + run_bytes});
  }
  took(*range);
  return Step{*range, hole};
}

void SyncWalk::took(const ByteRange& range) {
  if (again_.empty()) {
    cursor_ = range.end_bytes;
    return;
  }
  again_.front().begin_bytes = range.end_bytes;
  if (again_.front().length() == 0) again_.pop_front();
}

// As far as it goes, and not only where there is something to do: the next ranges lie there, too.
void SyncWalk::look(uint64_t begin_bytes) {
  looking_ = true;
  request_.error = 0;
  request_.is_hole = false;
  request_.offset_bytes = begin_bytes;
  request_.length_bytes =
      std::min(core_.volume_bytes() - begin_bytes, limits::kFrameHoleBytesMax);
  core_.data.submit(request_);
}

void SyncWalk::found() {
  TB_CHECK(looking_, "the disk answers what it was asked");
  looking_ = false;
  if (!std::exchange(outdated_, false)) {
    const uint64_t begin = request_.offset_bytes;
    const uint64_t end = begin + request_.length_bytes;
    if (request_.error == 0 && request_.is_hole && end - begin >= limits::kHoleBytesMin) {
      hole_ = {begin, end >= core_.volume_bytes() ? end : block_down(end)};
      stretch_bytes_ = limits::kHoleBytesMin;
    } else {
      data_ = {begin, std::max(block_up(end), begin + stretch_bytes_)};
      stretch_bytes_ = std::min(2 * stretch_bytes_, limits::kResyncRunBytesMax);
    }
  }
  looked_();
}

void SyncWalk::failed(const ByteRange& run) {
  if (!singly_.empty() && singly_.back().end_bytes == run.begin_bytes)
    singly_.back().end_bytes = run.end_bytes;
  else
    singly_.push_back(run);
}

void SyncWalk::ended(const BlockSync::Outcome& outcome) {
  if (outcome.plain.length() > 0) plain_.push_back(outcome.plain);
  if (outcome.rest.length() > 0) again_.push_back(outcome.rest);
}

}  // namespace twinblock
