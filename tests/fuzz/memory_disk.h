// A disk in memory on virtual time: any number of requests, each answered a little later, in any
// order where they differ in length. It checks what the engine may never ask for.
#pragma once

#include <cerrno>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/units.h"
#include "input.h"
#include "io/disk.h"
#include "scheduler.h"

namespace twinblock::fuzz {

// Whether a range touches this block.
inline bool meets(std::optional<uint64_t> block, uint64_t offset_bytes, uint64_t length_bytes) {
  return block && offset_bytes / limits::kBlockBytes <= *block &&
         (offset_bytes + length_bytes - 1) / limits::kBlockBytes >= *block;
}

class MemoryDisk final : public Disk {
 public:
  MemoryDisk(sim::Scheduler& scheduler, std::vector<std::byte> image)
      : contents(std::move(image)), scheduler_(scheduler) {}

  void submit(DiskRequest& request) override {
    require(request.done != nullptr, "a disk request whose end nobody hears of");
    if (request.op != DiskOp::kFlush)
      require(request.length_bytes > 0 && request.offset_bytes < size_bytes() &&
                  request.length_bytes <= size_bytes() - request.offset_bytes,
              "a disk request outside the disk");
    if (request.op == DiskOp::kRead || request.op == DiskOp::kWrite)
      require(request.data != nullptr, "a disk request without data");
    if (submitted) submitted(request);
    request.slot = under_way().begin();
    request.submitted_ns = scheduler_.now_ns();
    finish_later(request, (20 + request.length_bytes / 1024) * kMicrosecond_ns);
  }
  [[nodiscard]] uint64_t size_bytes() const override { return contents.size(); }
  [[nodiscard]] bool fast_zero() const override { return true; }
  [[nodiscard]] uint64_t device_work() const override { return !tells ? 0 : works ? scheduler_.now_ns() : 1; }
  [[nodiscard]] uint64_t flushing_since_ns() const override { return flushes_since_ns; }
  [[nodiscard]] DataFound look_for_data() const override {
    ++looks;
    return found;
  }
  [[nodiscard]] Status grow(uint64_t bytes, bool) override {
    return bytes <= size_bytes() ? ok_status() : Status(Error{"it has no more room", "", ENOSPC});
  }
  // Each flush from now on.
  void fail_flushes() {
    submitted = [this](const DiskRequest& request) {
      if (request.op != DiskOp::kFlush) return;
      error = EIO;
      failures = 1;
    };
  }

  std::vector<std::byte> contents;
  sim::ProcessPtr process;  // that hears of what it has done; null: nobody's
  std::function<void(const DiskRequest&)> submitted;
  DataFound found = DataFound::kNone;  // by whoever looks, …
  mutable size_t looks = 0;            // … so often
  uint64_t hung_until_ns = 0;  // nothing finishes before
  bool tells = false;          // whether its device does anything, …
  bool works = false;          // … which it does all the time, whatever finishes
  int error = 0;               // of the next `failures` requests
  uint64_t failures = 0;
  bool fails_in_flushes = false;  // … of a write with FUA it is the flush
  bool unreadable = false;     // each read fails
  std::optional<uint64_t> unreadable_at;  // each that meets this block
  uint64_t flushes_since_ns = 0;  // there is always one under way, since then; 0: there is none
  bool holes = false;          // all of it is one, by whoever asks

 private:
  void finish_later(DiskRequest& request, uint64_t delay_ns) {
    scheduler_.after(delay_ns, process, [this, &request] {
      if (scheduler_.now_ns() < hung_until_ns)
        finish_later(request, hung_until_ns - scheduler_.now_ns());
      else
        finish(request);
    });
  }
  void finish(DiskRequest& request) {
    request.error = 0;
    if (failures > 0) {
      --failures;
      request.error = error;
      request.flush_failed = request.op == DiskOp::kFlush || (request.fua && fails_in_flushes);
    } else if (request.op == DiskOp::kRead &&
               (unreadable || meets(unreadable_at, request.offset_bytes, request.length_bytes))) {
      request.error = EIO;
    } else {
      transfer(request);
    }
    request.finished_ns = scheduler_.now_ns();
    under_way().end(request.slot);
    request.done(request);
  }
  void transfer(DiskRequest& request) {
    std::byte* at = contents.data() + request.offset_bytes;
    switch (request.op) {
      case DiskOp::kRead:
        std::memcpy(request.data, at, request.length_bytes);
        break;
      case DiskOp::kWrite:
        std::memcpy(at, request.data, request.length_bytes);
        break;
      case DiskOp::kZero:
        std::memset(at, 0, request.length_bytes);
        break;
      case DiskOp::kExtent:
        request.is_hole = holes;
        break;
      case DiskOp::kFlush:
        break;
    }
  }

  sim::Scheduler& scheduler_;
};

}  // namespace twinblock::fuzz
