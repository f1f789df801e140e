#include "io/posix/disk_flusher.h"

#include <algorithm>
#include <utility>

#include "io/posix/monotonic.h"

namespace twinblock {

Result<std::unique_ptr<DiskFlusher>> DiskFlusher::create(const DiskFile& file, size_t parallel_max,
                                                         std::function<void()> finished) {
  // All at once: one that is opened later would not be told of what another process's fsync was
  // told of before.
  std::vector<std::unique_ptr<FlushHandle>> handles;
  const size_t count = file.parallel_flushes() ? parallel_max : 1;
  while (handles.size() < count) {
    auto opened = file.flush_handle();
    if (!opened.ok()) return opened.error();
    handles.push_back(std::move(opened.value()));
  }
  return std::unique_ptr<DiskFlusher>(new DiskFlusher(std::move(handles), std::move(finished)));
}

DiskFlusher::DiskFlusher(std::vector<std::unique_ptr<FlushHandle>> handles,
                         std::function<void()> finished)
    : flushes_(handles.size()), finished_(std::move(finished)) {
  for (size_t i = 0; i < flushes_.size(); ++i) {
    flushes_[i].handle = std::move(handles[i]);
    flushes_[i].job.op = DiskOp::kFlush;
    flushes_[i].job.offset_bytes = i;  // which one it is
  }
  pool_ = std::make_unique<BlockingPool>("tb-flush", flushes_.size(),
                                         [this](DiskRequest& job) { execute(job); });
}

DiskFlusher::~DiskFlusher() = default;

void DiskFlusher::execute(DiskRequest& job) {
  job.submitted_ns = monotonic_ns();
  job.error = flushes_[job.offset_bytes].handle->flush();
  job.finished_ns = monotonic_ns();
  RequestList one;
  one.push(job);
  completed_.put(one);
  finished_();
}

void DiskFlusher::add(DiskRequest& request) {
  if (error_ == 0) return waiting_.push(request);
  request.error = error_;
  failed_.push(request);
}

size_t DiskFlusher::parallel() const {
  const uint64_t fit = std::min(shortest_ns_, shortest_before_ns_) / kSpacing_ns;
  return std::clamp<uint64_t>(fit, 1, flushes_.size());
}

void DiskFlusher::start() {
  if (!could_start()) return;
  Flush& flush = from_oldest(running_++);
  flush.waiting = waiting_.take();
  flush.done = false;
  RequestList one;
  one.push(flush.job);
  pool_->put(one);
}

void DiskFlusher::collect(RequestList& finished) {
  finished.append(failed_);
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

void DiskFlusher::tell(Flush& flush, RequestList& finished) {
  took(flush.job.finished_ns - flush.job.submitted_ns);
  // After a failure there is no later flush that could mean anything.
  if (error_ != 0) flush.waiting.append(waiting_);
  while (DiskRequest* request = flush.waiting.pop()) {
    request->error = error_;
    if (request->op == DiskOp::kFlush) request->submitted_ns = flush.job.submitted_ns;
    request->finished_ns = flush.job.finished_ns;
    finished.push(*request);
  }
}

void DiskFlusher::took(uint64_t duration_ns) {
  if (counted_++ % kWindow == 0) shortest_before_ns_ = std::exchange(shortest_ns_, duration_ns);
  shortest_ns_ = std::min(shortest_ns_, duration_ns);
  if (counted_ < kWindow) shortest_before_ns_ = shortest_ns_;  // there is none yet
}

}  // namespace twinblock
