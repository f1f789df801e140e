// PosixDisk on both engines, with and without inline writes: what a request does, what it reports,
// and what happens when the file or its calls misbehave.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <semaphore>
#include <utility>
#include <vector>

#include "io/posix/monotonic.h"
#include "io/posix/posix_disk.h"
#include "io_posix_support.h"
#include "pattern.h"

namespace twinblock {
namespace {

// One request with its data, executed from the test's thread.
struct Job {
  DiskRequest request;
  Bytes data;
  int finished = 0;
};

std::unique_ptr<Job> job(DiskOp op, uint64_t offset, uint64_t length) {
  auto made = std::make_unique<Job>();
  made->request.op = op;
  made->request.offset_bytes = offset;
  made->request.length_bytes = length;
  if (op == DiskOp::kRead) made->data.resize(length);
  made->request.data = made->data.data();
  made->request.done = [j = made.get()](DiskRequest&) { ++j->finished; };
  return made;
}

std::unique_ptr<Job> write_job(uint64_t offset, const Bytes& data, bool fua = false) {
  auto made = job(DiskOp::kWrite, offset, data.size());
  made->data = data;
  made->request.data = made->data.data();
  made->request.fua = fua;
  return made;
}

struct Way {
  PosixDisk::Engine engine;
  bool inline_writes;
  bool direct = false;
};

std::string way_name(const ::testing::TestParamInfo<Way>& info) {
  return std::string(info.param.engine == PosixDisk::Engine::kIoUring ? "IoUring" : "Threads") +
         (info.param.inline_writes ? "Inline" : "") + (info.param.direct ? "Direct" : "");
}

class PosixDiskTest : public ::testing::TestWithParam<Way> {
 protected:
  static constexpr uint64_t kSize = 8 * kMiB;

  // A container may forbid io_uring; a file system may have no direct I/O.
  void SetUp() override {
    Loop loop;
    const auto tried = PosixDisk::open(loop, options("tried"));
    if (!tried.ok() && host_lacks_it(tried.error())) GTEST_SKIP() << tried.error().what;
  }
  void TearDown() override {
    loop_.stop();
    disk_.reset();
  }
  PosixDisk::Options options(const std::string& name = "disk") {
    PosixDisk::Options o;
    o.file.path = directory_ / name;
    o.file.size_bytes = kSize;
    o.file.create = true;
    o.engine = GetParam().engine;
    if (!GetParam().inline_writes) o.inline_bytes = 0;
    if (GetParam().direct) o.file.cache = DiskFile::Cache::kDirect;
    return o;
  }
  void open(const PosixDisk::Options& o) {
    auto opened = PosixDisk::open(*loop_, o);
    ASSERT_TRUE(opened.ok()) << opened.error().what;
    disk_ = std::move(opened.value());
    loop_.start();
  }
  void open() { open(options()); }
  int run(Job& j) {
    loop_.call([&] {
      disk_->submit(j.request);
      EXPECT_EQ(j.finished, 0) << "done() from within submit()";
    });
    EXPECT_TRUE(loop_.eventually([&] { return j.finished > 0; }));
    EXPECT_EQ(j.finished, 1);
    EXPECT_LE(j.request.submitted_ns, j.request.finished_ns);
    return j.request.error;
  }
  int run(std::unique_ptr<Job> j) { return run(*j); }
  Bytes content(uint64_t offset, uint64_t length) {
    Bytes bytes(length);
    EXPECT_EQ(disk_->read_now(offset, bytes), 0);
    return bytes;
  }

  TemporaryDirectory directory_;
  RunningLoop loop_;
  std::unique_ptr<PosixDisk> disk_;
};

TEST_P(PosixDiskTest, what_is_written_is_read) {
  open();
  EXPECT_STREQ(disk_->engine_name(), GetParam().engine == PosixDisk::Engine::kIoUring ? "io_uring" : "threads");
  for (const uint64_t length : {512ul, 4096ul, 5000ul, 65536ul, 1048576ul, 3000000ul}) {
    const Bytes data = pattern(length, static_cast<unsigned>(length));
    EXPECT_EQ(run(write_job(12345, data)), 0);
    auto read = job(DiskOp::kRead, 12345, length);
    EXPECT_EQ(run(*read), 0);
    EXPECT_EQ(read->data, data);
    EXPECT_EQ(content(12345, length), data);
  }
  EXPECT_EQ(run(write_job(0, {})), 0);
  EXPECT_EQ(run(job(DiskOp::kRead, kSize, 0)), 0);
}

TEST_P(PosixDiskTest, more_requests_than_slots_all_finish_once) {
  open();
  std::vector<std::unique_ptr<Job>> jobs;
  for (unsigned i = 0; i < 1000; ++i) {
    jobs.push_back(write_job(i * 8192ul, pattern(4096, i)));
    jobs.push_back(job(DiskOp::kRead, i * 8192ul + 4096, 4096));
    if (i % 100 == 0) jobs.push_back(job(DiskOp::kFlush, 0, 0));
    if (i % 7 == 0) jobs.back()->request.fua = jobs.back()->request.op == DiskOp::kWrite;
  }
  loop_.call([&] {
    for (auto& j : jobs) disk_->submit(j->request);
  });
  for (auto& j : jobs) {
    EXPECT_TRUE(loop_.eventually([&] { return j->finished > 0; }));
    EXPECT_EQ(j->finished, 1);
    EXPECT_EQ(j->request.error, 0);
  }
  for (unsigned i = 0; i < 1000; ++i) EXPECT_EQ(content(i * 8192ul, 4096), pattern(4096, i));
}

TEST_P(PosixDiskTest, requests_submitted_by_done_are_executed) {
  open();
  auto first = write_job(0, pattern(4096, 1));
  auto second = write_job(4096, pattern(4096, 2), true);
  first->request.done = [&](DiskRequest&) { disk_->submit(second->request); };
  loop_.call([&] { disk_->submit(first->request); });
  EXPECT_TRUE(loop_.eventually([&] { return second->finished == 1; }));
}

TEST_P(PosixDiskTest, a_request_may_be_freed_by_its_done) {
  open();
  std::atomic<int> freed{0};
  loop_.call([&] {
    for (unsigned i = 0; i < 16; ++i) {
      auto* j = write_job(i * 4096ul, pattern(4096, i)).release();
      j->request.done = [j, &freed](DiskRequest&) {
        delete j;
        ++freed;
      };
      disk_->submit(j->request);
    }
  });
  EXPECT_TRUE(loop_.eventually([&] { return freed == 16; }));
}

TEST_P(PosixDiskTest, zero_reads_as_zeroes_and_only_there) {
  open();
  for (const bool may_unmap : {false, true}) {
    for (const uint64_t length : {1ul, 100ul, 4096ul, 8192ul, 65536ul, 100000ul, 2097152ul}) {
      for (const uint64_t offset : {0ul, 777ul, 65536ul}) {
        const Bytes before = pattern(3 * kMiB, 9);
        ASSERT_EQ(run(write_job(0, before)), 0);
        auto zero = job(DiskOp::kZero, offset, length);
        zero->request.may_unmap = may_unmap;
        zero->request.fua = length == 8192;
        EXPECT_EQ(run(*zero), 0);
        Bytes expected = before;
        std::memset(expected.data() + offset, 0, length);
        EXPECT_EQ(content(0, expected.size()), expected) << length << " at " << offset;
      }
    }
  }
}

TEST_P(PosixDiskTest, trimmed_blocks_become_a_hole_and_others_do_not) {
  open();
  ASSERT_EQ(run(write_job(0, pattern(1 * kMiB, 3))), 0);
  ASSERT_EQ(run(job(DiskOp::kFlush, 0, 0)), 0);
  auto trim = job(DiskOp::kZero, 8192, 8192);
  trim->request.may_unmap = true;
  ASSERT_EQ(run(*trim), 0);
  auto extent = job(DiskOp::kExtent, 0, kSize);
  EXPECT_EQ(run(*extent), 0);
  EXPECT_FALSE(extent->request.is_hole);
  EXPECT_EQ(extent->request.length_bytes, 8192u);
  bool hole = false;
  uint64_t length = 0;
  EXPECT_EQ(disk_->extent_now(8192, kSize - 8192, hole, length), 0);
  EXPECT_TRUE(hole);
  EXPECT_EQ(length, 8192u);
  // The sparse rest, up to the end.
  auto rest = job(DiskOp::kExtent, 2 * kMiB, kSize - 2 * kMiB);
  EXPECT_EQ(run(*rest), 0);
  EXPECT_TRUE(rest->request.is_hole);
  EXPECT_EQ(rest->request.length_bytes, kSize - 2 * kMiB);
  EXPECT_TRUE(disk_->fast_zero());
}

// To the block, wherever the question begins: what is behind a hole is not a part of it, and neither
// is the rest of the block in which it is asked for.
TEST_P(PosixDiskTest, holes_and_data_are_told_apart_to_the_block) {
  constexpr uint64_t kBlock = 4 * kKiB;
  open();
  ASSERT_EQ(run(write_job(5 * kBlock, pattern(kBlock, 1))), 0);
  ASSERT_EQ(run(write_job(20 * kBlock, pattern(2 * kBlock, 2))), 0);
  ASSERT_EQ(run(job(DiskOp::kFlush, 0, 0)), 0);
  struct Extent {
    uint64_t begin, end;
    bool hole;
  };
  for (const Extent& extent : {Extent{0, 5, true}, Extent{5, 6, false}, Extent{6, 20, true},
                               Extent{20, 22, false}, Extent{22, kSize / kBlock, true}})
    for (const uint64_t begin : {extent.begin * kBlock, extent.begin * kBlock + 1, extent.end * kBlock - 1}) {
      bool hole = !extent.hole;
      uint64_t length = 0;
      EXPECT_EQ(disk_->extent_now(begin, kSize - begin, hole, length), 0);
      EXPECT_EQ(hole, extent.hole) << "at " << begin;
      EXPECT_EQ(begin + length, extent.end * kBlock) << "from " << begin;
    }
}

// So that a resync of a sparse volume costs no transaction for each of its holes.
TEST_P(PosixDiskTest, a_hole_that_is_trimmed_again_is_left_as_it_is) {
  static std::atomic<int> calls_made{0};
  static DiskCalls calls = DiskCalls::system();
  calls.fallocate = [](int fd, int mode, off_t offset, off_t length) {
    ++calls_made;
    return ::fallocate(fd, mode, offset, length);
  };
  PosixDisk::Options o = options();
  o.file.calls = &calls;
  open(o);
  ASSERT_EQ(run(write_job(4096, pattern(4096, 1))), 0);
  calls_made = 0;
  const auto zero = [&](uint64_t offset, uint64_t length, bool may_unmap) {
    auto made = job(DiskOp::kZero, offset, length);
    made->request.may_unmap = may_unmap;
    EXPECT_EQ(run(*made), 0);
    return calls_made.exchange(0);
  };
  EXPECT_EQ(zero(1 * kMiB, 4 * kMiB, true), 0);
  EXPECT_GT(zero(0, 1 * kMiB, true), 0) << "there is data in it";
  EXPECT_EQ(content(0, 1 * kMiB), Bytes(1 * kMiB));
  EXPECT_EQ(zero(0, 1 * kMiB, true), 0);
  EXPECT_GT(zero(0, 1 * kMiB, false), 0) << "it is to be allocated";
}

TEST_P(PosixDiskTest, counters_of_the_device_move_when_something_is_written) {
  open();
  const uint64_t before = disk_->device_work();
  if (before == 0) GTEST_SKIP() << "the kernel does not tell of this file system's device";
  ASSERT_EQ(run(write_job(0, pattern(1 * kMiB, 1))), 0);
  ASSERT_EQ(run(job(DiskOp::kFlush, 0, 0)), 0);
  EXPECT_NE(disk_->device_work(), before);
}

// fallocate as on a file system without it, and a count of the modes that were tried.
std::atomic<int> fallocate_errno{0};
std::atomic<int> fallocate_calls{0};
DiskCalls failing_fallocate() {
  DiskCalls calls = DiskCalls::system();
  calls.fallocate = [](int, int, off_t, off_t) {
    ++fallocate_calls;
    errno = fallocate_errno;
    return -1;
  };
  return calls;
}

TEST_P(PosixDiskTest, zero_works_without_fallocate) {
  fallocate_errno = EOPNOTSUPP;
  const DiskCalls calls = failing_fallocate();
  PosixDisk::Options o = options();
  o.file.calls = &calls;
  open(o);
  EXPECT_FALSE(disk_->fast_zero());
  Bytes expected = pattern(1 * kMiB, 3);
  ASSERT_EQ(run(write_job(0, expected)), 0);
  std::memset(expected.data() + 100, 0, 500000);
  for (const bool may_unmap : {false, true}) {
    auto zero = job(DiskOp::kZero, 100, 500000);
    zero->request.may_unmap = may_unmap;
    EXPECT_EQ(run(*zero), 0);
    EXPECT_EQ(content(0, expected.size()), expected);
  }
  const int before = fallocate_calls;
  EXPECT_EQ(run(job(DiskOp::kZero, 100, 500000)), 0);
  EXPECT_EQ(fallocate_calls, before) << "a refused mode is not tried again";
}

TEST_P(PosixDiskTest, a_full_file_system_is_reported_by_zero) {
  fallocate_errno = ENOSPC;
  const DiskCalls calls = failing_fallocate();
  PosixDisk::Options o = options();
  o.file.calls = &calls;
  open(o);
  EXPECT_EQ(run(job(DiskOp::kZero, 0, 1 * kMiB)), ENOSPC);
}

std::atomic<int> syncs{0};
std::atomic<int> sync_errno{0};
DiskCalls failing_sync() {
  DiskCalls calls = DiskCalls::system();
  calls.fdatasync = [](int) {
    ++syncs;
    if (sync_errno == 0) return 0;
    errno = sync_errno;
    return -1;
  };
  return calls;
}

TEST_P(PosixDiskTest, a_failed_sync_is_final) {
  syncs = 0;
  sync_errno = 0;
  const DiskCalls calls = failing_sync();
  PosixDisk::Options o = options();
  o.file.calls = &calls;
  open(o);
  // At an odd place, where no write makes itself stable.
  EXPECT_EQ(run(job(DiskOp::kFlush, 0, 0)), 0);
  EXPECT_EQ(run(write_job(1, pattern(4096, 1), true)), 0);
  auto fua_zero = job(DiskOp::kZero, 0, 1 * kMiB);
  fua_zero->request.fua = true;
  EXPECT_EQ(run(*fua_zero), 0);
  EXPECT_EQ(syncs, 3);
  sync_errno = EIO;
  EXPECT_EQ(run(write_job(1, pattern(4096, 1), true)), EIO);
  EXPECT_EQ(syncs, 4);
  sync_errno = 0;
  EXPECT_EQ(run(job(DiskOp::kFlush, 0, 0)), EIO);
  EXPECT_EQ(run(write_job(1, pattern(4096, 1), true)), EIO);
  EXPECT_EQ(run(job(DiskOp::kRead, 0, 4096)), 0);
  EXPECT_EQ(syncs, 4) << "no fdatasync after the one that failed";
}

std::counting_semaphore<> sync_gate{0};

TEST_P(PosixDiskTest, flushes_that_wait_for_a_running_one_share_the_next) {
  syncs = 0;
  DiskCalls calls = DiskCalls::system();
  calls.fdatasync = [](int) {
    ++syncs;
    sync_gate.acquire();
    return 0;
  };
  PosixDisk::Options o = options();
  o.file.calls = &calls;
  open(o);
  auto first = job(DiskOp::kFlush, 0, 0);
  loop_.call([&] { disk_->submit(first->request); });
  EXPECT_TRUE(loop_.eventually([&] { return syncs == 1; }));
  std::vector<std::unique_ptr<Job>> later;
  for (unsigned i = 0; i < 10; ++i)
    later.push_back(i % 2 == 0 ? job(DiskOp::kFlush, 0, 0) : write_job(i * 4096ul, pattern(4096, i), true));
  loop_.call([&] {
    for (auto& j : later) disk_->submit(j->request);
  });
  // What is written waits for a flush, too; the disk needs a moment to see that it is.
  for (unsigned i = 1; i < 10; i += 2)
    EXPECT_TRUE(loop_.eventually([&] { return content(i * 4096ul, 4096) == pattern(4096, i); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(syncs, 1);
  sync_gate.release();
  EXPECT_TRUE(loop_.eventually([&] { return first->finished == 1 && syncs >= 2; }));
  for (auto& j : later) EXPECT_EQ(j->finished, 0);
  // One that was late, on a busy machine, shares the next one again. Had each its own, there were eleven.
  const auto all_done = [&] {
    return std::all_of(later.begin(), later.end(), [](const auto& j) { return j->finished == 1; });
  };
  for (int released = 1; released < 11 && !all_done(); ++released) {
    sync_gate.release();
    EXPECT_TRUE(loop_.eventually([&] { return all_done() || syncs > released + 1; }));
  }
  EXPECT_TRUE(all_done());
  EXPECT_LE(syncs, 4);
}

TEST_P(PosixDiskTest, a_write_beyond_the_file_size_limit_fails_and_does_not_kill) {
  open();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit limited = before;
  limited.rlim_cur = 1 * kMiB;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limited), 0);
  // The second crosses the limit: its first part is taken, its rest is not.
  const int beyond = run(write_job(2 * kMiB, pattern(4096, 1)));
  const int crossing = run(write_job(1 * kMiB - 2048, pattern(4096, 1)));
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(beyond, EFBIG);
  EXPECT_EQ(crossing, EFBIG);
  EXPECT_EQ(run(write_job(2 * kMiB, pattern(4096, 1))), 0);
}

TEST_P(PosixDiskTest, a_file_truncated_by_somebody_is_an_error_not_a_hang) {
  open();
  ASSERT_EQ(run(write_job(0, pattern(2 * kMiB, 1))), 0);
  ASSERT_EQ(::truncate((directory_ / "disk").c_str(), 6000), 0);
  EXPECT_EQ(run(job(DiskOp::kRead, 4096, 4096)), EIO);
  EXPECT_EQ(run(job(DiskOp::kRead, 1 * kMiB, 4096)), EIO);
  Bytes bytes(4096);
  EXPECT_EQ(disk_->read_now(1 * kMiB, bytes), EIO);
  EXPECT_EQ(run(job(DiskOp::kExtent, 1 * kMiB, 4096)), EIO) << "what is gone is no hole";
  EXPECT_EQ(run(job(DiskOp::kFlush, 0, 0)), EIO) << "before a write behind the end makes zeroes of it";
}

TEST_P(PosixDiskTest, a_file_that_has_grown_and_is_cut_back_is_an_error) {
  open();
  const uint64_t before = disk_->size_bytes();
  // A growth that was refused elsewhere.
  ASSERT_TRUE(disk_->grow(3 * before, true).ok());
  ASSERT_EQ(::truncate((directory_ / "disk").c_str(), static_cast<off_t>(2 * before)), 0);
  EXPECT_EQ(run(job(DiskOp::kFlush, 0, 0)), 0) << "the volume has not grown";
  ASSERT_TRUE(disk_->grow(2 * before, true).ok());
  disk_->require_size(2 * before);
  EXPECT_EQ(run(job(DiskOp::kFlush, 0, 0)), 0);
  ASSERT_EQ(::truncate((directory_ / "disk").c_str(), static_cast<off_t>(before)), 0);
  EXPECT_EQ(run(job(DiskOp::kFlush, 0, 0)), EIO);
}

TEST_P(PosixDiskTest, destroying_it_waits_for_requests_in_flight) {
  open();
  std::vector<std::unique_ptr<Job>> jobs;
  for (unsigned i = 0; i < 64; ++i) jobs.push_back(write_job(0, pattern(256 * kKiB, i)));
  loop_.call([&] {
    for (auto& j : jobs) disk_->submit(j->request);
    loop_->stop();
  });
  loop_.stop();
  disk_->shut_down();
  jobs.clear();
  disk_.reset();
}

// Forbids io_uring to the calling thread and those that it starts, as containers do.
bool forbid_io_uring() {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{4, code};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(PosixDiskEngineTest, where_io_uring_is_forbidden_threads_are_chosen) {
  std::thread([] {
    ASSERT_TRUE(forbid_io_uring());
    const TemporaryDirectory directory;
    Loop loop;
    PosixDisk::Options options;
    options.file.path = directory / "disk";
    options.file.size_bytes = 1 * kMiB;
    options.file.create = true;
    options.engine = PosixDisk::Engine::kIoUring;
    const auto forced = PosixDisk::open(loop, options);
    ASSERT_FALSE(forced.ok());
    EXPECT_EQ(forced.error().what, "io_uring: Operation not permitted");
    options.engine = PosixDisk::Engine::kAuto;
    const auto automatic = PosixDisk::open(loop, options);
    ASSERT_TRUE(automatic.ok()) << automatic.error().what;
    EXPECT_STREQ(automatic.value()->engine_name(), "threads");
  }).join();
}

using enum PosixDisk::Engine;
INSTANTIATE_TEST_SUITE_P(Ways, PosixDiskTest,
                         ::testing::Values(Way{kIoUring, true}, Way{kIoUring, false}, Way{kThreads, true}, Way{kThreads, false},
                                           Way{kIoUring, false, true}, Way{kThreads, false, true}),
                         way_name);

}  // namespace
}  // namespace twinblock
