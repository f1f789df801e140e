// What is synced, and when, for a file to be there after a power cut.
#include <gtest/gtest.h>

#include <cerrno>
#include <deque>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "io/posix/disk_file.h"
#include "io/posix/files.h"
#include "noted_syncs.h"
#include "temporary_directory.h"

namespace twinblock {
namespace {

bool was_synced(const std::string& path) { return noted_syncs().had(path); }

// errno values of the next calls; then the kernel's.
void answer(std::deque<int> answers) {
  noted_syncs().before = [answers = std::move(answers)](const std::string&) mutable {
    if (answers.empty()) return 0;
    const int error = answers.front();
    answers.pop_front();
    return error;
  };
}

class DurableName : public ::testing::Test {
 protected:
  DurableName() { noted_syncs().clear(); }
  bool open(const std::string& path) {
    DiskFile::Options options;
    options.path = path;
    options.size_bytes = 64 * kKiB;
    options.create = true;
    return DiskFile::open(options).ok();
  }
  TemporaryDirectory directory_;
};

TEST_F(DurableName, a_new_file_its_directory_and_new_directories_above_are_synced) {
  ASSERT_TRUE(make_directories(directory_ / "a/b").ok());
  ASSERT_TRUE(open(directory_ / "a/b/file"));
  for (const char* name : {"a/b/file", "a/b", "a"})
    EXPECT_TRUE(was_synced(directory_ / name)) << name;
  EXPECT_TRUE(was_synced(directory_.path()));
}

// Whoever made it may have died before its own sync.
TEST_F(DurableName, the_names_of_a_file_that_is_there_are_synced_again) {
  std::filesystem::create_directories(directory_ / "a/b");
  std::ofstream(directory_ / "a/b/file") << std::string(64 * kKiB, 'x');
  ASSERT_TRUE(open(directory_ / "a/b/file"));
  for (const char* name : {"a/b", "a"}) EXPECT_TRUE(was_synced(directory_ / name)) << name;
}

TEST_F(DurableName, a_file_that_was_made_but_has_no_size_yet_is_synced_with_its_size) {
  std::ofstream{directory_ / "file"};
  ASSERT_TRUE(open(directory_ / "file"));
  EXPECT_TRUE(was_synced(directory_ / "file"));
}

// A link's own directory is whoever made the link's affair.
TEST_F(DurableName, a_name_that_is_a_link_is_synced_where_the_file_is) {
  ASSERT_TRUE(make_directories(directory_ / "real").ok());
  std::ofstream(directory_ / "real/file") << "x";
  std::filesystem::create_symlink(directory_ / "real/file", directory_ / "link");
  EXPECT_TRUE(sync_name(directory_ / "link").ok());
  EXPECT_TRUE(was_synced(directory_ / "real"));
}

TEST_F(DurableName, what_a_reader_flushes_is_synced) {
  std::ofstream(directory_ / "file") << "x";
  const auto reader = FileReader::open(directory_ / "file");
  ASSERT_TRUE(reader.ok());
  EXPECT_FALSE(was_synced(directory_ / "file"));
  EXPECT_TRUE(reader.value()->flush().ok());
  EXPECT_TRUE(was_synced(directory_ / "file"));
}

TEST_F(DurableName, a_readers_flush_that_a_signal_interrupts_is_done_again) {
  std::ofstream(directory_ / "file") << "x";
  const auto reader = FileReader::open(directory_ / "file");
  ASSERT_TRUE(reader.ok());
  answer({EINTR, EINTR});
  EXPECT_TRUE(reader.value()->flush().ok());
  EXPECT_TRUE(was_synced(directory_ / "file"));
  answer({EINTR, EIO});
  EXPECT_FALSE(reader.value()->flush().ok());
}

TEST_F(DurableName, a_disks_flush_that_a_signal_interrupts_is_done_again) {
  DiskFile::Options options;
  options.path = directory_ / "file";
  options.size_bytes = 64 * kKiB;
  options.create = true;
  const auto file = DiskFile::open(options);
  ASSERT_TRUE(file.ok());
  const auto handle = file.value()->flush_handle();
  ASSERT_TRUE(handle.ok());
  noted_syncs().clear();
  answer({EINTR, EINTR});
  EXPECT_EQ(handle.value()->flush(), 0);
  EXPECT_TRUE(was_synced(directory_ / "file"));
  // And what comes after it is not lost.
  answer({EINTR, ENOSPC});
  EXPECT_EQ(handle.value()->flush(), ENOSPC);
}

TEST_F(DurableName, a_file_that_is_not_there_is_an_error) {
  EXPECT_FALSE(sync_name(directory_ / "file").ok());
}

}  // namespace
}  // namespace twinblock
