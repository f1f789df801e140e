#include "metadata/superblock_store.h"

#include <utility>

#include "base/checks.h"

namespace twinblock::metadata {

SuperblockStore::SuperblockStore(Disk& disk, uint64_t sequence) : disk_(disk), sequence_(sequence) {
  request_.done = [this](DiskRequest&) { step_done(); };
}

void SuperblockStore::update(const NodeRecord& record, Done done) {
  if (error_ != 0) {
    done(error_);
    return;
  }
  wanted_ = record;
  wanted_is_new_ = true;
  waiting_.push_back(std::move(done));
  if (step_ == Step::kIdle) begin();
}

void SuperblockStore::give_up(int error) {
  if (error_ != 0) return;
  error_ = error;
  answer(writing_);
  answer(waiting_);
}

void SuperblockStore::begin() {
  wanted_is_new_ = false;
  writing_ = std::exchange(waiting_, {});
  ++sequence_;
  image_ = encode(wanted_, sequence_);
  submit(Step::kWriteFirst);
}

void SuperblockStore::submit(Step step) {
  step_ = step;
  const bool write = step == Step::kWriteFirst || step == Step::kWriteSecond;
  const bool first = step == Step::kWriteFirst;
  writes_ += write ? 1 : 0;
  request_.op = write ? DiskOp::kWrite : DiskOp::kFlush;
  request_.error = 0;
  // The copy that is written first alternates, so that neither is always the one at risk.
  request_.offset_bytes = write ? kSuperblockOffset[(sequence_ + (first ? 0 : 1)) % 2] : 0;
  request_.length_bytes = write ? image_.size() : 0;
  request_.data = write ? image_.data() : nullptr;
  disk_.submit(request_);
}

void SuperblockStore::step_done() {
  if (request_.error != 0 || error_ != 0) {
    if (error_ == 0) error_ = request_.error;
    step_ = Step::kIdle;
    answer(writing_);
    answer(waiting_);
    return;
  }
  switch (step_) {
    case Step::kWriteFirst:
      submit(Step::kFlushFirst);
      return;
    case Step::kFlushFirst:
      // The second copy is begun before the callbacks run: they may ask for the next update.
      submit(Step::kWriteSecond);
      answer(writing_);
      return;
    case Step::kWriteSecond:
      submit(Step::kFlushSecond);
      return;
    case Step::kFlushSecond:
      step_ = Step::kIdle;
      if (wanted_is_new_) begin();
      return;
    case Step::kIdle:
      break;
  }
  TB_CHECK(false, "a completion without a step");
}

void SuperblockStore::answer(std::vector<Done>& waiting) {
  for (Done& done : std::exchange(waiting, {})) done(error_);
}

}  // namespace twinblock::metadata
