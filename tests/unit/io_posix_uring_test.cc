// What a disk does when io_uring_submit() says that it can't: no request is lost, none is done with
// the wrong bytes, and nothing ends the process.
#include <liburing.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "io/posix/posix_disk.h"
#include "io/posix/uring.h"
#include "io_posix_support.h"

namespace twinblock {
namespace {

// In place of io_uring_submit(): lets `good_calls` through, and then answers `error` `times`.
struct Injected {
  std::atomic<int> good_calls{0};
  std::atomic<int> times{0};
  std::atomic<int> error{0};
  std::atomic<int> refusals{0};
} injected;

int injected_submit(io_uring* ring) {
  if (injected.good_calls.fetch_sub(1) > 0 || injected.times.fetch_sub(1) <= 0)
    return io_uring_submit(ring);
  ++injected.refusals;
  return -injected.error;
}

struct Fault {
  const char* name;
  int error;
  int times;
};
constexpr int kForEver = 1 << 30;

class UringFaultTest : public ::testing::TestWithParam<Fault> {
 protected:
  static constexpr uint64_t kPiece = 64 * kKiB;
  static constexpr size_t kPieces = 600;  // more than the ring has slots

  struct Job {
    DiskRequest request;
    std::vector<std::byte> data;
    int finished = 0;
  };
  void TearDown() override {
    loop_.stop();
    disk_.reset();
  }
  void open() {
    PosixDisk::Options options;
    options.file.path = directory_ / "disk";
    options.file.size_bytes = kPieces * kPiece;
    options.file.create = true;
    options.engine = PosixDisk::Engine::kIoUring;
    options.inline_bytes = 0;
    options.uring_submit = injected_submit;
    auto opened = PosixDisk::open(*loop_, options);
    if (!opened.ok()) GTEST_SKIP() << opened.error().what;
    disk_ = std::move(opened.value());
    loop_.start();
  }
  // All pieces at once; each has its number in every byte.
  void transfer(DiskOp op) {
    std::vector<std::unique_ptr<Job>> jobs;
    for (size_t i = 0; i < kPieces; ++i) {
      auto job = std::make_unique<Job>();
      job->data.assign(kPiece, op == DiskOp::kWrite ? static_cast<std::byte>(i % 251 + 1)
                                                    : std::byte{});
      job->request.op = op;
      job->request.offset_bytes = i * kPiece;
      job->request.length_bytes = kPiece;
      job->request.data = job->data.data();
      job->request.done = [made = job.get()](DiskRequest&) { ++made->finished; };
      jobs.push_back(std::move(job));
    }
    loop_.call([&] {
      for (const auto& job : jobs) disk_->submit(job->request);
    });
    for (size_t i = 0; i < kPieces; ++i) {
      ASSERT_TRUE(loop_.eventually([&] { return jobs[i]->finished > 0; })) << i;
      EXPECT_EQ(jobs[i]->finished, 1);
      EXPECT_EQ(jobs[i]->request.error, 0);
      const std::vector<std::byte> expected(kPiece, static_cast<std::byte>(i % 251 + 1));
      ASSERT_EQ(jobs[i]->data, expected) << i;
    }
  }

  TemporaryDirectory directory_;
  RunningLoop loop_;
  std::unique_ptr<PosixDisk> disk_;
};

TEST_P(UringFaultTest, every_request_is_done_all_the_same) {
  injected.refusals = injected.times = 0;
  injected.good_calls = kForEver;
  open();
  if (!disk_) return;
  transfer(DiskOp::kWrite);
  // Some of the first ones get through, so that a part is in the kernel's hands.
  injected.error = GetParam().error;
  injected.times = GetParam().times;
  injected.good_calls = 1;
  transfer(DiskOp::kRead);
  EXPECT_GT(injected.refusals, 0);
  injected.good_calls = 1;
  transfer(DiskOp::kRead);
  injected.times = 0;
}

INSTANTIATE_TEST_SUITE_P(
    Faults, UringFaultTest,
    ::testing::Values(Fault{"NoMemoryForAWhile", ENOMEM, 20}, Fault{"AgainForAWhile", EAGAIN, 20},
                      Fault{"BusyForAWhile", EBUSY, 20}, Fault{"InterruptedALot", EINTR, 1000},
                      Fault{"NoMemoryForEver", ENOMEM, kForEver},
                      Fault{"Invalid", EINVAL, kForEver}, Fault{"BadRing", EBADFD, kForEver},
                      Fault{"Killed", EOWNERDEAD, kForEver}),
    [](const ::testing::TestParamInfo<Fault>& each) { return each.param.name; });

}  // namespace
}  // namespace twinblock
