// What a disk does when io_uring_submit() says that it can't, or the kernel gives a transfer back: no
// request is lost, none is done with the wrong bytes, and nothing ends the process.
#include <liburing.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "io/posix/posix_disk.h"
#include "io/posix/uring.h"
#include "io_posix_support.h"
#include "pattern.h"

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

// In place of io_uring_submit(): the kernel does nothing for the next `times` transfers, and says `error`.
struct GivenBack {
  std::atomic<int> times{0};
  std::atomic<int> error{0};
  std::atomic<int> count{0};
  std::set<uint64_t> under_way;  // their slots; the loop's
} given_back;

int submit_and_give_back(io_uring* ring) {
  for (unsigned at = ring->sq.sqe_head; at != ring->sq.sqe_tail && given_back.times > 0; ++at) {
    io_uring_sqe* entry = &ring->sq.sqes[at & *ring->sq.kring_mask];
    const uint64_t slot = entry->user_data;
    io_uring_prep_nop(entry);
    io_uring_sqe_set_data64(entry, slot);
    given_back.under_way.insert(slot);
    --given_back.times;
  }
  const int n = io_uring_submit(ring);
  // The kernel is done with such an entry when it has taken it.
  unsigned head = 0;
  io_uring_cqe* cqe = nullptr;
  io_uring_for_each_cqe(ring, head, cqe) {
    if (given_back.under_way.erase(cqe->user_data) == 0) continue;
    cqe->res = -given_back.error;
    ++given_back.count;
  }
  return n;
}

struct Fault {
  const char* name;
  int error;
  int times;
};
constexpr int kForEver = 1 << 30;

class UringTest : public ::testing::TestWithParam<Fault> {
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
  void open(Uring::Submit submit, DiskFile::Cache cache = DiskFile::Cache::kBuffered) {
    PosixDisk::Options options;
    options.file.path = directory_ / "disk";
    options.file.size_bytes = kPieces * kPiece;
    options.file.create = true;
    options.file.cache = cache;
    options.engine = PosixDisk::Engine::kIoUring;
    options.inline_bytes = 0;
    options.uring_submit = submit;
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
    // The disk has them until then, whatever else is wrong.
    for (size_t i = 0; i < kPieces; ++i)
      ASSERT_TRUE(loop_.eventually([&] { return jobs[i]->finished > 0; })) << i;
    for (size_t i = 0; i < kPieces; ++i) {
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

class UringFaultTest : public UringTest {};

TEST_P(UringFaultTest, every_request_is_done_all_the_same) {
  injected.refusals = injected.times = 0;
  injected.good_calls = kForEver;
  open(injected_submit);
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

class UringRefusalTest : public UringTest {};

// Another path does it: none of these says anything of the disk.
TEST_P(UringRefusalTest, what_the_kernel_gives_back_is_done_all_the_same) {
  given_back.times = given_back.count = 0;
  given_back.error = GetParam().error;
  // Of a file that is written through the page cache the ring gets no writes, on some file systems.
  open(submit_and_give_back, DiskFile::Cache::kDirect);
  if (!disk_) return;
  given_back.times = GetParam().times;
  transfer(DiskOp::kWrite);
  EXPECT_EQ(given_back.count, GetParam().times);
  transfer(DiskOp::kRead);
  given_back.times = GetParam().times;
  transfer(DiskOp::kRead);
  EXPECT_EQ(given_back.count, 2 * GetParam().times);
}

INSTANTIATE_TEST_SUITE_P(
    Faults, UringRefusalTest,
    ::testing::Values(Fault{"Canceled", ECANCELED, 300}, Fault{"Again", EAGAIN, 300},
                      Fault{"Interrupted", EINTR, 300}, Fault{"NotSupported", EOPNOTSUPP, 300}),
    [](const ::testing::TestParamInfo<Fault>& each) { return each.param.name; });

// In place of io_uring_submit(): of a transfer that begins the kernel is asked for the first half only.
constexpr unsigned kWhole = 64 * kKiB;
std::atomic<int> halves{0};
std::atomic<int> stable_writes{0};
int submit_halves(io_uring* ring) {
  for (unsigned at = ring->sq.sqe_head; at != ring->sq.sqe_tail; ++at) {
    io_uring_sqe& entry = ring->sq.sqes[at & *ring->sq.kring_mask];
    if (entry.len == kWhole) {
      entry.len /= 2;
      ++halves;
    }
    if (entry.opcode == IORING_OP_WRITE && (entry.rw_flags & RWF_DSYNC) != 0) ++stable_writes;
  }
  return io_uring_submit(ring);
}

class UringShortTest : public UringTest {};

TEST_P(UringShortTest, what_was_done_in_part_goes_on_where_that_ended_and_is_as_stable) {
  halves = stable_writes = 0;
  open(submit_halves, DiskFile::Cache::kDirect);
  if (!disk_) return;
  const auto run = [this](DiskOp op, Bytes& data, bool fua) {
    bool finished = false;
    DiskRequest request;
    request.op = op;
    request.fua = fua;
    request.length_bytes = data.size();
    request.data = data.data();
    request.done = [&finished](DiskRequest&) { finished = true; };
    loop_.call([&] { disk_->submit(request); });
    EXPECT_TRUE(loop_.eventually([&] { return finished; }));
    EXPECT_EQ(request.error, 0);
  };
  Bytes none, data = pattern(kWhole, 1), back(kWhole);
  run(DiskOp::kFlush, none, false);  // the write that follows makes itself stable
  run(DiskOp::kWrite, data, true);
  run(DiskOp::kRead, back, false);
  EXPECT_EQ(halves, 2);
  EXPECT_TRUE(back == data);
  EXPECT_EQ(stable_writes, 2) << "the rest as well";
}

class UringReuseTest : public UringTest {};

// A client's memory is nowhere aligned, and the ring writes from a buffer of the request's.
TEST_P(UringReuseTest, a_request_that_was_given_back_writes_what_it_is_given_next) {
  given_back.times = given_back.count = 0;
  given_back.error = GetParam().error;
  open(submit_and_give_back, DiskFile::Cache::kDirect);
  if (!disk_) return;
  DiskRequest request;  // one for all
  const auto run = [&](DiskOp op, Bytes& memory) {
    bool finished = false;
    request.op = op;
    request.length_bytes = kPiece;
    request.data = memory.data() + 1;
    request.done = [&finished](DiskRequest&) { finished = true; };
    loop_.call([&] { disk_->submit(request); });
    EXPECT_TRUE(loop_.eventually([&] { return finished; }));
    EXPECT_EQ(request.error, 0);
  };
  Bytes first = pattern(kPiece + 1, 1), second = pattern(kPiece + 1, 2), back(kPiece + 1);
  given_back.times = GetParam().times;
  run(DiskOp::kWrite, first);
  EXPECT_EQ(given_back.count, 1);
  run(DiskOp::kWrite, second);
  run(DiskOp::kRead, back);
  EXPECT_EQ(given_back.count, 1);
  EXPECT_TRUE(std::equal(back.begin() + 1, back.end(), second.begin() + 1));
}

INSTANTIATE_TEST_SUITE_P(Faults, UringReuseTest, ::testing::Values(Fault{"Canceled", ECANCELED, 1}),
                         [](const ::testing::TestParamInfo<Fault>& each) { return each.param.name; });

INSTANTIATE_TEST_SUITE_P(Faults, UringShortTest, ::testing::Values(Fault{"Short", 0, 0}),
                         [](const ::testing::TestParamInfo<Fault>& each) { return each.param.name; });

}  // namespace
}  // namespace twinblock
