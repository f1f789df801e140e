// What a disk says of the requests that it has: since when the oldest of them may be under way.
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "io/posix/posix_disk.h"
#include "io_posix_support.h"
#include "pattern.h"

namespace twinblock {
namespace {

class DiskUnderWayTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kSize = 8 * kMiB;

  DiskUnderWayTest() {
    PosixDisk::Options options;
    options.file.path = directory_ / "disk";
    options.file.size_bytes = kSize;
    options.file.create = true;
    auto opened = PosixDisk::open(*loop_, options);
    EXPECT_TRUE(opened.ok());
    disk_ = std::move(opened.value());
    loop_.start();
  }
  ~DiskUnderWayTest() override {
    loop_.stop();
    disk_.reset();
  }
  // Whether anything was under way at two looks.
  bool any() {
    (void)disk_->under_way().look(1);
    return disk_->under_way().look(2).has_value();
  }

  TemporaryDirectory directory_;
  RunningLoop loop_;
  std::unique_ptr<PosixDisk> disk_;
};

TEST_F(DiskUnderWayTest, ARequestIsUntilItIsAnswered) {
  bool answered = false;
  Bytes data = pattern(1 * kMiB, 1);
  DiskRequest request;
  request.op = DiskOp::kWrite;
  request.fua = true;
  request.length_bytes = data.size();
  request.data = data.data();
  request.done = [&](DiskRequest&) {
    EXPECT_FALSE(any()) << "by who is told";
    answered = true;
  };
  loop_.call([&] {
    EXPECT_FALSE(any());
    disk_->submit(request);
    EXPECT_TRUE(any());
  });
  EXPECT_TRUE(loop_.eventually([&] { return answered; }));
}

TEST_F(DiskUnderWayTest, SoIsWhatAThreadReadsBesideTheLoop) {
  std::atomic<bool> goes_on{true};
  std::thread reader([&] {
    Bytes bytes(kSize);
    while (goes_on) EXPECT_EQ(disk_->read_now(0, bytes), 0);
  });
  EXPECT_TRUE(soon([this] { return any(); }));
  goes_on = false;
  reader.join();
  EXPECT_FALSE(any());
}

TEST_F(DiskUnderWayTest, SoIsTheQuestionForAHole) {
  std::atomic<bool> goes_on{true};
  std::thread asker([&] {
    bool hole = false;
    uint64_t length = 0;
    while (goes_on) EXPECT_EQ(disk_->extent_now(0, kSize, hole, length), 0);
  });
  EXPECT_TRUE(soon([this] { return any(); }));
  goes_on = false;
  asker.join();
  EXPECT_FALSE(any());
}

}  // namespace
}  // namespace twinblock
