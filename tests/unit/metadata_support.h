// A metadata disk for tests: requests finish when the test says so, in the order it says, and
// unflushed sectors of 512 bytes get lost as in a power cut.
#pragma once

#include <cstring>
#include <map>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "io/disk.h"

namespace twinblock::metadata {

using File = std::vector<std::byte>;

class CrashDisk final : public Disk {
 public:
  explicit CrashDisk(size_t size_bytes) : cache(size_bytes), medium_(size_bytes) {}

  void submit(DiskRequest& request) override { pending_.push_back({&request, done_number_}); }
  [[nodiscard]] uint64_t size_bytes() const override { return cache.size(); }
  [[nodiscard]] bool fast_zero() const override { return false; }
  [[nodiscard]] Status grow(uint64_t bytes, bool) override {
    return bytes <= size_bytes() ? ok_status() : Status(Error{"it has no more room", "", ENOSPC});
  }

  // By what was never written by us.
  void enlarge(size_t size_bytes) {
    cache.resize(size_bytes, std::byte{0xA5});
    medium_.resize(size_bytes, std::byte{0xA5});
  }

  [[nodiscard]] size_t pending() const { return pending_.size(); }
  [[nodiscard]] const DiskRequest& request(size_t index = 0) const {
    return *pending_[index].request;
  }
  void finish(size_t index = 0, int error = 0) {
    const Pending now = pending_[index];
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(index));
    DiskRequest& request = *now.request;
    request.error = error;
    if (error == 0 && request.op == DiskOp::kWrite) write(request, request.length_bytes);
    if (error == 0 && request.op == DiskOp::kFlush) flush(now.submitted_at);
    if (request.op == DiskOp::kFlush) ++flushes;
    request.done(request);
  }
  void finish_all() {
    while (!pending_.empty()) finish();
  }

  // The process is gone: what it had submitted has happened, in part or not at all.
  void process_ends(std::mt19937_64& random) {
    for (const Pending& each : std::exchange(pending_, {})) {
      const DiskRequest& request = *each.request;
      if (request.op == DiskOp::kWrite)
        write(request, random() % (request.length_bytes / kSector + 1) * kSector);
    }
  }
  // … and so is what no flush has covered, any sectors of it.
  void power_lost(std::mt19937_64& random) {
    process_ends(random);
    for (auto& [sector, versions] : unflushed_) {
      const size_t kept = random() % (versions.size() + 1);
      if (kept > 0) put(medium_, sector, versions[kept - 1].bytes);
    }
    unflushed_.clear();
    cache = medium_;
  }

  File cache;  // what a reader sees
  uint64_t flushes = 0;

 private:
  static constexpr size_t kSector = 512;
  struct Pending {
    DiskRequest* request;
    uint64_t submitted_at;
  };
  struct Version {
    std::vector<std::byte> bytes;
    uint64_t done_number;
  };

  static void put(File& file, size_t sector, const std::vector<std::byte>& bytes) {
    std::memcpy(file.data() + sector * kSector, bytes.data(), bytes.size());
  }
  void write(const DiskRequest& request, uint64_t length) {
    ++done_number_;
    for (uint64_t at = 0; at < length; at += kSector) {
      const size_t sector = (request.offset_bytes + at) / kSector;
      Version version{{request.data + at, request.data + at + kSector}, done_number_};
      put(cache, sector, version.bytes);
      unflushed_[sector].push_back(std::move(version));
    }
  }
  // Everything that was done when the flush was submitted.
  void flush(uint64_t mark) {
    for (auto& [sector, versions] : unflushed_) {
      while (!versions.empty() && versions.front().done_number <= mark) {
        put(medium_, sector, versions.front().bytes);
        versions.erase(versions.begin());
      }
    }
    std::erase_if(unflushed_, [](const auto& each) { return each.second.empty(); });
  }

  File medium_;
  std::map<size_t, std::vector<Version>> unflushed_;
  std::vector<Pending> pending_;
  uint64_t done_number_ = 0;
};

}  // namespace twinblock::metadata
