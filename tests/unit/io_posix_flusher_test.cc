// DiskFlusher: which fdatasync begins when, and what its success or failure means for whom.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "io/posix/disk_flusher.h"
#include "io/posix/monotonic.h"
#include "io_posix_support.h"

namespace twinblock {
namespace {

// An fdatasync that returns when the test says so.
class HeldSync {
 public:
  static DiskCalls calls() {
    DiskCalls calls = DiskCalls::system();
    calls.fdatasync = [](int fd) { return one_->wait(fd); };
    return calls;
  }
  HeldSync() { one_ = this; }
  ~HeldSync() { one_ = nullptr; }
  HeldSync(const HeldSync&) = delete;
  HeldSync& operator=(const HeldSync&) = delete;

  // Ends the n-th that was begun, 0 being the first, with an errno value or 0.
  void end(size_t n, int error = 0) {
    const std::lock_guard lock(mutex_);
    calls_.at(n).error = error;
    calls_.at(n).ended = true;
    changed_.notify_all();
  }
  // From now on, and those that are under way.
  void let_all_pass(bool pass) {
    const std::lock_guard lock(mutex_);
    passing_ = pass;
    changed_.notify_all();
  }
  // Whether as many as that are begun, soon, and no more a little later.
  bool begun(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kNever, [&] { return calls_.size() >= count; });
    changed_.wait_for(lock, std::chrono::milliseconds(30), [&] { return calls_.size() > count; });
    return calls_.size() == count;
  }
  size_t count() {
    const std::lock_guard lock(mutex_);
    return calls_.size();
  }
  void wait_for(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return calls_.size() >= count; });
  }
  std::set<int> descriptors() {
    const std::lock_guard lock(mutex_);
    std::set<int> fds;
    for (const Call& call : calls_) fds.insert(call.fd);
    return fds;
  }

 private:
  struct Call {
    int fd;
    bool ended = false;
    int error = 0;
  };
  int wait(int fd) {
    std::unique_lock lock(mutex_);
    const size_t mine = calls_.size();
    calls_.push_back({fd});
    changed_.notify_all();
    changed_.wait(lock, [&] { return calls_[mine].ended || passing_; });
    errno = calls_[mine].error;
    return errno == 0 ? 0 : -1;
  }

  static inline HeldSync* one_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Call> calls_;
  bool passing_ = false;
};

class DiskFlusherTest : public ::testing::Test {
 protected:
  static constexpr size_t kParallel = 3;
  static constexpr int kNotTold = -1;

  void SetUp() override {
    open("disk", calls_);
    if (HasFatalFailure()) return;
    if (file_->another_flush_handle() == nullptr) GTEST_SKIP() << "flushes are one at a time on this file system";
    make_flusher(kParallel);
  }

  // `calls` must outlive the test.
  void open(const std::string& name, const DiskCalls& calls) {
    DiskFile::Options options;
    options.path = directory_ / name;
    options.size_bytes = 1 * kMiB;
    options.create = true;
    options.calls = &calls;
    auto opened = DiskFile::open(options);
    ASSERT_TRUE(opened.ok()) << opened.error().what;
    file_ = std::move(opened.value());
    held_ = &calls == &calls_;
  }
  void make_flusher(size_t parallel_max) {
    auto created = DiskFlusher::create(*file_, parallel_max, [] {});
    ASSERT_TRUE(created.ok()) << created.error().what;
    flusher_ = std::move(created.value());
  }

  void TearDown() override { sync_.let_all_pass(true); }

  // A request to flush.
  size_t queue() {
    requests_.push_back(std::make_unique<DiskRequest>());
    requests_.back()->op = DiskOp::kFlush;
    requests_.back()->error = kNotTold;
    if (flusher_->error() == 0) flusher_->add(*requests_.back());
    return requests_.size() - 1;
  }
  // … begun at once if it may.
  size_t add() {
    const size_t n = queue();
    start();
    return n;
  }
  // What the n-th request was told: 0, an errno value, or kNotTold.
  int told(size_t n) {
    collect();
    return requests_[n]->error;
  }
  bool told_soon(size_t n, int error) {
    (void)soon([&] { return told(n) != kNotTold; });
    return told(n) == error;
  }
  // Makes it a disk whose flush takes several milliseconds.
  void make_slow() {
    add();
    ASSERT_TRUE(sync_.begun(1));
    sync_.end(0);
    ASSERT_TRUE(told_soon(0, 0));
  }
  // Returns when its fdatasync has been called: they are numbered as they were begun, although each
  // has a thread of its own.
  void start() {
    const bool begins = flusher_->pending();
    const size_t before = sync_.count();
    flusher_->start();
    if (begins && held_) sync_.wait_for(before + 1);
  }
  void collect() {
    RequestList finished;
    flusher_->collect(finished);
    while (DiskRequest* request = finished.pop())
      for (size_t i = 0; i < requests_.size(); ++i)
        if (requests_[i].get() == request) order_.push_back(i);
    start();
  }

  const TemporaryDirectory directory_;
  HeldSync sync_;
  const DiskCalls calls_ = HeldSync::calls();
  bool held_ = true;  // whether file_'s fdatasync is sync_'s
  std::unique_ptr<DiskFile> file_;
  std::vector<std::unique_ptr<DiskRequest>> requests_;
  std::vector<size_t> order_;  // in which they were told
  std::unique_ptr<DiskFlusher> flusher_;
};

// So that a process that dies in one has left a note of it.
TEST_F(DiskFlusherTest, the_oldest_flush_tells_since_when_it_is_under_way) {
  EXPECT_EQ(flusher_->since_ns(), 0u);
  make_slow();
  EXPECT_EQ(flusher_->since_ns(), 0u);
  const uint64_t before_ns = monotonic_ns();
  const size_t first = add();
  const uint64_t since_ns = flusher_->since_ns();
  EXPECT_GE(since_ns, before_ns);
  const size_t second = add();
  EXPECT_EQ(flusher_->since_ns(), since_ns);
  sync_.end(1);
  ASSERT_TRUE(told_soon(first, 0));
  EXPECT_NE(flusher_->since_ns(), since_ns);
  sync_.let_all_pass(true);
  ASSERT_TRUE(told_soon(second, 0));
  EXPECT_EQ(flusher_->since_ns(), 0u);
}

TEST_F(DiskFlusherTest, one_at_a_time_until_it_is_known_that_it_takes_long) {
  const size_t first = add();
  const size_t second = add();
  EXPECT_TRUE(sync_.begun(1));
  sync_.end(0);
  EXPECT_TRUE(told_soon(first, 0));
  EXPECT_TRUE(sync_.begun(2));
  sync_.end(1);
  EXPECT_TRUE(told_soon(second, 0));
}

off_t place_of(int fd) { return off_t{512} * (fd + 1); }

TEST_F(DiskFlusherTest, a_slow_disk_has_several_each_with_a_description_of_its_own) {
  make_slow();
  std::vector<size_t> added;
  for (size_t i = 0; i < kParallel + 2; ++i) added.push_back(add());
  EXPECT_TRUE(sync_.begun(1 + kParallel)) << "no more than its maximum";
  const std::set<int> descriptors = sync_.descriptors();
  EXPECT_EQ(descriptors.size(), kParallel);
  // Duplicates of one description share its position, and an error of writing that it tells only once.
  for (const int fd : descriptors) EXPECT_EQ(::lseek(fd, place_of(fd), SEEK_SET), place_of(fd));
  for (const int fd : descriptors) EXPECT_EQ(::lseek(fd, 0, SEEK_CUR), place_of(fd));
  sync_.end(1);
  EXPECT_TRUE(told_soon(added[0], 0));
  EXPECT_TRUE(sync_.begun(1 + kParallel + 1)) << "those that waited share one";
  for (size_t n = 2; n < 1 + kParallel + 1; ++n) sync_.end(n);
  for (const size_t n : added) EXPECT_TRUE(told_soon(n, 0));
  EXPECT_TRUE(sync_.begun(1 + kParallel + 1));
}

TEST_F(DiskFlusherTest, one_at_a_time_again_once_it_has_become_quick) {
  make_slow();
  constexpr size_t kQuick = 70;  // enough for the mean to forget what was before
  // Where each looks slow, since the machine is busy, there are several still: again, then.
  EXPECT_TRUE(soon([&] {
    sync_.let_all_pass(true);
    for (size_t i = 0; i < kQuick; ++i) EXPECT_TRUE(told_soon(add(), 0));
    sync_.let_all_pass(false);
    const size_t before = sync_.count();
    add();
    const size_t last = add();
    const bool one = sync_.begun(before + 1);
    sync_.let_all_pass(true);
    EXPECT_TRUE(told_soon(last, 0));
    return one;
  }));
}

// A disk that does one flush after the other; how many were under way at most since it was asked.
class OneAfterTheOther {
 public:
  static DiskCalls calls() {
    DiskCalls calls = DiskCalls::system();
    calls.fdatasync = [](int) {
      ++inside_;
      most_ = std::max(most_.load(), inside_.load());
      {
        const std::lock_guard lock(disk_);
        std::this_thread::sleep_for(std::chrono::milliseconds(4));
      }
      --inside_;
      return 0;
    };
    return calls;
  }
  static int most_since() { return most_.exchange(0); }

 private:
  static inline std::mutex disk_;
  static inline std::atomic<int> inside_{0};
  static inline std::atomic<int> most_{0};
};

TEST_F(DiskFlusherTest, flushes_that_the_disk_does_in_turn_are_one_at_a_time) {
  static const DiskCalls calls = OneAfterTheOther::calls();
  ASSERT_NO_FATAL_FAILURE(open("in turn", calls));
  ASSERT_NO_FATAL_FAILURE(make_flusher(8));
  const auto load = [&](size_t flushes) {
    for (size_t begun = 0; begun < flushes;) {
      // Each waits for one of its own, as many as may be under way and more.
      if (order_.size() + 12 > requests_.size()) {
        add();
        ++begun;
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
      collect();
    }
  };
  load(200);
  EXPECT_GT(OneAfterTheOther::most_since(), 1) << "tried";
  // On a busy host the one that was alone may have taken too long; there is another one each
  // second.
  EXPECT_TRUE(soon([&] {
    load(100);
    return OneAfterTheOther::most_since() == 1;
  }));
  while (order_.size() < requests_.size()) collect();
}

TEST_F(DiskFlusherTest, without_descriptors_to_be_had_it_does_with_one) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit limited = before;
  limited.rlim_cur = static_cast<rlim_t>(file_->fd()) + kParallel + 2;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limited), 0);
  auto created = DiskFlusher::create(*file_, 1000, [] {});
  ::setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_TRUE(created.ok()) << created.error().what;
  flusher_ = std::move(created.value());
  sync_.let_all_pass(true);
  EXPECT_TRUE(told_soon(add(), 0));
}

TEST_F(DiskFlusherTest, success_counts_only_after_all_that_began_before) {
  make_slow();
  const size_t first = add();
  const size_t second = add();
  ASSERT_TRUE(sync_.begun(3));
  sync_.end(2);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(told(second), kNotTold);
  sync_.end(1);
  EXPECT_TRUE(told_soon(second, 0));
  EXPECT_EQ(told(first), 0);
  EXPECT_EQ(order_, (std::vector<size_t>{0, first, second}));
}

TEST_F(DiskFlusherTest, a_failure_fails_those_that_began_later_and_ended_well) {
  make_slow();
  const size_t first = add();
  const size_t second = add();
  ASSERT_TRUE(sync_.begun(3));
  sync_.end(2);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  sync_.end(1, EIO);
  EXPECT_TRUE(told_soon(first, EIO));
  EXPECT_TRUE(told_soon(second, EIO));
  EXPECT_EQ(flusher_->error(), EIO);
}

TEST_F(DiskFlusherTest, a_failure_fails_those_that_began_before_and_are_not_told_yet) {
  make_slow();
  const size_t first = add();
  const size_t second = add();
  ASSERT_TRUE(sync_.begun(3));
  sync_.end(2, EIO);
  EXPECT_TRUE(soon([&] {
    collect();
    return flusher_->error() == EIO;
  }));
  EXPECT_EQ(told(second), kNotTold);
  sync_.end(1);
  EXPECT_TRUE(told_soon(first, EIO));
  EXPECT_TRUE(told_soon(second, EIO));
}

TEST_F(DiskFlusherTest, after_a_failure_none_is_begun_beside_an_older_one) {
  make_slow();
  const size_t older = add();
  add();
  const size_t waits = queue();
  ASSERT_TRUE(sync_.begun(3));
  sync_.end(2, EIO);
  (void)soon([&] {
    RequestList finished;
    flusher_->collect(finished);
    return flusher_->error() != 0;
  });
  ASSERT_EQ(flusher_->error(), EIO);
  EXPECT_FALSE(flusher_->pending());
  start();
  EXPECT_TRUE(sync_.begun(3));
  sync_.end(1);
  EXPECT_TRUE(told_soon(older, EIO));
  EXPECT_EQ(told(waits), EIO);
}

TEST_F(DiskFlusherTest, after_a_failure_none_is_begun_and_each_request_fails) {
  make_slow();
  std::vector<size_t> added;
  for (size_t i = 0; i < kParallel + 1; ++i) added.push_back(add());
  ASSERT_TRUE(sync_.begun(1 + kParallel));
  sync_.end(1, ENOSPC);
  EXPECT_TRUE(told_soon(added[0], ENOSPC));
  EXPECT_EQ(told(added[kParallel]), ENOSPC) << "it waited for a turn";
  EXPECT_EQ(flusher_->error(), ENOSPC) << "which whoever adds one looks at";
  EXPECT_FALSE(flusher_->pending());
  EXPECT_TRUE(sync_.begun(1 + kParallel));
  for (size_t n = 2; n < 1 + kParallel; ++n) sync_.end(n);
  EXPECT_TRUE(told_soon(added[1], ENOSPC)) << "its fdatasync was under way";
}

}  // namespace
}  // namespace twinblock
