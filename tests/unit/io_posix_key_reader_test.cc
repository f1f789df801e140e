// Keys are read by a thread of their own, since their file system may hang.
#include "io/posix/key_reader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <vector>

#include "io_posix_support.h"

namespace twinblock {
namespace {

TEST(KeyReaderTest, the_loop_goes_on_while_the_file_system_of_the_keys_hangs) {
  RunningLoop loop;
  std::promise<void> mends;
  const std::shared_future<void> mended = mends.get_future().share();
  KeyReader reader(*loop, [mended] {
    mended.wait();
    return Result<LinkKeys>(LinkKeys{make_link_key()});
  });
  std::vector<bool> told;
  loop.start();
  loop.call([&] {
    for (int i = 0; i < 2; ++i)
      reader.read([&](const Result<LinkKeys>& keys) { told.push_back(keys.ok()); });
  });
  loop.call([&] { EXPECT_EQ(told, std::vector{false}) << "one at a time"; });
  mends.set_value();
  EXPECT_TRUE(loop.eventually([&] { return told == std::vector{false, true}; }));
}

// It may hang for ever: the thread that reads is left behind, and finds nobody when it goes on.
TEST(KeyReaderTest, a_file_system_that_hangs_does_not_hold_up_the_end) {
  std::promise<void> begins, mends;
  const std::shared_future<void> mended = mends.get_future().share();
  const auto file = std::make_shared<int>();
  std::atomic<int> told{0};
  {
    RunningLoop loop;
    auto reader = std::make_unique<KeyReader>(*loop, [&begins, mended, file] {
      begins.set_value();
      mended.wait();
      return Result<LinkKeys>(LinkKeys{make_link_key()});
    });
    loop.start();
    loop.call([&] { reader->read([&told](const Result<LinkKeys>&) { ++told; }); });
    begins.get_future().wait();
    loop.stop();
    auto end = std::async(std::launch::async, [&reader] { reader.reset(); });
    const bool ended = end.wait_for(kNever) == std::future_status::ready;
    if (!ended) mends.set_value();
    ASSERT_TRUE(ended) << "it waits for what hangs";
  }
  mends.set_value();
  EXPECT_TRUE(soon([&file] { return file.use_count() == 1; })) << "the thread has not ended";
  EXPECT_EQ(told, 0);
}

}  // namespace
}  // namespace twinblock
