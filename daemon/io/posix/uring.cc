#include "io/posix/uring.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "base/checks.h"
#include "base/units.h"

namespace twinblock {

Result<std::unique_ptr<Uring>> Uring::create(Submit submit) {
  std::unique_ptr<Uring> uring(new Uring);
  uring->submit_ = submit != nullptr ? submit : &io_uring_submit;
  int error = io_uring_queue_init(kDepth, &uring->ring_, 0);
  if (error != 0) return system_error(-error, "io_uring");
  uring->set_up_ = true;
  io_uring_probe* probe = io_uring_get_probe_ring(&uring->ring_);
  const bool complete = probe != nullptr && io_uring_opcode_supported(probe, IORING_OP_READ) &&
                        io_uring_opcode_supported(probe, IORING_OP_WRITE);
  io_uring_free_probe(probe);
  if (!complete) return system_error(ENOSYS, "io_uring without plain reads and writes");
  // A child must not share the ring.
  io_uring_ring_dontfork(&uring->ring_);
  for (uint32_t slot = kDepth; slot > 0; --slot) uring->free_slots_.push_back(slot - 1);
  return uring;
}

Uring::~Uring() {
  if (set_up_) io_uring_queue_exit(&ring_);
}

void Uring::prepare(DiskRequest& request, int file, const std::byte* source) {
  TB_CHECK(!full() && broken_ == 0, "no slot, or a ring that takes nothing more");
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  slots_[slot] = Slot{&request, source, 0, file};
  prepare_rest(slot);
}

void Uring::prepare_rest(uint32_t slot) {
  const Slot& s = slots_[slot];
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  // As many entries as slots, and each slot has at most one, so there is always a free entry.
  TB_CHECK(sqe != nullptr, "the submission queue is smaller than the slots");
  const uint64_t rest = s.request->length_bytes - s.transferred;
  const auto length = static_cast<unsigned>(std::min<uint64_t>(rest, kGiB));
  const uint64_t offset = s.request->offset_bytes + s.transferred;
  std::byte* into = s.request->aligned != nullptr ? s.request->aligned : s.request->data;
  if (s.request->op == DiskOp::kRead)
    io_uring_prep_read(sqe, s.file, into + s.transferred, length, offset);
  else
    io_uring_prep_write(sqe, s.file, s.source + s.transferred, length, offset);
  if (s.request->durable) sqe->rw_flags = RWF_DSYNC;
  io_uring_sqe_set_data64(sqe, slot);
  prepared_.push_back(slot);
}

bool Uring::submit() {
  while (!prepared_.empty() && broken_ == 0) {
    const int n = submit_(&ring_);
    if (n == -EINTR) continue;
    if (n > 0) {
      refusals_ = 0;
      prepared_.erase(prepared_.begin(),
                      prepared_.begin() + std::min<ptrdiff_t>(n, std::ssize(prepared_)));
      continue;
    }
    const bool may_pass = n == 0 || n == -EAGAIN || n == -EBUSY || n == -ENOMEM;
    if (may_pass && ++refusals_ < kRefusalsMax) return false;
    broken_ = n == 0 ? EAGAIN : -n;
  }
  return true;
}

// A slot's transfer is for another path, from its start.
void Uring::refuse(uint32_t index, RequestList& refused) {
  DiskRequest& request = *std::exchange(slots_[index].request, nullptr);
  free_slots_.push_back(index);
  refused.push(request);
}

void Uring::reap(RequestList& finished, RequestList& refused) {
  // Nobody enters the ring any more, so that the kernel never comes to these.
  if (broken_ != 0)
    for (const uint32_t index : std::exchange(prepared_, {})) refuse(index, refused);
  io_uring_cqe* cqe = nullptr;
  while (io_uring_peek_cqe(&ring_, &cqe) == 0) {
    const auto index = static_cast<uint32_t>(io_uring_cqe_get_data64(cqe));
    const int result = cqe->res;
    io_uring_cqe_seen(&ring_, cqe);
    Slot& slot = slots_[index];
    DiskRequest& request = *slot.request;
    if (result > 0) slot.transferred += static_cast<uint64_t>(result);
    if (result > 0 && slot.transferred < request.length_bytes) {
      if (broken_ == 0)
        prepare_rest(index);
      else
        refuse(index, refused);
      continue;
    }
    slot.request = nullptr;
    free_slots_.push_back(index);
    // The calls of another path can wait or start over where the ring can't; ECANCELED: the thread
    // that submitted it has ended.
    const bool refusal =
        result == -EAGAIN || result == -EINTR || result == -ECANCELED || result == -EOPNOTSUPP;
    // Nothing transferred: end of a file that somebody has truncated, or a disk that takes nothing.
    if (result <= 0) request.error = result == 0 ? EIO : -result;
    (refusal ? refused : finished).push(request);
  }
}

}  // namespace twinblock
