#include "io/posix/disk_flusher.h"

#include <algorithm>
#include <utility>

#include "base/checks.h"
#include "io/posix/monotonic.h"

namespace twinblock {

Result<std::unique_ptr<DiskFlusher>> DiskFlusher::create(const DiskFile& file, size_t parallel_max,
                                                         std::function<void()> finished) {
  std::vector<std::unique_ptr<FlushHandle>> handles;
  auto first = file.flush_handle();
  if (!first.ok()) return first.error();
  handles.push_back(std::move(first.value()));
  // All at once: one that is opened later would not be told of what another process's fsync was
  // told of before. Where there are no more descriptors, or no /proc, fewer do.
  while (handles.size() < parallel_max) {
    auto another = file.another_flush_handle();
    if (another == nullptr) break;
    handles.push_back(std::move(another));
  }
  return std::unique_ptr<DiskFlusher>(new DiskFlusher(std::move(handles), std::move(finished)));
}

DiskFlusher::DiskFlusher(std::vector<std::unique_ptr<FlushHandle>> handles,
                         std::function<void()> finished)
    : flushes_(handles.size()), concurrency_(handles.size()), finished_(std::move(finished)) {
  for (size_t i = 0; i < flushes_.size(); ++i) {
    flushes_[i].handle = std::move(handles[i]);
    flushes_[i].job.op = DiskOp::kFlush;
    flushes_[i].job.offset_bytes = i;  // which one it is
  }
  pool_ = std::make_unique<BlockingPool>("tb-flush", flushes_.size(),
                                         [this](DiskRequest& job) { execute(job); });
}

DiskFlusher::~DiskFlusher() = default;

void DiskFlusher::hear_old_errors() const {
  TB_CHECK(running_ == 0 && written_ == 1, "an error of this process's own writes would be missed");
  for (const Flush& flush : flushes_) flush.handle->hear_old_error();
}

void DiskFlusher::execute(DiskRequest& job) {
  job.submitted_ns = monotonic_ns();
  job.error = flushes_[job.offset_bytes].handle->flush();
  job.finished_ns = monotonic_ns();
  RequestList one;
  one.push(job);
  completed_.put(one);
  finished_();
}

void DiskFlusher::start() {
  if (!pending()) return;
  Flush& flush = from_oldest(running_);
  flush.beside = running_++;
  flush.covers = written_;
  flush.began_ns = monotonic_ns();
  flush.waiting = waiting_.take();
  flush.done = false;
  RequestList one;
  one.push(flush.job);
  pool_->put(one);
}

void DiskFlusher::collect(RequestList& finished) {
  RequestList done = completed_.take();
  while (DiskRequest* job = done.pop()) {
    flushes_[job->offset_bytes].done = true;
    if (error_ == 0) error_ = job->error;
  }
  while (running_ > 0 && from_oldest(0).done) {
    tell(from_oldest(0), finished);
    oldest_ = (oldest_ + 1) % flushes_.size();
    --running_;
  }
}

void DiskFlusher::fail(int error, RequestList& finished) {
  if (error_ == 0) error_ = error;
  // Else the last of those under way tells them.
  if (running_ > 0) return;
  const uint64_t now_ns = monotonic_ns();
  while (DiskRequest* request = waiting_.pop()) {
    request->error = error_;
    request->flush_failed = true;
    if (request->op == DiskOp::kFlush) request->submitted_ns = now_ns;
    request->finished_ns = now_ns;
    finished.push(*request);
  }
}

void DiskFlusher::tell(Flush& flush, RequestList& finished) {
  concurrency_.learn(flush.beside, flush.job.finished_ns - flush.job.submitted_ns,
                     flush.job.finished_ns);
  if (error_ == 0) covered_ = std::max(covered_, flush.covers);
  // After a failure there is no later flush that could mean anything.
  if (error_ != 0) flush.waiting.append(waiting_);
  // The wait for those that began before is the disk's, too.
  told_until_ns_ = std::max(told_until_ns_, flush.job.finished_ns);
  while (DiskRequest* request = flush.waiting.pop()) {
    request->error = error_;
    request->flush_failed = error_ != 0;
    if (request->op == DiskOp::kFlush) request->submitted_ns = flush.job.submitted_ns;
    request->finished_ns = told_until_ns_;
    finished.push(*request);
  }
}

}  // namespace twinblock
