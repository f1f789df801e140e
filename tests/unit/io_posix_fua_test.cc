// FUA on a direct disk: a write makes itself stable, and is followed by a flush where that is not all
// that it has to cover; whatever fails, or hangs, then.
#include <gtest/gtest.h>
#include <liburing.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <fstream>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "io/posix/posix_disk.h"
#include "io_posix_support.h"
#include "pattern.h"

namespace twinblock {
namespace {

std::atomic<int> syncs{0};
std::atomic<int> durable_writes{0};
std::atomic<int> durable_errno{0};
std::atomic<int> plain_errno{0};
std::atomic<int> sync_errno{0};
std::atomic<bool> syncs_wait{false};   // before they have done anything
std::atomic<bool> writes_wait{false};  // those that don't make themselves stable
constexpr int kAll = std::numeric_limits<int>::max();
std::atomic<int> durables_let_go{kAll};  // so many of those that do; the others wait before they have done anything
std::atomic<bool> ring_is_refused{false};

ssize_t fail_or(int error, ssize_t n) {
  if (error == 0) return n;
  errno = error;
  return -1;
}

DiskCalls counting_calls() {
  DiskCalls calls = DiskCalls::system();
  calls.fdatasync = [](int fd) {
    ++syncs;
    syncs_wait.wait(true);
    return sync_errno == 0 ? DiskCalls::system().fdatasync(fd) : static_cast<int>(fail_or(sync_errno, 0));
  };
  calls.pwrite = [](int fd, const void* data, size_t length, off_t at) {
    writes_wait.wait(true);
    return plain_errno == 0 ? DiskCalls::system().pwrite(fd, data, length, at)
                            : fail_or(plain_errno, 0);
  };
  calls.pwrite_durably = [](int fd, const void* data, size_t length, off_t at) {
    const int which = ++durable_writes;
    for (int let_go = durables_let_go; let_go < which; let_go = durables_let_go) durables_let_go.wait(let_go);
    return durable_errno == 0 ? DiskCalls::system().pwrite_durably(fd, data, length, at)
                              : fail_or(durable_errno, 0);
  };
  return calls;
}

// In place of io_uring_submit(): counts the writes that the kernel is told to make stable.
int counting_submit(io_uring* ring) {
  for (unsigned at = ring->sq.sqe_head; at != ring->sq.sqe_tail; ++at) {
    const io_uring_sqe& entry = ring->sq.sqes[at & *ring->sq.kring_mask];
    if (entry.opcode == IORING_OP_WRITE && (entry.rw_flags & RWF_DSYNC) != 0) ++durable_writes;
  }
  if (ring_is_refused) return -EPERM;
  return io_uring_submit(ring);
}

class Fua : public ::testing::Test {
 protected:
  explicit Fua(PosixDisk::Engine engine = PosixDisk::Engine::kThreads) : engine_(engine) {}
  void SetUp() override {
    syncs = durable_writes = durable_errno = plain_errno = sync_errno = 0;
    ring_is_refused = false;
    PosixDisk::Options options;
    options.file.path = directory_ / "disk";
    options.file.size_bytes = 8 * kMiB;
    options.file.create = true;
    options.file.cache = DiskFile::Cache::kDirect;
    options.file.calls = &calls_;
    options.engine = engine_;
    options.uring_submit = counting_submit;
    auto opened = PosixDisk::open(*loop_, options);
    if (!opened.ok() && host_lacks_it(opened.error())) GTEST_SKIP() << opened.error().what;
    ASSERT_TRUE(opened.ok()) << opened.error().what;
    disk_ = std::move(opened.value());
    loop_.start();
  }
  void TearDown() override {
    let_go(syncs_wait);
    let_go(writes_wait);
    let_go_durables(kAll);
    loop_.stop();
    disk_.reset();
  }
  static void let_go(std::atomic<bool>& held) {
    held = false;
    held.notify_all();
  }
  static void let_go_durables(int how_many) {
    durables_let_go = how_many;
    durables_let_go.notify_all();
  }
  uint64_t flushing_since_ns() {
    uint64_t since_ns = 0;
    loop_.call([&] { since_ns = disk_->flushing_since_ns(); });
    return since_ns;
  }
  struct Answer {
    int error;
    bool flush_failed;
    bool operator==(const Answer&) const = default;
  };
  Answer run(DiskOp op, bool fua, uint64_t offset = 0, uint64_t length = 4096) {
    std::vector<std::byte> data(length, std::byte{7});
    DiskRequest request;
    std::atomic<bool> finished{false};
    request.op = op;
    request.fua = fua;
    request.offset_bytes = offset;
    request.length_bytes = op == DiskOp::kFlush ? 0 : length;
    request.data = data.data();
    request.done = [&finished](DiskRequest&) { finished = true; };
    loop_.call([&] { disk_->submit(request); });
    EXPECT_TRUE(soon([&] { return finished.load(); }));
    return {request.error, request.flush_failed};
  }
  // A request of 4 KiB that the test goes on beside.
  struct Asked {
    std::vector<std::byte> data = std::vector<std::byte>(4096, std::byte{7});
    DiskRequest request;
    std::atomic<bool> finished{false};
  };
  void ask(Asked& asked, DiskOp op, bool fua, uint64_t offset = 0) {
    asked.request.op = op;
    asked.request.fua = fua;
    asked.request.offset_bytes = offset;
    asked.request.length_bytes = op == DiskOp::kFlush ? 0 : asked.data.size();
    asked.request.data = asked.data.data();
    asked.request.done = [&asked](DiskRequest&) { asked.finished = true; };
    loop_.call([&] { disk_->submit(asked.request); });
  }
  static bool is_finished(const Asked& asked) {
    return soon([&] { return asked.finished.load(); });
  }
  // From memory that is nowhere aligned, as a client's often is. Whether the disk holds it then, by itself.
  void expect_to_hold_what_is_written(uint64_t length) {
    Bytes raw = pattern(length + 1, static_cast<unsigned>(length));
    DiskRequest request;
    std::atomic<bool> finished{false};
    request.op = DiskOp::kWrite;
    request.fua = true;
    request.length_bytes = length;
    request.data = raw.data() + 1;
    request.done = [&finished](DiskRequest&) { finished = true; };
    loop_.call([&] { disk_->submit(request); });
    ASSERT_TRUE(soon([&] { return finished.load(); }));
    EXPECT_EQ(request.error, 0);
    std::ifstream file(directory_ / "disk");
    Bytes back(length);
    file.read(reinterpret_cast<char*>(back.data()), static_cast<std::streamsize>(length));
    EXPECT_TRUE(std::equal(back.begin(), back.end(), raw.begin() + 1)) << length;
    EXPECT_EQ(since(), std::pair(0, 1)) << length;
  }
  // By how much each has grown since the last time: flushes, and writes that make themselves stable.
  std::pair<int, int> since() { return {syncs.exchange(0), durable_writes.exchange(0)}; }

  const PosixDisk::Engine engine_;
  const Answer fine_{0, false};
  const DiskCalls calls_ = counting_calls();
  TemporaryDirectory directory_;
  RunningLoop loop_;
  std::unique_ptr<PosixDisk> disk_;
};

TEST_F(Fua, AWriteMakesItselfStableWhenNothingElseIsToBeFlushed) {
  // What an earlier process told is not known to be.
  EXPECT_EQ(run(DiskOp::kWrite, true), fine_);
  EXPECT_EQ(since(), std::pair(1, 0));
  EXPECT_EQ(run(DiskOp::kWrite, true), fine_);
  EXPECT_EQ(run(DiskOp::kWrite, true, 4096, 1 * kMiB), fine_);
  EXPECT_EQ(since(), std::pair(0, 2));
}

TEST_F(Fua, AWriteThatMakesItselfStableWritesWhatItWasGiven) {
  ASSERT_EQ(run(DiskOp::kFlush, false), fine_);
  (void)since();
  for (const uint64_t length : {4 * kKiB, 1 * kMiB}) expect_to_hold_what_is_written(length);
}

TEST_F(Fua, WhatWasToldBeforeIsCovered) {
  ASSERT_EQ(run(DiskOp::kFlush, false), fine_);
  for (const DiskOp op : {DiskOp::kWrite, DiskOp::kZero}) {
    ASSERT_EQ(run(op, false, 1 * kMiB), fine_);
    (void)since();
    EXPECT_EQ(run(DiskOp::kWrite, true), fine_);
    EXPECT_EQ(since(), std::pair(1, 0));
    EXPECT_EQ(run(DiskOp::kWrite, true), fine_);
    EXPECT_EQ(since(), std::pair(0, 1));
  }
}

// The flush may have come to the disk before the write did.
TEST_F(Fua, WhatIsToldBesideAFlushIsNotCoveredByIt) {
  ASSERT_EQ(run(DiskOp::kFlush, false), fine_);
  (void)since();
  syncs_wait = true;
  std::atomic<bool> finished{false};
  DiskRequest flush;
  flush.op = DiskOp::kFlush;
  flush.done = [&finished](DiskRequest&) { finished = true; };
  loop_.call([&] { disk_->submit(flush); });
  ASSERT_TRUE(soon([] { return syncs == 1; }));
  EXPECT_EQ(run(DiskOp::kWrite, false, 1 * kMiB), fine_);
  EXPECT_FALSE(finished);
  let_go(syncs_wait);
  ASSERT_TRUE(soon([&] { return finished.load(); }));
  (void)since();
  EXPECT_EQ(run(DiskOp::kWrite, true), fine_);
  EXPECT_EQ(since(), std::pair(1, 0));
}

TEST_F(Fua, OddPlacesLongWritesAndZeroesAreFlushed) {
  ASSERT_EQ(run(DiskOp::kFlush, false), fine_);
  (void)since();
  EXPECT_EQ(run(DiskOp::kWrite, true, 1), fine_);
  EXPECT_EQ(run(DiskOp::kWrite, true, 0, 2 * kMiB), fine_);
  EXPECT_EQ(run(DiskOp::kZero, true), fine_);
  EXPECT_EQ(since(), std::pair(3, 0));
}

// The ring has no call that a test could count: the kernel reads from each entry what it is to do.
class FuaOfTheRing : public Fua {
 protected:
  FuaOfTheRing() : Fua(PosixDisk::Engine::kIoUring) {}
};

TEST_F(FuaOfTheRing, AWriteMakesItselfStableWhenNothingElseIsToBeFlushed) {
  EXPECT_EQ(run(DiskOp::kWrite, true), fine_);
  EXPECT_EQ(since(), std::pair(1, 0));
  EXPECT_EQ(run(DiskOp::kWrite, true), fine_);
  EXPECT_EQ(run(DiskOp::kWrite, true, 4096, 1 * kMiB), fine_);
  EXPECT_EQ(since(), std::pair(0, 2));
  // One without FUA need not wait for the disk.
  EXPECT_EQ(run(DiskOp::kWrite, false), fine_);
  EXPECT_EQ(since(), std::pair(0, 0));
}

TEST_F(FuaOfTheRing, AWriteThatMakesItselfStableWritesWhatItWasGiven) {
  ASSERT_EQ(run(DiskOp::kFlush, false), fine_);
  (void)since();
  for (const uint64_t length : {4 * kKiB, 1 * kMiB}) expect_to_hold_what_is_written(length);
}

TEST_F(Fua, OneThatFailedMayHaveBeenAFlushThatFailed) {
  ASSERT_EQ(run(DiskOp::kFlush, false), fine_);
  durable_errno = EIO;
  const Answer failed{EIO, true};
  EXPECT_EQ(run(DiskOp::kWrite, true), failed);
  durable_errno = 0;
  (void)since();
  EXPECT_EQ(run(DiskOp::kWrite, true), failed);
  EXPECT_EQ(run(DiskOp::kFlush, false), failed);
  EXPECT_EQ(since(), std::pair(0, 0));
}

TEST_F(Fua, WantOfRoomIsTheWritesAlone) {
  ASSERT_EQ(run(DiskOp::kFlush, false), fine_);
  for (const int error : {ENOSPC, EDQUOT, EFBIG}) {
    durable_errno = plain_errno = error;
    EXPECT_EQ(run(DiskOp::kWrite, true), (Answer{error, false}));
    durable_errno = plain_errno = 0;
    EXPECT_EQ(run(DiskOp::kFlush, false), fine_);
    EXPECT_EQ(run(DiskOp::kWrite, true), fine_);
  }
}

// The flush is in it, and whoever is killed beside it is not told that it failed.
TEST_F(Fua, AWriteThatMakesItselfStableCountsAsAFlushThatIsUnderWay) {
  ASSERT_EQ(run(DiskOp::kFlush, false), fine_);
  EXPECT_EQ(flushing_since_ns(), 0u);
  let_go_durables(0);
  Asked write;
  ask(write, DiskOp::kWrite, true);
  ASSERT_TRUE(soon([] { return durable_writes == 1; }));
  const uint64_t since_ns = flushing_since_ns();
  EXPECT_NE(since_ns, 0u);
  EXPECT_EQ(run(DiskOp::kWrite, false, 1 * kMiB), fine_);
  EXPECT_EQ(flushing_since_ns(), since_ns);
  let_go_durables(kAll);
  ASSERT_TRUE(is_finished(write));
  EXPECT_EQ(flushing_since_ns(), 0u);
}

TEST_F(Fua, TheOldestFlushCountsWhicheverWayItIsMade) {
  ASSERT_EQ(run(DiskOp::kFlush, false), fine_);
  (void)since();
  syncs_wait = true;
  let_go_durables(0);
  Asked flush, write, later_flush;
  ask(flush, DiskOp::kFlush, false);
  ASSERT_TRUE(soon([] { return syncs == 1; }));
  const uint64_t flush_ns = flushing_since_ns();
  ask(write, DiskOp::kWrite, true);
  ASSERT_TRUE(soon([] { return durable_writes == 1; }));
  EXPECT_EQ(flushing_since_ns(), flush_ns);
  let_go(syncs_wait);
  ASSERT_TRUE(is_finished(flush));
  const uint64_t write_ns = flushing_since_ns();
  EXPECT_GT(write_ns, flush_ns);
  syncs_wait = true;
  ask(later_flush, DiskOp::kFlush, false);
  ASSERT_TRUE(soon([] { return syncs == 2; }));
  EXPECT_EQ(flushing_since_ns(), write_ns);
  let_go_durables(kAll);
  ASSERT_TRUE(is_finished(write));
  EXPECT_GT(flushing_since_ns(), write_ns);
  let_go(syncs_wait);
  ASSERT_TRUE(is_finished(later_flush));
  EXPECT_EQ(flushing_since_ns(), 0u);
}

// There is always one, but each of them ends.
TEST_F(Fua, WritesThatMakeThemselvesStableOneAfterTheOtherAreNoFlushThatHangs) {
  ASSERT_EQ(run(DiskOp::kFlush, false), fine_);
  let_go_durables(0);
  std::array<Asked, 8> writes;
  ask(writes[0], DiskOp::kWrite, true);
  ASSERT_TRUE(soon([] { return durable_writes == 1; }));
  uint64_t since_ns = flushing_since_ns();
  for (size_t i = 1; i < writes.size(); ++i) {
    ask(writes[i], DiskOp::kWrite, true, i * 4096);
    ASSERT_TRUE(soon([&] { return durable_writes == static_cast<int>(i) + 1; }));
    let_go_durables(static_cast<int>(i));
    const auto has_ended = [](const Asked& each) { return each.finished.load(); };
    ASSERT_TRUE(soon([&] { return std::ranges::count_if(writes, has_ended) == static_cast<std::ptrdiff_t>(i); }));
    EXPECT_GT(flushing_since_ns(), since_ns) << i;
    since_ns = flushing_since_ns();
  }
  let_go_durables(kAll);
  for (const Asked& write : writes) ASSERT_TRUE(is_finished(write));
  EXPECT_EQ(flushing_since_ns(), 0u);
}

TEST_F(Fua, OneThatFoundNoRoomIsNoFlushThatIsUnderWayAnyMore) {
  ASSERT_EQ(run(DiskOp::kFlush, false), fine_);
  durable_errno = plain_errno = ENOSPC;
  EXPECT_EQ(run(DiskOp::kWrite, true), (Answer{ENOSPC, false}));
  EXPECT_EQ(flushing_since_ns(), 0u);
  durable_errno = EIO;
  EXPECT_EQ(run(DiskOp::kFlush, false), fine_);
  EXPECT_EQ(run(DiskOp::kWrite, true), (Answer{EIO, true}));
  EXPECT_EQ(flushing_since_ns(), 0u);
}

TEST_F(FuaOfTheRing, AWriteThatMakesItselfStableCountsAsAFlushThatIsUnderWay) {
  ASSERT_EQ(run(DiskOp::kFlush, false), fine_);
  std::vector<std::byte> data(4096, std::byte{7});
  for (const bool refused : {false, true}) {
    // What the ring does not take is done in another way, and ends there.
    ring_is_refused = refused;
    DiskRequest write;
    std::atomic<bool> finished{false};
    write.op = DiskOp::kWrite;
    write.fua = true;
    write.length_bytes = data.size();
    write.data = data.data();
    write.done = [&finished](DiskRequest&) { finished = true; };
    uint64_t since_ns = 0;
    loop_.call([&] {
      disk_->submit(write);
      since_ns = disk_->flushing_since_ns();  // it does not end within this turn
    });
    EXPECT_NE(since_ns, 0u);
    ASSERT_TRUE(soon([&] { return finished.load(); }));
    EXPECT_EQ(write.error, 0);
    EXPECT_EQ(flushing_since_ns(), 0u);
  }
}

// It is a client's, and used for the next write of that client.
TEST_F(Fua, ARequestThatFoundNoRoomIsLikeAnyOtherWhenItIsUsedAgain) {
  ASSERT_EQ(run(DiskOp::kFlush, false), fine_);
  std::vector<std::byte> data(4096, std::byte{7});
  DiskRequest request;
  const auto write = [&](bool fua) {
    std::atomic<bool> finished{false};
    request.op = DiskOp::kWrite;
    request.fua = fua;
    request.length_bytes = data.size();
    request.data = data.data();
    request.done = [&finished](DiskRequest&) { finished = true; };
    loop_.call([&] { disk_->submit(request); });
    EXPECT_TRUE(soon([&] { return finished.load(); }));
    return Answer{request.error, request.flush_failed};
  };
  durable_errno = plain_errno = ENOSPC;
  EXPECT_EQ(write(true), (Answer{ENOSPC, false}));
  durable_errno = plain_errno = 0;
  EXPECT_EQ(write(false), fine_);
  EXPECT_EQ(run(DiskOp::kFlush, false), fine_);
}

TEST_F(Fua, AFlushThatFailedForWantOfRoomIsFinal) {
  ASSERT_EQ(run(DiskOp::kFlush, false), fine_);
  durable_errno = ENOSPC;
  const Answer failed{EIO, true};
  EXPECT_EQ(run(DiskOp::kWrite, true), failed);
  EXPECT_EQ(run(DiskOp::kFlush, false), failed);
}

// It is written when a flush fails that was asked for later, and that nobody tries again.
TEST_F(Fua, AWriteThatIsToBeStableFailsWhereAFlushHasFailedMeanwhile) {
  std::vector<std::byte> data(4096, std::byte{7});
  DiskRequest write;
  std::atomic<bool> finished{false};
  write.op = DiskOp::kWrite;
  write.fua = true;
  write.length_bytes = data.size();
  write.data = data.data();
  write.done = [&finished](DiskRequest&) { finished = true; };
  writes_wait = true;
  loop_.call([&] { disk_->submit(write); });
  sync_errno = EIO;
  EXPECT_EQ(run(DiskOp::kFlush, false), (Answer{EIO, true}));
  let_go(writes_wait);
  ASSERT_TRUE(soon([&] { return finished.load(); }));
  EXPECT_EQ(write.error, EIO);
  EXPECT_TRUE(write.flush_failed);
}

}  // namespace
}  // namespace twinblock
