// Opening disks, the log, the start-up helpers, notifications.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "io/posix/disk_file.h"
#include "io/posix/files.h"
#include "io/posix/notify.h"
#include "io/posix/stderr_log.h"
#include "io/posix/throttled_log.h"
#include "io_posix_support.h"
#include "pattern.h"

namespace twinblock {
namespace {

class DiskFileTest : public ::testing::Test {
 protected:
  DiskFile::Options options(const std::string& name, uint64_t size_bytes, bool create) {
    DiskFile::Options o;
    o.path = directory_ / name;
    o.size_bytes = size_bytes;
    o.create = create;
    return o;
  }
  static std::string contents(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  TemporaryDirectory directory_;
};

TEST_F(DiskFileTest, what_is_created_is_nobody_elses) {
  const mode_t mask = ::umask(0);
  const auto created = DiskFile::open(options("disk", 4096, true));
  ::umask(mask);
  ASSERT_TRUE(created.ok()) << created.error().what;
  struct stat info {};
  ASSERT_EQ(::stat((directory_ / "disk").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(DiskFileTest, a_missing_file_is_created_sparse_only_when_asked) {
  const auto missing = DiskFile::open(options("disk", 64 * kTiB, false));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ENOENT);
  // As large as this file system lets one file be.
  const auto created = DiskFile::open(options("disk", 1 * kTiB, true));
  ASSERT_TRUE(created.ok()) << created.error().what;
  EXPECT_EQ(created.value()->size_bytes(), 1 * kTiB);
  std::byte last{1};
  EXPECT_EQ(created.value()->write(1 * kTiB - 1, &last, 1), 0);
  last = std::byte{0};
  EXPECT_EQ(created.value()->read(1 * kTiB - 1, &last, 1), 0);
  EXPECT_EQ(last, std::byte{1});
}

TEST_F(DiskFileTest, opening_changes_neither_size_nor_content) {
  std::ofstream(directory_ / "disk") << std::string(10000, 'x');
  const auto file = DiskFile::open(options("disk", 0, true));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file.value()->size_bytes(), 10000u);
  EXPECT_EQ(std::filesystem::file_size(directory_ / "disk"), 10000u);
  EXPECT_EQ(contents(directory_ / "disk"), std::string(10000, 'x'));
}

TEST_F(DiskFileTest, a_larger_file_is_used_up_to_the_wanted_size) {
  std::ofstream(directory_ / "disk") << std::string(10000, 'x');
  const auto file = DiskFile::open(options("disk", 8192, false));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file.value()->size_bytes(), 8192u);
}

TEST_F(DiskFileTest, a_file_that_is_too_small_says_both_sizes_and_how_to_grow_it) {
  std::ofstream(directory_ / "disk") << std::string(4096, 'x');
  const auto file = DiskFile::open(options("disk", 1 * kMiB, true));
  ASSERT_FALSE(file.ok());
  EXPECT_NE(file.error().what.find("has 4 KiB (4096 bytes), but 1 MiB (1048576 bytes)"),
            std::string::npos)
      << file.error().what;
  EXPECT_EQ(file.error().action, "grow it: truncate -s 1048576 " + (directory_ / "disk"));
  EXPECT_EQ(contents(directory_ / "disk"), std::string(4096, 'x'));
}

TEST_F(DiskFileTest, a_file_in_use_is_refused_until_it_is_closed) {
  std::ofstream(directory_ / "disk") << std::string(4096, 'x');
  auto first = DiskFile::open(options("disk", 4096, true));
  ASSERT_TRUE(first.ok());
  const auto second = DiskFile::open(options("disk", 4096, true));
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().what, (directory_ / "disk") + " is in use by another process");
  EXPECT_EQ(contents(directory_ / "disk"), std::string(4096, 'x')) << "what was not made here is nobody's to take away";
  first.value().reset();
  EXPECT_TRUE(DiskFile::open(options("disk", 4096, true)).ok());
}

TEST_F(DiskFileTest, neither_a_directory_nor_a_character_device_is_a_disk) {
  EXPECT_FALSE(DiskFile::open(options("", 0, false)).ok());
  DiskFile::Options o;
  o.path = "/dev/null";
  const auto device = DiskFile::open(o);
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.error().what, "/dev/null is neither a regular file nor a block device");
}

TEST_F(DiskFileTest, a_file_that_could_not_be_created_whole_is_not_left_behind) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{64 * 1024, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto file = DiskFile::open(options("disk", 128 * 1024, true));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(file.ok());
  EXPECT_FALSE(std::filesystem::exists(directory_ / "disk"));
}

// Elsewhere one of two flushes may be told that all is well, though blocks are lost.
TEST_F(DiskFileTest, flushes_are_under_way_side_by_side_only_where_each_is_told_what_failed) {
  for (const uint64_t known : {0xEF53u, 0x58465342u, 0x9123683Eu, 0x01021994u})
    EXPECT_TRUE(flushes_side_by_side(known)) << std::hex << known;  // ext4, XFS, Btrfs, tmpfs
  for (const uint64_t unknown : {0x65735546u, 0x6969u, 0x2fc12fc1u, 0x794c7630u, 0xF2F52010u, 0u})
    EXPECT_FALSE(flushes_side_by_side(unknown)) << std::hex << unknown;  // FUSE, NFS, ZFS, overlayfs, f2fs
}

// What is in flight, and for how long, grows while a device hangs.
TEST_F(DiskFileTest, a_device_gets_on_by_what_it_completes_and_by_nothing_else) {
  const auto work = [](size_t more) {
    std::string line;
    for (size_t field = 0; field < 17; ++field) line += field == more ? " 9" : " 1";
    std::istringstream stat(line);
    return completed_work(stat);
  };
  const std::set<size_t> completed{0, 2, 4, 6, 11, 13, 15};  // reads, writes, discards, flushes, and sectors of them
  for (size_t field = 0; field < 17; ++field) EXPECT_EQ(work(field) != work(99), completed.contains(field)) << field;
}

TEST_F(DiskFileTest, kinds_of_files_are_told_apart) {
  std::ofstream(directory_ / "file") << "x";
  EXPECT_EQ(file_kind(directory_ / "file").value(), FileKind::kRegular);
  EXPECT_EQ(file_kind(directory_ / "none").value(), FileKind::kMissing);
  EXPECT_EQ(file_kind(directory_ / "file" + "/below").value(), FileKind::kMissing);
  EXPECT_EQ(file_kind(directory_ / "").value(), FileKind::kDirectory);
  EXPECT_EQ(file_kind("/dev/null").value(), FileKind::kOther);
}

TEST_F(DiskFileTest, a_file_is_read_piece_by_piece_and_not_past_its_end) {
  EXPECT_EQ(FileReader::open(directory_ / "none").error().code, ENOENT);
  std::ofstream(directory_ / "file") << std::string(999, 'x') + "y";
  const auto file = FileReader::open(directory_ / "file");
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file.value()->flush().ok());
  EXPECT_EQ(file.value()->size_bytes(), 1000u);
  std::vector<std::byte> bytes(10);
  EXPECT_TRUE(file.value()->read_at(990, bytes).ok());
  EXPECT_EQ(bytes.front(), std::byte{'x'});
  EXPECT_EQ(bytes.back(), std::byte{'y'});
  EXPECT_EQ(file.value()->read_at(991, bytes).error().code, EIO);
}

TEST_F(DiskFileTest, a_short_file_grows_and_keeps_what_it_holds) {
  EXPECT_TRUE(grow_file(directory_ / "none", 1000).ok());
  EXPECT_FALSE(std::filesystem::exists(directory_ / "none"));
  std::ofstream(directory_ / "file") << "xy";
  EXPECT_TRUE(grow_file(directory_ / "file", 1000).ok());
  EXPECT_EQ(std::filesystem::file_size(directory_ / "file"), 1000u);
  EXPECT_TRUE(grow_file(directory_ / "file", 10).ok());
  EXPECT_EQ(std::filesystem::file_size(directory_ / "file"), 1000u);
  std::string word;
  std::ifstream(directory_ / "file") >> word;
  EXPECT_EQ(word.substr(0, 2), "xy");
}

// How often the calls that write are interrupted, how much they take, and what they say of more.
struct WriteTrouble {
  std::atomic<int> interrupted{0};
  std::atomic<int> error{0};  // an errno value; 0: they take none of it, and say no more than that
  std::atomic<uint64_t> takes_bytes{UINT64_MAX};  // before it says so

  // What a call that is to write so much says; 0: it is carried out, for `length` bytes.
  ssize_t says(size_t& length) {
    if (interrupted > 0) {
      --interrupted;
      errno = EINTR;
      return -1;
    }
    if (takes_bytes == 0 && error != 0) {
      errno = error;
      return -1;
    }
    length = std::min<uint64_t>(length, takes_bytes);
    takes_bytes -= takes_bytes == UINT64_MAX ? 0 : length;
    return 0;
  }
};
WriteTrouble write_trouble;

ssize_t write_in_trouble(int fd, const void* data, size_t length, off_t offset) {
  if (write_trouble.says(length) != 0) return -1;
  return length == 0 ? 0 : ::pwrite(fd, data, length, offset);
}

// DiskFile's two ways to write.
class TroubledWrites : public DiskFileTest, public ::testing::WithParamInterface<bool> {
 protected:
  TroubledWrites() {
    calls_.pwrite = calls_.pwrite_durably = write_in_trouble;
    DiskFile::Options o = options("disk", 1 * kMiB, true);
    o.calls = &calls_;
    auto opened = DiskFile::open(o);
    EXPECT_TRUE(opened.ok());
    file_ = std::move(opened.value());
  }
  ~TroubledWrites() override {
    write_trouble.interrupted = write_trouble.error = 0;
    write_trouble.takes_bytes = UINT64_MAX;
  }
  int write() {
    return GetParam() ? file_->write_durably(4096, data_.data(), data_.size())
                      : file_->write(4096, data_.data(), data_.size());
  }
  bool is_there() {
    Bytes read(data_.size());
    EXPECT_EQ(file_->read(4096, read.data(), read.size()), 0);
    return read == data_;
  }
  DiskCalls calls_ = DiskCalls::system();
  const Bytes data_ = pattern(8192, 1);
  std::unique_ptr<DiskFile> file_;
};

TEST_P(TroubledWrites, one_that_is_interrupted_is_made_again) {
  write_trouble.interrupted = 2;
  EXPECT_EQ(write(), 0);
  EXPECT_EQ(write_trouble.interrupted, 0);
  EXPECT_TRUE(is_there());
  write_trouble.interrupted = 1;
  write_trouble.takes_bytes = 0;
  write_trouble.error = ENOSPC;
  EXPECT_EQ(write(), ENOSPC);
}

// Else a client is told that it is written.
TEST_P(TroubledWrites, a_disk_that_takes_nothing_has_failed) {
  for (const uint64_t taken : {uint64_t{0}, uint64_t{4096}}) {
    write_trouble.takes_bytes = taken;
    EXPECT_EQ(write(), EIO) << taken;
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, TroubledWrites, ::testing::Bool(),
                         [](const auto& way) { return std::string(way.param ? "Durable" : "Plain"); });

TEST_F(DiskFileTest, directories_are_made_with_their_parents) {
  EXPECT_TRUE(make_directories(directory_ / "a/b/c").ok());
  EXPECT_TRUE(make_directories(directory_ / "a/b/c").ok());
  std::ofstream(directory_ / "file") << "x";
  EXPECT_FALSE(make_directories(directory_ / "file/below").ok());
}

TEST(FilesTest, random_bytes_differ) {
  std::set<std::vector<std::byte>> seen;
  for (int i = 0; i < 100; ++i) {
    std::vector<std::byte> bytes(16);
    random_bytes(bytes);
    seen.insert(bytes);
  }
  EXPECT_EQ(seen.size(), 100u);
  EXPECT_FALSE(host_name().empty());
}

std::string read_all(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::read(fd, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(n));
  return text;
}

TEST(StderrLogTest, lines_carry_the_node_and_the_severity) {
  ::unsetenv("JOURNAL_STREAM");
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  {
    StderrLog log("r0/alpha", ends[1]);
    log.log(Severity::kInfo, "started");
    log.log(Severity::kWarning, "slow\ndisk");
    log.log(Severity::kError, "gone");
  }
  ::close(ends[1]);
  EXPECT_EQ(read_all(ends[0]),
            "twinblock: r0/alpha: started\n"
            "twinblock: r0/alpha: warning: slow disk\n"
            "twinblock: r0/alpha: error: gone\n");
  ::close(ends[0]);
}

TEST(StderrLogTest, under_systemd_lines_begin_with_their_level) {
  ::setenv("JOURNAL_STREAM", "1:2", 1);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  {
    StderrLog log("r0/alpha", ends[1]);
    log.log(Severity::kError, "gone");
    log.log(Severity::kWarning, "slow");
    log.log(Severity::kInfo, "back");
  }
  ::unsetenv("JOURNAL_STREAM");
  ::close(ends[1]);
  EXPECT_EQ(read_all(ends[0]),
            "<3>twinblock: r0/alpha: error: gone\n<4>twinblock: r0/alpha: warning: slow\n<6>twinblock: r0/alpha: back\n");
  ::close(ends[0]);
}

TEST(StderrLogTest, a_reader_that_sleeps_blocks_nobody_and_losses_are_told) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::string text;
  std::thread reader;
  {
    StderrLog log("r0/alpha", ends[1]);
    for (int i = 0; i < 10000; ++i) log.log(Severity::kInfo, std::string(1000, 'x'));
    reader = std::thread([&] { text = read_all(ends[0]); });
  }
  ::close(ends[1]);
  reader.join();
  ::close(ends[0]);
  EXPECT_NE(text.find("log lines were dropped"), std::string::npos);
  EXPECT_LT(text.size(), 5000u * 1000u);
}

TEST(StderrLogTest, who_is_never_read_ends) {
  int pipe_ends[2];
  int socket_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, socket_ends), 0);
  for (const int* ends : {pipe_ends, socket_ends}) {
    auto log = std::make_unique<StderrLog>("r0/alpha", ends[1]);
    for (int i = 0; i < 900; ++i) log->log(Severity::kInfo, std::string(1000, 'x'));
    std::atomic<bool> ended{false};
    std::thread ends_it([&] {
      log.reset();
      ended = true;
    });
    EXPECT_TRUE(soon([&] { return ended.load(); }));
    ::close(ends[0]);
    ends_it.join();
    ::close(ends[1]);
  }
}

TEST(StderrLogTest, a_line_that_is_longer_than_a_pipe_arrives) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::string text;
  std::thread reader([&] { text = read_all(ends[0]); });
  const std::string line(300'000, 'x');
  {
    StderrLog log("r0/alpha", ends[1]);
    log.log(Severity::kInfo, line);
  }
  ::close(ends[1]);
  reader.join();
  ::close(ends[0]);
  EXPECT_EQ(text, "twinblock: r0/alpha: " + line + "\n");
}

struct Lines : Log {
  std::vector<std::string> said;
  void log(Severity, const std::string& line) override { said.push_back(line); }
};

TEST(ThrottledLogTest, of_many_lines_some_are_logged_and_of_the_rest_the_number) {
  Lines lines;
  {
    ThrottledLog log(lines, "errors", 2, 10);
    for (const uint64_t now_ns : {0, 1, 2, 9}) log.log(Severity::kError, std::to_string(now_ns), now_ns);
    EXPECT_EQ(lines.said, (std::vector<std::string>{"0", "1"}));
    for (const uint64_t now_ns : {10, 11, 12}) log.log(Severity::kError, std::to_string(now_ns), now_ns);
    EXPECT_EQ(lines.said, (std::vector<std::string>{"0", "1", "2 more errors were not logged", "10", "11"}));
  }
  EXPECT_EQ(lines.said.back(), "1 more errors were not logged");
}

TEST(NotifyTest, the_manager_hears_ready_status_and_stopping) {
  const TemporaryDirectory directory;
  const std::string path = directory / "notify";
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  notify_ready("nobody listens");
  ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
  notify_ready("two\nlines");
  notify_status("duplex");
  notify_stopping();
  ::unsetenv("NOTIFY_SOCKET");
  char buffer[256];
  for (const char* expected : {"READY=1\nSTATUS=two lines", "STATUS=duplex", "STOPPING=1"}) {
    const ssize_t n = ::recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
    ASSERT_GT(n, 0);
    EXPECT_EQ(std::string(buffer, static_cast<size_t>(n)), expected);
  }
  ::close(fd);
}

}  // namespace
}  // namespace twinblock
