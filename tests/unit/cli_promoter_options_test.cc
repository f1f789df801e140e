#include <gtest/gtest.h>

#include "base/units.h"
#include "twinblock/command_line.h"

namespace twinblock {
namespace {

Result<CommandLine> typed(std::vector<std::string> words) {
  words.insert(words.begin(), "promoter");
  return parse_command_line(words, "1");
}

PromoterOptions parsed(const std::vector<std::string>& words) {
  const Result<CommandLine> line = typed(words);
  EXPECT_TRUE(line.ok()) << (line ? "" : line.error().what);
  return line ? line.value().options.promoter : PromoterOptions{};
}

std::string refusal(const std::vector<std::string>& words) {
  const Result<CommandLine> line = typed(words);
  EXPECT_FALSE(line.ok());
  if (line.ok()) return "";
  EXPECT_EQ(line.error().code, kExitUsage);
  return line.error().what;
}

TEST(PromoterOptions, TimesHaveDefaultsAndUnits) {
  EXPECT_EQ(parsed({"r0"}).restart_wait_ns, 3 * kSecond_ns);
  EXPECT_EQ(parsed({"r0"}).boot_wait_ns, 20 * kSecond_ns);
  const PromoterOptions options = parsed({"r0", "--restart-wait", "500ms", "--boot-wait", "1min"});
  EXPECT_EQ(options.restart_wait_ns, 500 * kMillisecond_ns);
  EXPECT_EQ(options.boot_wait_ns, 60 * kSecond_ns);
  EXPECT_EQ(parsed({"r0", "--restart-wait", "0"}).restart_wait_ns, 0u);
}

TEST(PromoterOptions, WrongTimesAreNamed) {
  EXPECT_NE(refusal({"--restart-wait", "soon"}).find("--restart-wait: 'soon'"), std::string::npos);
  EXPECT_NE(refusal({"--boot-wait", "2h"}).find("--boot-wait: '2h'"), std::string::npos);
  EXPECT_NE(refusal({"--boot-wait", "7200"}).find("at most 1h"), std::string::npos);
}

TEST(PromoterOptions, ProgramsComeInPairsAndByTheirPaths) {
  const PromoterOptions options = parsed({"r0", "--start", "/a/start", "--stop", "/a/stop"});
  EXPECT_EQ(options.start + options.stop, "/a/start/a/stop");
  EXPECT_NE(refusal({"--start", "/a"}).find("go together"), std::string::npos);
  EXPECT_NE(refusal({"--stop", "/a"}).find("go together"), std::string::npos);
  EXPECT_NE(refusal({"--start", "/a", "--stop", "b"}).find("--stop: 'b'"), std::string::npos);
  EXPECT_NE(refusal({"--start", "a", "--stop", "/b"}).find("--start: 'a'"), std::string::npos);
  EXPECT_NE(refusal({"--start", "/a", "--stop", "/b", "--target", "x.target"}).find("--target"),
            std::string::npos);
}

}  // namespace
}  // namespace twinblock
