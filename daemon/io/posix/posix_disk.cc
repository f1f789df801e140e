#include "io/posix/posix_disk.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "base/checks.h"
#include "io/posix/data_look.h"
#include "io/posix/io_watcher.h"
#include "io/posix/monotonic.h"
#include "io/posix/uring.h"

namespace twinblock {

Result<std::unique_ptr<PosixDisk>> PosixDisk::open(Loop& loop, const Options& options) {
  auto file = DiskFile::open(options.file);
  if (!file.ok()) return file.error();
  std::unique_ptr<Uring> uring;
  if (options.engine != Engine::kThreads) {
    auto created = Uring::create(options.uring_submit);
    if (!created.ok() && options.engine == Engine::kIoUring) {
      Error error = created.error();
      error.action =
          "choose the \"threads\" disk engine, or allow io_uring (the sysctl "
          "kernel.io_uring_disabled, the container's seccomp profile)";
      return error;
    }
    if (created.ok()) uring = std::move(created.value());
  }
  auto flusher =
      DiskFlusher::create(*file.value(), options.parallel_flushes_max, [&loop] { loop.nudge(); });
  if (!flusher.ok()) return flusher.error();
  return std::unique_ptr<PosixDisk>(new PosixDisk(loop, options, std::move(file.value()),
                                                  std::move(uring), std::move(flusher.value())));
}

PosixDisk::PosixDisk(Loop& loop, const Options& options, std::unique_ptr<DiskFile> file,
                     std::unique_ptr<Uring> uring, std::unique_ptr<DiskFlusher> flusher)
    : loop_(loop),
      inline_bytes_max_(file->direct() ? 0 : options.inline_bytes),
      file_(std::move(file)),
      uring_(std::move(uring)),
      flusher_(std::move(flusher)) {
  if (uring_ != nullptr) {
    // Finished transfers are looked for in every turn; this only ends the wait for events.
    ring_watcher_ = std::make_unique<IoWatcher>(loop_, uring_->fd(), EV_READ, [] {});
    ring_watcher_->start();
    retry_timer_ = loop_.make_timer([] {});
  }
  const size_t needed = file_->direct() && uring_ == nullptr ? kPoolThreadsDirect : kPoolThreads;
  const size_t threads = options.pool_threads > 0 ? options.pool_threads : needed;
  pool_ = std::make_unique<BlockingPool>("tb-disk", threads, [this](DiskRequest& request) {
    execute(request);
    if (request.op == DiskOp::kWrite) pool_writes_.fetch_sub(1, std::memory_order_relaxed);
    RequestList one;
    one.push(request);
    completed_.put(one);
    loop_.nudge();
  });
  loop_.attach(*this);
}

DataFound PosixDisk::look_for_data() const {
  // The file that is open, whatever has its name by now.
  const Result<DataFound> found = twinblock::look_for_data("/proc/self/fd/" + std::to_string(file_->fd()));
  return found.ok() ? found.value() : DataFound::kUnknown;
}

// What fails in the flush of that itself is no old error: then it can't be shown that the disk takes what memory holds.
bool PosixDisk::forget_cache() const {
  flusher_->hear_old_errors();
  return file_->forget_cache();
}

PosixDisk::~PosixDisk() {
  shut_down();
  loop_.detach(*this);
}

void PosixDisk::shut_down() {
  pool_.reset();
  flusher_.reset();
  const auto wait = [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
  while (uring_ != nullptr && uring_->in_flight() > 0) {
    (void)uring_->submit();
    RequestList dropped;
    uring_->reap(dropped, dropped);
    while (DiskRequest* request = dropped.pop()) unalign(*request, false);
    wait();
  }
  while (inline_running_.load(std::memory_order_acquire)) wait();
  while (lent_.load(std::memory_order_acquire) > 0) wait();
  for (RequestList* list : {&writes_, &transfers_, &blocking_, &ready_}) (void)list->take();
  (void)completed_.take();
}

namespace {

// What a kWrite or a small kZero writes.
const std::byte* source(const DiskRequest& request) {
  if (request.aligned != nullptr) return request.aligned;
  return request.op == DiskOp::kZero ? DiskFile::zeroes() : request.data;
}

}  // namespace

void PosixDisk::submit(DiskRequest& request) {
  TB_CHECK(flusher_ != nullptr, "a disk request after shut_down()");
  request.slot = under_way().begin();
  request.error = 0;
  request.is_hole = request.flush_failed = false;
  request.durable = request.fua && request.op == DiskOp::kWrite && file_->direct() &&
                    plain_blocks(request) && flusher_->nothing_unflushed();
  if (request.durable) request.durable_slot = durable_.begin();
  request.again = false;
  if (request.op != DiskOp::kFlush)
    TB_CHECK(request.offset_bytes <= size_bytes() &&
                 request.length_bytes <= size_bytes() - request.offset_bytes,
             "a disk request beyond the end");
  if (flusher_->error() != 0 && (request.op == DiskOp::kFlush || request.fua)) {
    request.error = flusher_->error();
    request.flush_failed = true;
    request.submitted_ns = request.finished_ns = monotonic_ns();
    return ready_.push(request);
  }
  if (request.length_bytes == 0 && request.op != DiskOp::kFlush) {
    request.submitted_ns = request.finished_ns = monotonic_ns();
    return data_finished(request);
  }
  switch (request.op) {
    case DiskOp::kFlush:
      return flusher_->add(request);
    case DiskOp::kRead:
      return transfers_.push(request);
    case DiskOp::kExtent:
      return blocking_.push(request);
    case DiskOp::kZero:
      if (!DiskFile::zero_is_write(request.offset_bytes, request.length_bytes, request.may_unmap))
        return blocking_.push(request);
      [[fallthrough]];
    case DiskOp::kWrite:
      writes_bytes_ += request.length_bytes;
      return writes_.push(request);
  }
}

bool PosixDisk::submit_queued() {
  bool inline_now = false;
  uint64_t now_ns = 0;
  if (!writes_.empty()) {
    now_ns = monotonic_ns();
    const bool alone = pool_writes_.load(std::memory_order_relaxed) == 0 &&
                       (uring_ == nullptr || uring_->in_flight() == 0);
    const uint64_t bytes_max =
        alone ? inline_bytes_max_ : std::min(inline_bytes_max_, kInlineBytesBesideOthers);
    inline_now = writes_bytes_ <= bytes_max && loop_.role().may_block(now_ns);
    if (!inline_now) transfers_.append(writes_);
    writes_bytes_ = 0;
  }
  // What others execute begins before what occupies this thread.
  start_transfers();
  flusher_->start();
  return !inline_now || write_inline(now_ns);
}

void PosixDisk::start_transfers() {
  RequestList ring;
  while (DiskRequest* request = transfers_.pop()) {
    const bool write = request->op != DiskOp::kRead;
    const bool pool = !ring_takes(*request) || (write && !file_->async_writes());
    if (pool && request->op == DiskOp::kWrite) pool_writes_.fetch_add(1, std::memory_order_relaxed);
    (pool ? blocking_ : ring).push(*request);
  }
  transfers_.append(ring);
  if (!blocking_.empty()) pool_->put(blocking_);
  if (uring_ == nullptr) return;
  const uint64_t now_ns = transfers_.empty() ? 0 : monotonic_ns();
  while (!transfers_.empty() && ring_takes() && !uring_->full()) {
    DiskRequest& request = *transfers_.pop();
    request.submitted_ns = now_ns;
    align(request);
    uring_->prepare(request, file_->fd(), source(request));
  }
  if (!retry_timer_->armed() && !uring_->submit()) retry_timer_->arm(1 * kMillisecond_ns);
}

bool PosixDisk::ring_takes() const { return uring_ != nullptr && uring_->broken() == 0; }

bool PosixDisk::ring_takes(const DiskRequest& request) const {
  return ring_takes() && (!file_->direct() || plain_blocks(request));
}

bool PosixDisk::plain_blocks(const DiskRequest& request) const {
  return file_->whole_blocks(request.offset_bytes, request.length_bytes) &&
         request.length_bytes <= AlignedBuffers::kBytesMax;
}

// The kernel works on what it is given until the transfer has finished.
void PosixDisk::align(DiskRequest& request) {
  if (!file_->direct() || file_->aligned(request.op == DiskOp::kRead ? request.data : source(request)))
    return;
  std::byte* memory = file_->buffers().take(request.length_bytes);
  if (request.op != DiskOp::kRead) std::memcpy(memory, source(request), request.length_bytes);
  request.aligned = memory;
}

void PosixDisk::unalign(DiskRequest& request, bool read) {
  std::byte* memory = std::exchange(request.aligned, nullptr);
  if (memory == nullptr) return;
  if (read) std::memcpy(request.data, memory, request.length_bytes);
  file_->buffers().give_back(memory, request.length_bytes);
}

bool PosixDisk::write_inline(uint64_t now_ns) {
  Loop& loop = loop_;
  RequestList batch = writes_.take();
  RequestList finished;
  inline_running_.store(true, std::memory_order_relaxed);
  const uint64_t section = loop.role().begin_blocking(now_ns);
  while (DiskRequest* request = batch.pop()) {
    request->submitted_ns = now_ns;
    request->error = file_->write(request->offset_bytes, source(*request), request->length_bytes);
    request->finished_ns = now_ns = monotonic_ns();
    finished.push(*request);
  }
  if (loop.role().end_blocking(section, now_ns)) {
    inline_running_.store(false, std::memory_order_relaxed);
    while (DiskRequest* request = finished.pop()) data_finished(*request);
    return true;
  }
  // Another thread is the loop now; the disk may be destroyed once it sees the flag.
  completed_.put(finished);
  inline_running_.store(false, std::memory_order_release);
  loop.nudge();
  return false;
}

RequestList PosixDisk::lend() {
  const bool beside_others =
      pool_writes_.load(std::memory_order_relaxed) > 0 || (uring_ && uring_->in_flight() > 0);
  if (writes_bytes_ > inline_bytes_max_ || beside_others) return {};
  writes_bytes_ = 0;
  if (!writes_.empty()) lent_.fetch_add(1, std::memory_order_relaxed);
  return writes_.take();
}

void PosixDisk::execute_lent(RequestList& requests) {
  RequestList finished;
  while (DiskRequest* request = requests.pop()) {
    request->submitted_ns = monotonic_ns();
    request->error = file_->write(request->offset_bytes, source(*request), request->length_bytes);
    request->finished_ns = monotonic_ns();
    finished.push(*request);
  }
  completed_.put(finished);
  lent_.fetch_sub(1, std::memory_order_release);
}

void PosixDisk::execute(DiskRequest& request) {
  request.submitted_ns = monotonic_ns();
  const uint64_t offset = request.offset_bytes;
  switch (request.op) {
    case DiskOp::kRead:
      request.error = file_->read(offset, request.data, request.length_bytes);
      break;
    case DiskOp::kWrite:
      request.error = request.durable
                          ? file_->write_durably(offset, request.data, request.length_bytes)
                          : file_->write(offset, request.data, request.length_bytes);
      break;
    case DiskOp::kZero:
      request.error = file_->zero(offset, request.length_bytes, request.may_unmap);
      break;
    case DiskOp::kFlush:
      TB_CHECK(false, "a flush in the transfers' pool");
      break;
    case DiskOp::kExtent:
      request.error =
          file_->extent(offset, request.length_bytes, request.is_hole, request.length_bytes);
      break;
  }
  request.finished_ns = monotonic_ns();
}

void PosixDisk::collect() {
  RequestList list = completed_.take();
  while (DiskRequest* request = list.pop()) data_finished(*request);
  if (uring_ == nullptr || uring_->in_flight() == 0) return;
  RequestList refused;
  uring_->reap(list, refused);
  if (!list.empty()) {
    const uint64_t now_ns = monotonic_ns();
    while (DiskRequest* request = list.pop()) {
      request->finished_ns = now_ns;
      unalign(*request, request->op == DiskOp::kRead && request->error == 0);
      data_finished(*request);
    }
  }
  while (DiskRequest* request = refused.pop()) {
    request->error = 0;
    unalign(*request, false);
    if (request->op == DiskOp::kWrite) pool_writes_.fetch_add(1, std::memory_order_relaxed);
    blocking_.push(*request);
  }
}

// What failed may have been the write, or the flush after it, with which more is lost than this
// write. For want of room a write fails alone: it is done once more without a flush, which shows
// which of the two it was.
void PosixDisk::durable_finished(DiskRequest& request) {
  durable_.end(request.durable_slot);
  const int error = request.error;
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    request.durable = false;
    request.again = true;
    return transfers_.push(request);
  }
  if (error != 0) {
    request.flush_failed = true;
    flusher_->fail(error, ready_);
  }
  ready_.push(request);
}

void PosixDisk::data_finished(DiskRequest& request) {
  if (request.durable) return durable_finished(request);
  if (request.again && request.error == 0) {
    request.error = EIO;
    request.flush_failed = true;
    flusher_->fail(EIO, ready_);
    return ready_.push(request);
  }
  const bool changes = request.op == DiskOp::kWrite || request.op == DiskOp::kZero;
  if (changes && (!request.fua || request.error != 0)) flusher_->wrote();
  if (!request.fua || request.error != 0) return ready_.push(request);
  if (flusher_->error() == 0) return flusher_->add(request);
  request.error = flusher_->error();
  request.flush_failed = true;
  ready_.push(request);
}

void PosixDisk::deliver() {
  collect();
  flusher_->collect(ready_);
  flusher_->start();
  RequestList batch = ready_.take();
  while (DiskRequest* request = batch.pop()) {
    // A copy, since the callback may free the request, and itself with it.
    const auto done = request->done;
    under_way().end(request->slot);
    done(*request);
  }
}

uint64_t PosixDisk::flushing_since_ns() const {
  const uint64_t flush_ns = flusher_->since_ns();
  const uint64_t durable_ns = durable_.look(monotonic_ns()).value_or(0);
  return flush_ns == 0 || durable_ns == 0 ? std::max(flush_ns, durable_ns) : std::min(flush_ns, durable_ns);
}

bool PosixDisk::pending() const {
  if (!writes_.empty() || !blocking_.empty() || !ready_.empty()) return true;
  if (flusher_->pending()) return true;
  if (!ring_takes()) return !transfers_.empty() || (uring_ != nullptr && uring_->unsubmitted());
  return (!transfers_.empty() && !uring_->full()) ||
         (uring_->unsubmitted() && !retry_timer_->armed());
}

const char* PosixDisk::engine_name() const { return uring_ != nullptr ? "io_uring" : "threads"; }

int PosixDisk::read_now(uint64_t offset_bytes, std::span<std::byte> into) const {
  const uint8_t slot = under_way().begin();
  const int error = file_->read(offset_bytes, into.data(), into.size());
  under_way().end(slot);
  return error;
}

int PosixDisk::extent_now(uint64_t offset_bytes, uint64_t length_bytes, bool& hole,
                          uint64_t& extent_length_bytes) const {
  const uint8_t slot = under_way().begin();
  const int error = file_->extent(offset_bytes, length_bytes, hole, extent_length_bytes);
  under_way().end(slot);
  return error;
}

}  // namespace twinblock
