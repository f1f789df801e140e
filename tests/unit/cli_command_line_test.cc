// What the command line takes, and what it says of what it does not take.
#include "twinblock/command_line.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "twinblock/actions.h"
#include "twinblock/wait.h"

namespace twinblock {
namespace {

using Words = std::vector<std::string>;

Options parsed(const Words& words) {
  const Result<CommandLine> line = parse_command_line(words, "1.2.3");
  EXPECT_TRUE(line.ok()) << words.front() << ": " << line.error().what;
  if (!line.ok()) return {};
  EXPECT_NE(line.value().verb, nullptr);
  return line.value().options;
}

// All that is said of a command line that is refused.
std::string refusal(const Words& words) {
  const Result<CommandLine> line = parse_command_line(words, "1.2.3");
  EXPECT_FALSE(line.ok()) << (words.empty() ? "" : words.back());
  if (line.ok()) return {};
  EXPECT_EQ(line.error().code, kExitUsage);
  return line.error().what + "\n" + line.error().action;
}

bool says(const std::string& text, const std::string& word) {
  return text.find(word) != std::string::npos;
}

TEST(CommandLine, EveryVerbExplainsItselfAndTakesTheCommonOptions) {
  ASSERT_EQ(verbs().size(), 26u);
  for (const Verb& verb : verbs()) {
    const Result<CommandLine> help = parse_command_line({verb.name, "--help"}, "1.2.3");
    ASSERT_TRUE(help.ok()) << verb.name;
    EXPECT_EQ(help.value().verb, nullptr) << "nothing to run";
    for (const char* word : {"VOLUME", "--json", "--socket", "--config", "Example: "})
      EXPECT_TRUE(says(help.value().text, word)) << verb.name << " " << word;
  }
  EXPECT_TRUE(says(parse_command_line({"--help"}, "1.2.3").value().text, "Exit status: 0 done"));
  EXPECT_TRUE(says(parse_command_line({"--version"}, "1.2.3").value().text, "1.2.3"));
}

TEST(CommandLine, TheVolumeAndTheOptionsArriveInAnyOrder) {
  const Options options = parsed({"promote", "--peer-is-dead", "r0", "--json", "--node", "beta"});
  EXPECT_EQ(options.node.volume, "r0");
  EXPECT_EQ(options.node.node, "beta");
  EXPECT_TRUE(options.print_json && options.promote.peer_is_dead);
}

TEST(CommandLine, GrowTakesASizeBehindTheVolume) {
  EXPECT_EQ(parsed({"grow", "r0", "20GiB"}).grow.size_bytes, 20 * kGiB);
  EXPECT_EQ(parsed({"grow", "r0", "20GiB"}).node.volume, "r0");
  EXPECT_EQ(parsed({"grow", "1GiB", "--socket", "/s"}).grow.size_bytes, kGiB);
  EXPECT_EQ(parsed({"grow", "1GiB"}).node.volume, "");
  EXPECT_TRUE(says(refusal({"grow"}), "no size"));
  EXPECT_TRUE(says(refusal({"grow", "r0"}), "'r0' is not a size"));
  EXPECT_TRUE(says(refusal({"grow", "r0", "1GiB", "more"}), "'more' is too much"));
}

TEST(CommandLine, SnapshotTakesANameBehindTheVolume) {
  EXPECT_EQ(parsed({"snapshot", "r0", "monday"}).snapshot.name, "monday");
  EXPECT_EQ(parsed({"snapshot", "r0", "monday"}).node.volume, "r0");
  EXPECT_EQ(parsed({"snapshot", "monday"}).node.volume, "");
  EXPECT_TRUE(says(refusal({"snapshot"}), "no name"));
  EXPECT_TRUE(says(refusal({"snapshot", "r0", "../monday"}), "can't be a name"));
  EXPECT_TRUE(says(refusal({"snapshot", "r0", "monday", "more"}), "'more' is too much"));
}

// It overrides a witness, so it has to be clear that the peer is down.
TEST(CommandLine, AWordInTheWitnessSteadIsTakenWithTheOtherOneOnly) {
  EXPECT_FALSE(parsed({"promote", "--peer-is-dead"}).promote.without_witness);
  EXPECT_TRUE(parsed({"promote", "--peer-is-dead", "--without-witness"}).promote.without_witness);
  EXPECT_TRUE(says(refusal({"promote", "r0", "--without-witness"}), "--peer-is-dead"));
  EXPECT_FALSE(parsed({"continue", "r0"}).go_on.without_witness);
  EXPECT_TRUE(parsed({"continue", "r0", "--without-witness"}).go_on.without_witness);
}

TEST(CommandLine, UnknownVerbsAndOptionsAreNamed) {
  EXPECT_TRUE(says(refusal({"reboot", "r0"}), "'reboot'"));
  EXPECT_TRUE(says(refusal({"reboot", "r0"}), "resolve")) << "what there is";
  EXPECT_TRUE(says(refusal({"status", "--nonsense"}), "--nonsense"));
  EXPECT_TRUE(says(refusal({"status", "--nonsense"}), "twinblock status --help"));
  EXPECT_TRUE(says(refusal({}), "status"));
  EXPECT_TRUE(says(refusal({"continue", "r0", "r1"}), "r1"));
}

TEST(CommandLine, AVerbThatIsNearlyOneIsGuessed) {
  const std::vector<std::pair<std::string, std::string>> slips{
      {"stauts", "status"}, {"promtoe", "promote"}, {"resyn", "resync"},  {"Status", "status"},
      {"linsk", "link"},    {"wiat", "wait"},       {"detatch", "detach"}, {"event", "events"}};
  for (const auto& [typed, meant] : slips)
    EXPECT_TRUE(says(refusal({typed, "r0"}), "did you mean '" + meant + "'?")) << typed;
  for (const char* other : {"reboot", "r0", "x", "uninstall"})
    EXPECT_FALSE(says(refusal({other}), "did you mean")) << other;
  EXPECT_TRUE(says(refusal({"help", "stauts"}), "did you mean 'status'?"));
  EXPECT_TRUE(says(refusal({"wait", "r0", "dulpex"}), "did you mean 'duplex'?"));
}

TEST(CommandLine, HelpIsAVerb) {
  const auto text = [](const Words& words) {
    const Result<CommandLine> line = parse_command_line(words, "1.2.3");
    EXPECT_TRUE(line.ok()) << line.error().what;
    if (!line.ok()) return std::string();
    EXPECT_EQ(line.value().verb, nullptr) << "nothing to run";
    return line.value().text;
  };
  EXPECT_EQ(text({"help"}), text({"--help"}));
  EXPECT_TRUE(says(text({"help"}), "twinblock help VERB"));
  EXPECT_EQ(text({"help", "help"}), text({"--help"}));
  for (const Verb& verb : verbs()) EXPECT_EQ(text({"help", verb.name}), text({verb.name, "--help"}));
  EXPECT_TRUE(says(refusal({"help", "reboot"}), "'reboot'"));
  EXPECT_TRUE(says(refusal({"help", "status", "r0"}), "'r0'"));
}

TEST(CommandLine, ResolveNeedsTheSideThatIsKept) {
  EXPECT_TRUE(says(refusal({"resolve", "r0"}), "--keep"));
  EXPECT_TRUE(says(refusal({"resolve", "r0", "--keep"}), "--keep"));
  EXPECT_TRUE(says(refusal({"resolve", "r0", "--keep", "alpha"}), "--keep"));
  EXPECT_TRUE(says(refusal({"resolve", "r0", "--keep", "alpha"}), "local,peer"));
  EXPECT_FALSE(parsed({"resolve", "r0", "--keep", "local"}).resolve.yes) << "first it is looked at";
  const Options options = parsed({"resolve", "r0", "--keep", "peer", "--yes"});
  EXPECT_EQ(options.resolve.keep, "peer");
  EXPECT_TRUE(options.resolve.yes);
}

TEST(CommandLine, ResyncTakesAPaceWithOrWithoutAVolume) {
  for (const std::string pace : {"pause", "resume", "auto"}) {
    EXPECT_EQ(parsed({"resync", "r0", pace}).resync.pace, pace);
    EXPECT_EQ(parsed({"resync", "r0", pace}).node.volume, "r0");
    EXPECT_EQ(parsed({"resync", pace}).node.volume, "");
    EXPECT_EQ(parsed({"resync", pace, pace}).node.volume, pace) << "a volume may be called so";
  }
  const std::vector<std::pair<std::string, uint64_t>> rates{
      {"100MiB", 100 * kMiB}, {"50MB", 50'000'000}, {"4096", 4096}, {"1GiB/s", kGiB}};
  for (const auto& [text, bytes] : rates) {
    const Options options = parsed({"resync", "r0", "rate", text, "--json"});
    EXPECT_EQ(options.resync.pace, "rate");
    EXPECT_EQ(options.resync.rate_bytes_per_s, bytes) << text;
    EXPECT_EQ(options.node.volume, "r0");
    EXPECT_EQ(parsed({"resync", "rate", text}).node.volume, "");
  }
  EXPECT_EQ(parsed({"resync", "rate", "rate", "1MiB"}).node.volume, "rate");
}

TEST(CommandLine, ResyncSaysWhatIsWrongWithAPace) {
  EXPECT_TRUE(says(refusal({"resync"}), "no pace"));
  EXPECT_TRUE(says(refusal({"resync", "r0"}), "'r0' is not a pace"));
  EXPECT_TRUE(says(refusal({"resync", "r0", "faster"}), "'faster'"));
  EXPECT_TRUE(says(refusal({"resync", "r0", "rate"}), "rate needs"));
  EXPECT_TRUE(says(refusal({"resync", "r0", "rate", "soon"}), "'soon'"));
  EXPECT_TRUE(says(refusal({"resync", "r0", "rate", "10Mbit"}), "'10Mbit'"));
  EXPECT_TRUE(says(refusal({"resync", "r0", "rate", "100"}), "less than")) << "a unit forgotten";
  EXPECT_TRUE(says(refusal({"resync", "r0", "rate", "0"}), "pause"));
  EXPECT_TRUE(says(refusal({"resync", "r0", "r1", "pause"}), "'r1'"));
  for (const std::string& text : {refusal({"resync"}), refusal({"resync", "r0", "rate", "soon"})})
    EXPECT_TRUE(says(text, "100MiB")) << "how to write it: " << text;
}

TEST(CommandLine, VerifyRefusesOptionsThatContradictEachOther) {
  const VerifyOptions plain = parsed({"verify", "r0"}).verify;
  EXPECT_FALSE(plain.repair || plain.stop || plain.detach || plain.follow);
  EXPECT_TRUE(parsed({"verify", "r0", "--repair"}).verify.repair);
  EXPECT_TRUE(parsed({"verify", "r0", "--stop"}).verify.stop);
  EXPECT_TRUE(parsed({"verify", "r0", "--detach"}).verify.detach);
  EXPECT_TRUE(parsed({"verify", "r0", "--no-wait"}).verify.detach);
  EXPECT_TRUE(parsed({"verify", "r0", "--wait"}).verify.follow);
  EXPECT_TRUE(parsed({"verify", "r0", "--progress"}).verify.follow);
  for (const char* other : {"--repair", "--detach", "--wait"})
    EXPECT_TRUE(says(refusal({"verify", "--stop", other}), "--stop")) << other;
  EXPECT_TRUE(says(refusal({"verify", "--detach", "--wait"}), "--detach"));
}

TEST(CommandLine, ADeviceInUseIsTakenAwayByForceOnly) {
  EXPECT_TRUE(says(refusal({"detach", "r0", "--in-use"}), "--force"));
  EXPECT_TRUE(says(refusal({"detach", "r0", "--with-host", "--force"}), "--force"));
  const Options both = parsed({"detach", "r0", "--force", "--in-use"});
  EXPECT_TRUE(both.detach.force && both.detach.in_use);
}

TEST(CommandLine, WaitTakesKnownGoalsAndDurations) {
  EXPECT_EQ(parsed({"wait"}).wait.goal, "duplex");
  EXPECT_EQ(parsed({"wait"}).wait.timeout_ns, 60 * kSecond_ns);
  EXPECT_EQ(parsed({"wait", "--timeout", "500ms"}).wait.timeout_ns, 500 * kMillisecond_ns);
  EXPECT_TRUE(says(refusal({"wait", "--timeout", "soon"}), "--timeout"));
  EXPECT_TRUE(says(refusal({"wait", "--for", "nirvana"}), "--for"));
}

TEST(CommandLine, WaitTakesItsGoalAsAWordToo) {
  for (const std::string& goal : wait_goals()) {
    const Options options = parsed({"wait", "r0", goal, "--timeout", "5s"});
    EXPECT_EQ(options.wait.goal, goal);
    EXPECT_EQ(options.node.volume, "r0");
    EXPECT_EQ(parsed({"wait", goal}).wait.goal, goal);
    EXPECT_EQ(parsed({"wait", goal}).node.volume, "");
    EXPECT_EQ(parsed({"wait", goal, goal}).node.volume, goal) << "a volume may be called so";
    EXPECT_EQ(parsed({"wait", goal, "--for", "simplex"}).node.volume, goal);
  }
  EXPECT_EQ(parsed({"wait", "r0"}).wait.goal, "duplex");
  EXPECT_EQ(parsed({"wait", "r0"}).node.volume, "r0");
  EXPECT_EQ(parsed({"wait", "r0", "--for", "simplex"}).wait.goal, "simplex");
  EXPECT_TRUE(says(refusal({"wait", "r0", "nirvana"}), "'nirvana' is not a state to wait for"));
  EXPECT_TRUE(says(refusal({"wait", "r0", "nirvana"}), "duplex, whole, connected"));
  EXPECT_TRUE(says(refusal({"wait", "r0", "r1", "duplex"}), "'r1' is too much"));
  EXPECT_TRUE(says(refusal({"wait", "r0", "duplex", "--for", "simplex"}), "--for"));
}

TEST(CommandLine, StatusMayBeWatched) {
  EXPECT_FALSE(parsed({"status", "r0"}).watch.on);
  const Options all = parsed({"status", "--watch"});
  EXPECT_TRUE(all.watch.on && all.node.volume.empty());
  const Options one = parsed({"status", "--watch", "1s", "r0"});
  EXPECT_EQ(one.watch.interval_ns, kSecond_ns);
  EXPECT_EQ(one.node.volume, "r0");
  EXPECT_TRUE(says(refusal({"status", "--watch", "1ms"}), "--watch"));
}

TEST(CommandLine, LatencyLooksBackOrWatches) {
  EXPECT_EQ(parsed({"latency", "r0"}).latency.window, "start");
  EXPECT_EQ(parsed({"latency", "--window", "60s"}).latency.window, "60s");
  EXPECT_TRUE(says(refusal({"latency", "--window", "1h"}), "10s"));
  const Options watching = parsed({"latency", "r0", "--watch"});
  EXPECT_TRUE(watching.watch.on);
  EXPECT_EQ(watching.latency.window, "10s") << "lately";
  EXPECT_EQ(watching.watch.interval_ns, 2 * kSecond_ns);
  EXPECT_EQ(parsed({"latency", "--watch", "--window", "start"}).latency.window, "start");
  const Options often = parsed({"latency", "--watch", "0.5s", "r0"});
  EXPECT_EQ(often.watch.interval_ns, 500 * kMillisecond_ns);
  EXPECT_EQ(often.node.volume, "r0");
  EXPECT_EQ(parsed({"latency", "--watch", "5", "--json", "r0"}).watch.interval_ns,
            5 * kSecond_ns);
  const Options volume = parsed({"latency", "--watch", "r0"});
  EXPECT_EQ(volume.node.volume, "r0") << "no interval: it may be left out";
  EXPECT_EQ(volume.watch.interval_ns, 2 * kSecond_ns);
  for (const char* wrong : {"0", "1ms", "3601s"})
    EXPECT_TRUE(says(refusal({"latency", "--watch", wrong}), "--watch")) << wrong;
  EXPECT_TRUE(says(refusal({"latency", "--watch", "often", "r0"}), "'often'"));
}

TEST(CommandLine, LatencySamplesOneWriteInSoMany) {
  EXPECT_FALSE(parsed({"latency"}).latency.sample_every.has_value());
  EXPECT_EQ(parsed({"latency", "--sample", "8"}).latency.sample_every, 8u);
  EXPECT_EQ(parsed({"latency", "--sample", "0"}).latency.sample_every, 0u) << "never";
  for (const char* wrong : {"-1", "often", "1.5", "4294967296"})
    EXPECT_TRUE(says(refusal({"latency", "--sample", wrong}), "--sample")) << wrong;
}

TEST(CommandLine, OnlyAVerbThatWasAskedForJsonAnswersErrorsInIt) {
  EXPECT_TRUE(wants_json({"resolve", "--json"}));
  EXPECT_FALSE(wants_json({"resolve", "r0"}));
}

TEST(NextCommand, NamesTheNodeAsTheUserDid) {
  EXPECT_EQ(next_command(parsed({"resolve", "r0", "--keep", "local"}), "resolve"),
            "twinblock resolve r0");
  EXPECT_EQ(next_command(parsed({"resolve", "--socket", "/run/my node/r0.ctl", "--keep", "peer"}),
                         "resolve"),
            "twinblock resolve --socket '/run/my node/r0.ctl'");
  EXPECT_EQ(
      next_command(parsed({"resolve", "--config", "r0.toml", "--node", "beta", "--keep", "peer"}),
                   "resolve"),
      "twinblock resolve --config r0.toml --node beta");
}

TEST(WhyText, IsOneWrappedParagraphASentence) {
  EXPECT_EQ(why_text({{"why", {"One.", "Two."}}}), "- One.\n- Two.\n");
  const std::string text = why_text({{"why", {std::string(60, 'a') + " " + std::string(60, 'b')}}});
  EXPECT_EQ(text, "- " + std::string(60, 'a') + "\n  " + std::string(60, 'b') + "\n");
  EXPECT_EQ(why_text({}), "");
  EXPECT_EQ(why_text({{"why", 7}}), "");
}

}  // namespace
}  // namespace twinblock
