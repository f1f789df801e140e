// What a write costs by each way that PosixDisk has: disk_bench [FILE]. Prints a table: writes per
// second, microseconds from submit() to done(), and CPU microseconds (all threads) a write.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "io/posix/monotonic.h"
#include "io/posix/posix_disk.h"

namespace twinblock {
namespace {

constexpr uint64_t kFileBytes = 256 * kMiB;

uint64_t cpu_ns() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto ns = [](const timeval& t) {
    return static_cast<uint64_t>(t.tv_sec) * kSecond_ns +
           static_cast<uint64_t>(t.tv_usec) * kMicrosecond_ns;
  };
  return ns(usage.ru_utime) + ns(usage.ru_stime);
}

// `depth` random writes of `length` in flight until `total` are done; a turn submits what the one
// before has finished, as a client with a queue does.
class Run {
 public:
  Run(const std::string& path, PosixDisk::Engine engine, uint64_t inline_bytes, size_t depth,
      uint64_t length, size_t total)
      : depth_(depth), length_(length), total_(total), data_(depth * length), requests_(depth) {
    PosixDisk::Options options;
    options.file.path = path;
    options.engine = engine;
    options.inline_bytes = inline_bytes;
    auto opened = PosixDisk::open(loop_, options);
    if (!opened.ok()) {
      std::fprintf(stderr, "disk_bench: %s\n", opened.error().what.c_str());
      std::exit(1);
    }
    disk_ = std::move(opened.value());
  }

  void measure(const char* name) {
    loop_.post([this] {
      for (DiskRequest& request : requests_) {
        request.op = DiskOp::kWrite;
        // Data of its own for each, as in life: not always the same cached bytes.
        request.data = data_.data() + static_cast<size_t>(&request - requests_.data()) * length_;
        request.length_bytes = length_;
        request.done = [this](DiskRequest& done) { finished(done); };
        start(request);
      }
    });
    const uint64_t began_ns = monotonic_ns();
    const uint64_t cpu_before_ns = cpu_ns();
    loop_.run();
    const double elapsed_ns = static_cast<double>(monotonic_ns() - began_ns);
    const double used_ns = static_cast<double>(cpu_ns() - cpu_before_ns);
    std::sort(latencies_ns_.begin(), latencies_ns_.end());
    const auto count = static_cast<double>(latencies_ns_.size());
    std::printf(
        "%-9s %5zu KiB  QD %2zu  %9.0f /s  %7.0f MB/s  p50 %8.1f us  p99 %8.1f us  CPU %7.1f us\n",
        name, static_cast<size_t>(length_ / kKiB), depth_, count / elapsed_ns * 1e9,
        count * static_cast<double>(length_) / elapsed_ns * 1e3,
        static_cast<double>(latencies_ns_[latencies_ns_.size() / 2]) / 1e3,
        static_cast<double>(latencies_ns_[latencies_ns_.size() * 99 / 100]) / 1e3,
        used_ns / count / 1e3);
  }

 private:
  void start(DiskRequest& request) {
    request.offset_bytes = random_() % (kFileBytes / length_) * length_;
    began_ns_.resize(requests_.size());
    began_ns_[static_cast<size_t>(&request - requests_.data())] = monotonic_ns();
    disk_->submit(request);
  }
  void finished(DiskRequest& request) {
    latencies_ns_.push_back(monotonic_ns() -
                            began_ns_[static_cast<size_t>(&request - requests_.data())]);
    if (latencies_ns_.size() + depth_ <= total_) return start(request);
    if (latencies_ns_.size() == total_) loop_.stop();
  }

  Loop loop_;
  std::unique_ptr<PosixDisk> disk_;
  const size_t depth_;
  const uint64_t length_;
  const size_t total_;
  std::vector<std::byte> data_;
  std::vector<DiskRequest> requests_;
  std::vector<uint64_t> began_ns_;
  std::vector<uint64_t> latencies_ns_;
  std::minstd_rand random_;
};

}  // namespace
}  // namespace twinblock

int main(int argc, char** argv) {
  using namespace twinblock;
  const std::string path = argc > 1 ? argv[1] : "/tmp/disk_bench.img";
  {
    // Filled first: a first write to a block costs an allocation.
    Loop loop;
    PosixDisk::Options options;
    options.file.path = path;
    options.file.size_bytes = kFileBytes;
    options.file.create = true;
    auto opened = PosixDisk::open(loop, options);
    if (!opened.ok()) return 1;
  }
  {
    DiskFile::Options options;
    options.path = path;
    auto file = DiskFile::open(options);
    const std::vector<std::byte> data(1 * kMiB, std::byte{0x5a});
    for (uint64_t at = 0; at < kFileBytes; at += data.size())
      (void)file.value()->write(at, data.data(), data.size());
    (void)file.value()->flush_handle().value()->flush();
  }
  for (const uint64_t length : {4 * kKiB, 64 * kKiB, 1 * kMiB}) {
    for (const size_t depth : {1, 4, 8, 16, 32}) {
      const size_t total = std::clamp<size_t>(kGiB / length, 2000, 30000);
      using Engine = PosixDisk::Engine;
      Run(path, Engine::kIoUring, kFileBytes, depth, length, total).measure("inline");
      Run(path, Engine::kIoUring, PosixDisk::kInlineBytesPerTurn, depth, length, total)
          .measure("default");
      Run(path, Engine::kIoUring, 0, depth, length, total).measure("io_uring");
      Run(path, Engine::kThreads, 0, depth, length, total).measure("threads");
    }
  }
  ::unlink(path.c_str());
  return 0;
}
