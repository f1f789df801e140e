// The key's file: what is taken, what is refused, and that what is written can be read.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <iterator>

#include "gtest/gtest.h"
#include "io/posix/link_key.h"
#include "noted_syncs.h"
#include "temporary_directory.h"

namespace twinblock {
namespace {

const std::string kDigits(64, 'a');

class LinkKeyTest : public ::testing::Test {
 protected:
  LinkKeyTest() { noted_syncs().clear(); }
  std::string write(const std::string& text, mode_t mode) {
    const std::string path = directory_.path() + "/r0.key";
    std::ofstream(path) << text;
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }
  TemporaryDirectory directory_;
};

TEST_F(LinkKeyTest, what_is_written_is_read_and_nobody_else_can) {
  const std::string path = directory_.path() + "/new.key";
  const LinkKeys keys{make_link_key(), make_link_key()};
  ASSERT_TRUE(write_link_keys(path, "r0", keys).ok());
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const Result<LinkKeys> read = read_link_keys(path);
  ASSERT_TRUE(read.ok()) << read.error().what;
  ASSERT_EQ(read.value().size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read.value()[i].secret, keys[i].secret);
    EXPECT_EQ(read.value()[i].fingerprint, keys[i].fingerprint);
  }
  EXPECT_NE(keys[0].secret, keys[1].secret);
}

TEST_F(LinkKeyTest, a_key_that_is_there_is_not_written_over) {
  const std::string path = write(kDigits, 0600);
  const Status written = write_link_keys(path, "r0", {make_link_key()});
  ASSERT_FALSE(written.ok());
  EXPECT_NE(written.error().action.find("nothing was changed"), std::string::npos);
  EXPECT_EQ(read_link_keys(path).value().front().secret.front(), std::byte{0xaa});
}

TEST_F(LinkKeyTest, a_key_that_others_can_read_is_refused) {
  for (const mode_t mode : {0640, 0604, 0620, 0602, 0644}) {
    const Result<LinkKeys> read = read_link_keys(write(kDigits, mode));
    ASSERT_FALSE(read.ok()) << mode;
    EXPECT_NE(read.error().what.find("other users"), std::string::npos) << read.error().what;
    EXPECT_NE(read.error().action.find("chmod 600"), std::string::npos);
  }
  EXPECT_TRUE(read_link_keys(write(kDigits, 0400)).ok());
}

TEST_F(LinkKeyTest, what_is_no_file_is_refused) {
  EXPECT_FALSE(read_link_keys(directory_.path()).ok());
  EXPECT_FALSE(read_link_keys(directory_.path() + "/none").ok());
  EXPECT_FALSE(read_link_keys("/dev/null").ok());
}

// A host that lost power in the midst of it could else never change its keys again.
TEST_F(LinkKeyTest, what_is_left_of_a_change_that_was_cut_off_does_not_hinder_the_next) {
  const std::string path = write(kDigits, 0600);
  std::ofstream(path + ".new") << "half";
  const LinkKeys keys{make_link_key(), make_link_key()};
  const Status replaced = replace_link_keys(path, "r0", keys);
  ASSERT_TRUE(replaced.ok()) << replaced.error().what;
  EXPECT_EQ(read_link_keys(path).value().front().fingerprint, keys[0].fingerprint);
  EXPECT_NE(::access((path + ".new").c_str(), F_OK), 0);
}

TEST_F(LinkKeyTest, who_changes_a_key_leaves_it_to_whom_it_belongs) {
  const std::string path = directory_.path() + "/r0.key";
  ASSERT_TRUE(write_link_keys(path, "r0", {make_link_key()}).ok());
  if (::chown(path.c_str(), 4321, 4322) != 0) GTEST_SKIP() << "only root can give files away";
  const LinkKeys keys{make_link_key(), make_link_key()};
  ASSERT_TRUE(replace_link_keys(path, "r0", keys).ok());
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 4321u);
  EXPECT_EQ(info.st_gid, 4322u);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(::access((path + ".new").c_str(), F_OK), -1);
}

// On a full file system, say.
TEST_F(LinkKeyTest, what_was_written_in_part_takes_nobodys_place) {
  const std::string path = directory_ / "r0.key";
  const LinkKey old = make_link_key();
  ASSERT_TRUE(write_link_keys(path, "r0", {old}).ok());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto signal_before = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit short_of_a_key{40, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &short_of_a_key), 0);
  const Status replaced = replace_link_keys(path, "r0", {make_link_key(), make_link_key()});
  EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, signal_before);
  EXPECT_FALSE(replaced.ok());
  const Result<LinkKeys> read = read_link_keys(path);
  ASSERT_TRUE(read.ok()) << read.error().what;
  EXPECT_EQ(read.value().front().fingerprint, old.fingerprint);
  EXPECT_NE(::access((path + ".new").c_str(), F_OK), 0);
}

// The other host has the new key by then, and may have dropped the old one.
TEST_F(LinkKeyTest, a_key_that_was_written_is_there_after_a_power_cut) {
  const std::string path = directory_ / "r0.key";
  const std::string fresh = path + ".new";
  ASSERT_TRUE(write_link_keys(path, "r0", {make_link_key()}).ok());
  EXPECT_TRUE(noted_syncs().had(path));
  EXPECT_TRUE(noted_syncs().had(directory_.path()));
  noted_syncs().clear();
  bool has_its_name = false;
  noted_syncs().before = [&](const std::string& of) {
    if (of == directory_.path()) has_its_name = ::access(fresh.c_str(), F_OK) != 0;
    return 0;
  };
  ASSERT_TRUE(replace_link_keys(path, "r0", {make_link_key()}).ok());
  EXPECT_TRUE(noted_syncs().had(fresh)) << "before it has the name of the old one";
  EXPECT_TRUE(has_its_name) << "and then that";
}

TEST_F(LinkKeyTest, a_key_that_may_be_lost_is_an_error) {
  const std::string path = directory_ / "r0.key";
  const LinkKey old = make_link_key();
  for (const std::string& lost : {path, directory_.path()}) {
    noted_syncs().before = [&](const std::string& of) { return of == lost ? EIO : 0; };
    EXPECT_FALSE(write_link_keys(path, "r0", {old}).ok()) << lost;
    ::unlink(path.c_str());
  }
  noted_syncs().clear();
  ASSERT_TRUE(write_link_keys(path, "r0", {old}).ok());
  noted_syncs().before = [&](const std::string& of) { return of == path + ".new" ? EIO : 0; };
  EXPECT_FALSE(replace_link_keys(path, "r0", {make_link_key()}).ok());
  EXPECT_EQ(read_link_keys(path).value().front().fingerprint, old.fingerprint);
}

TEST(LinkKeyText, remarks_and_empty_lines_are_left_out) {
  const auto keys = parse_link_keys("# of r0\n\n  " + kDigits + "  # this one\n", "f");
  ASSERT_TRUE(keys.ok()) << keys.error().what;
  EXPECT_EQ(keys.value().size(), 1u);
  EXPECT_EQ(keys.value()[0].secret[31], std::byte{0xaa});
}

TEST(LinkKeyText, errors_name_the_line_and_never_the_key) {
  const std::string other(64, 'b');
  const std::string third(64, 'c');
  for (const auto& [text, where] : std::vector<std::pair<std::string, std::string>>{
           {"", "f: there is no key"},
           {"# nothing\n", "f: there is no key"},
           {kDigits.substr(1), "f:1: not a key"},
           {kDigits + "a", "f:1: not a key"},
           {"\n" + kDigits.substr(1) + "g", "f:2: not a key"},
           {kDigits + " " + other, "f:1: not a key"},
           {kDigits + "\n" + kDigits, "f:2: the same key"},
           {kDigits + "\n" + other + "\n" + third, "f:3: a third key"}}) {
    const auto keys = parse_link_keys(text, "f");
    ASSERT_FALSE(keys.ok()) << text;
    EXPECT_EQ(keys.error().what.find(where), 0u) << keys.error().what;
    EXPECT_EQ(keys.error().what.find("aaaa"), std::string::npos);
  }
}

// The same key has the same fingerprint everywhere and for ever: two operators compare them.
TEST(LinkKeyText, a_fingerprint_is_of_the_whole_key) {
  const auto of = [](const std::string& text) {
    return parse_link_keys(text, "f").value().front().fingerprint;
  };
  EXPECT_EQ(of(kDigits), of(std::string(64, 'A')));
  for (size_t i = 0; i < kDigits.size(); ++i) {
    std::string changed = kDigits;
    changed[i] = 'b';
    EXPECT_NE(of(changed), of(kDigits)) << i;
  }
  EXPECT_EQ(of(kDigits).size(), 19u);
}

}  // namespace
}  // namespace twinblock
