#include "twinblock/control_client.h"

#include <gtest/gtest.h>
#include <limits.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <thread>
#include <vector>

#include "base/units.h"
#include "config/config.h"
#include "io/posix/descriptor.h"
#include "scripted_node.h"
#include "temporary_directory.h"
#include "twinblock/actions.h"
#include "twinblock/exit_status.h"
#include "twinblock/locate.h"

namespace twinblock {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

void send_text(int fd, const std::string& text) {
  (void)!send(fd, text.data(), text.size(), MSG_NOSIGNAL);
}

// Takes one connection, reads one line and hands both to `answer`.
class FakeNode {
 public:
  FakeNode(const std::string& path, std::function<void(int, const std::string&)> answer) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(listener_, 4), 0);
    thread_ = std::thread([this, answer = std::move(answer)] {
      const int fd = accept(listener_, nullptr, nullptr);
      std::string line;
      for (char c = 0; recv(fd, &c, 1, 0) == 1 && c != '\n';) line.push_back(c);
      answer(fd, line);
      close(fd);
    });
  }
  ~FakeNode() {
    thread_.join();
    close(listener_);
  }
  FakeNode(const FakeNode&) = delete;
  FakeNode& operator=(const FakeNode&) = delete;

 private:
  int listener_ = -1;
  std::thread thread_;
};

Result<json> ask_node(std::function<void(int, const std::string&)> answer,
                      uint64_t timeout_ns = 60 * kSecond_ns, const std::string& verb = "promote") {
  const TemporaryDirectory dir;
  const FakeNode node(dir / "r0.ctl", std::move(answer));
  return control_request(dir / "r0.ctl", verb, {{"force", true}}, timeout_ns);
}

// As `events --follow | head -1`: when head has gone, nobody reads what the node may say one day.
TEST(ControlClient, AReplyIsNotWaitedForWhenItsReaderHasGone) {
  const TemporaryDirectory dir;
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  EXPECT_FALSE(has_hung_up(ends[1]));
  std::promise<void> gone;
  const FakeNode node(dir / "r0.ctl", [&](int, const std::string&) {
    close(ends[0]);
    gone.get_future().wait();  // silent, until the client has given up
  });
  const auto began = std::chrono::steady_clock::now();
  const Result<json> reply =
      control_request(dir / "r0.ctl", "events", json::object(), 60 * kSecond_ns, ends[1]);
  gone.set_value();
  EXPECT_FALSE(reply.ok());
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(50));
  EXPECT_TRUE(has_hung_up(ends[1]));
  close(ends[1]);
}

TEST(ControlClient, AReaderThatIsThereIsNoReasonToEnd) {
  const TemporaryDirectory dir;
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const FakeNode node(dir / "r0.ctl", [](int fd, const std::string&) {
    send_text(fd, "{\"ok\": true, ");
    usleep(20'000);
    send_text(fd, "\"result\": {\"last\": 7}}\n");
  });
  const Result<json> reply =
      control_request(dir / "r0.ctl", "events", json::object(), 60 * kSecond_ns, ends[1]);
  ASSERT_TRUE(reply.ok()) << reply.error().what;
  EXPECT_EQ(reply.value()["last"], 7);
  for (const int end : ends) close(end);
}

TEST(ControlClient, WhoMayNotConnectIsToldSo) {
  const TemporaryDirectory dir;
  fs::permissions(dir.path(), fs::perms(0755));
  const std::string path = dir / "r0.ctl";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  fs::permissions(path, fs::perms::none);
  const bool root = geteuid() == 0;
  constexpr uid_t kNobody = 65534;
  if (root) {
    ASSERT_EQ(seteuid(kNobody), 0);
  }
  const Result<json> reply = control_request(path, "status", json::object(), kSecond_ns);
  if (root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  close(listener);
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().code, kExitRefused) << "waiting would not help";
  EXPECT_NE(reply.error().action.find("sudo"), std::string::npos) << reply.error().action;
}

TEST(ControlClient, SendsVerbAndArgumentsAndReturnsTheResult) {
  std::string request;
  const Result<json> result = ask_node([&](int fd, const std::string& line) {
    request = line;
    // In two pieces, since a stream knows no messages.
    send_text(fd, "{\"ok\":true,\"resu");
    usleep(20'000);
    send_text(fd, "lt\":{\"role\":\"primary\"}}\n");
  });
  ASSERT_TRUE(result.ok()) << result.error().what;
  EXPECT_EQ(result.value(), (json{{"role", "primary"}}));
  EXPECT_EQ(json::parse(request), (json{{"verb", "promote"}, {"args", {{"force", true}}}}));
}

TEST(ControlClient, PassesTheNodesRefusalOn) {
  const Result<json> result = ask_node([](int fd, const std::string&) {
    send_text(fd, "{\"ok\":false,\"error\":\"beta is primary\",\"action\":\"demote it\"}\n");
  });
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, kExitRefused);
  EXPECT_EQ(result.error().what, "beta is primary");
  EXPECT_EQ(result.error().action, "demote it");
}

// What a script decides by: whether it is worth to try again.
TEST(ControlClient, ARefusalsWordBecomesTheExitStatus) {
  const std::array<std::pair<std::string, int>, 5> cases{{{"\"for_good\"", kExitForGood},
                                                          {"\"now\"", kExitNow},
                                                          {"\"later\"", kExitLater},
                                                          {"\"perhaps\"", kExitRefused},
                                                          {"7", kExitRefused}}};
  for (const auto& [word, exit_status] : cases) {
    const Result<json> result = ask_node([word = word](int fd, const std::string&) {
      send_text(fd, "{\"ok\":false,\"error\":\"no\",\"refused\":" + word + "}\n");
    });
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, exit_status) << word;
    EXPECT_EQ(result.error().what, "no");
  }
  const Result<json> of_another = ask_node(
      [](int fd, const std::string&) { send_text(fd, "{\"ok\":false,\"error\":\"no\",\"refused\":\"now\"}\n"); },
      60 * kSecond_ns, "snapshot");
  ASSERT_FALSE(of_another.ok());
  EXPECT_EQ(of_another.error().code, kExitRefused) << "they are promotions' only";
  for (const auto& [word, exit_status] : cases)
    EXPECT_EQ("\"" + std::string(refusal_of(exit_status)) + "\"",
              exit_status == kExitRefused ? "\"\"" : word);
}

// The actions themselves, against a node that writes down what it is asked.
json asked_of_a_node(Result<Output> (*verb)(const Options&, const std::string&),
                     const Options& options) {
  const TemporaryDirectory dir;
  std::string request;
  {
    const FakeNode node(dir / "r0.ctl", [&](int fd, const std::string& line) {
      request = line;
      send_text(fd, "{\"ok\":false,\"error\":\"no\",\"refused\":\"now\"}\n");
    });
    const Result<Output> output = verb(options, dir / "r0.ctl");
    EXPECT_FALSE(output.ok());
    if (!output.ok()) {
      EXPECT_EQ(output.error().code, verb == run_promote ? kExitNow : kExitRefused);
    }
  }
  return json::parse(request);
}

TEST(ControlClient, AWordInTheWitnessSteadIsNamedOnlyWhereItIsGiven) {
  Options options;
  EXPECT_EQ(asked_of_a_node(run_promote, options),
            (json{{"verb", "promote"}, {"args", {{"peer_is_dead", false}}}}));
  EXPECT_EQ(asked_of_a_node(run_continue, options),
            (json{{"verb", "continue"}, {"args", json::object()}}));
  options.go_on.without_witness = true;
  EXPECT_EQ(asked_of_a_node(run_continue, options),
            (json{{"verb", "continue"}, {"args", {{"without_witness", true}}}}));
  options.promote.without_witness = true;
  EXPECT_EQ(asked_of_a_node(run_promote, options),
            (json{{"verb", "promote"},
                  {"args", {{"peer_is_dead", false}, {"without_witness", true}}}}));
}

TEST(ControlClient, RefusesWhatIsNotAReply) {
  for (const char* reply : {"hello\n", "[]\n", "{}\n", "{\"ok\":\"yes\"}\n", "\xff\xfe\n"}) {
    const Result<json> result =
        ask_node([reply](int fd, const std::string&) { send_text(fd, reply); });
    ASSERT_FALSE(result.ok()) << reply;
    EXPECT_EQ(result.error().code, kExitRefused) << reply;
  }
}

TEST(ControlClient, SilenceAndHangUpMeanUnreachable) {
  const Result<json> closed = ask_node([](int, const std::string&) {});
  EXPECT_EQ(closed.error().code, kExitUnreachable);
  const auto until_the_client_hangs_up = [](int fd, const std::string&) {
    char c = 0;
    (void)!recv(fd, &c, 1, 0);
  };
  const Result<json> silent = ask_node(until_the_client_hangs_up, 100 * kMillisecond_ns);
  EXPECT_EQ(silent.error().code, kExitUnreachable);
  EXPECT_NE(silent.error().what.find("does not answer: no reply within 100.00 ms"), std::string::npos);
  EXPECT_EQ(silent.error().action.find("Start"), std::string::npos) << "it runs";
}

// `twinblock web` asks one that stands still every few seconds, and who has given up fills its queue.
TEST(ControlClient, ANodeThatTakesNoMoreConnectionsIsGivenUpInTimeAndIsNotToBeStarted) {
  const TemporaryDirectory dir;
  const std::string path = dir / "r0.ctl";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const auto* const name = reinterpret_cast<const sockaddr*>(&address);
  Descriptor listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(listener.get(), name, sizeof address), 0);
  ASSERT_EQ(listen(listener.get(), 0), 0);
  std::vector<Descriptor> waiting;
  do waiting.emplace_back(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  while (connect(waiting.back().get(), name, sizeof address) == 0);
  ASSERT_EQ(errno, EAGAIN);
  std::future<Result<json>> reply = std::async(std::launch::async, [&path] {
    return control_request(path, "status", json::object(), 100 * kMillisecond_ns);
  });
  const bool in_time = reply.wait_for(std::chrono::minutes(1)) == std::future_status::ready;
  listener.reset();  // who waits all the same is refused now
  const Result<json> said = reply.get();
  ASSERT_TRUE(in_time);
  ASSERT_FALSE(said.ok());
  EXPECT_EQ(said.error().code, kExitUnreachable);
  EXPECT_NE(said.error().what.find("does not answer"), std::string::npos) << said.error().what;
  EXPECT_EQ(said.error().action.find("Start it"), std::string::npos) << said.error().action;
}

// It has taken the order, and only its answer is not waited for any longer: who started the node anew, or took the
// exit status for that, would be wrong.
TEST(ControlClient, AnOrderThatIsNotAnsweredInTimeGoesOn) {
  const TemporaryDirectory dir;
  const ScriptedNode node(dir / "r0.ctl", [](const std::string&, const json&) { return std::nullopt; });
  const Result<json> silent = control_order(dir / "r0.ctl", "demote", json::object(), 100 * kMillisecond_ns,
                                            "twinblock status r0");
  ASSERT_FALSE(silent.ok());
  EXPECT_EQ(silent.error().code, kExitTimedOut);
  EXPECT_NE(silent.error().what.find("has not answered within 100.00 ms"), std::string::npos);
  EXPECT_NE(silent.error().action.find("twinblock status r0"), std::string::npos);
  EXPECT_EQ((silent.error().what + silent.error().action).find("tart it"), std::string::npos);
}

TEST(ControlClient, AnOrderIsOtherwiseAsARequest) {
  const TemporaryDirectory dir;
  const auto order = [&] {
    return control_order(dir / "r0.ctl", "demote", json::object(), 60 * kSecond_ns, "twinblock status r0");
  };
  EXPECT_EQ(order().error().code, kExitUnreachable) << "nobody listens";
  {
    const FakeNode node(dir / "r0.ctl", [](int, const std::string&) {});
    EXPECT_EQ(order().error().code, kExitUnreachable) << "it died";
  }
  fs::remove(dir / "r0.ctl");
  const ScriptedNode node(dir / "r0.ctl", [](const std::string&, const json&) {
    return ScriptedNode::refusal("clients are connected", "");
  });
  EXPECT_EQ(order().error().code, kExitRefused);
}

TEST(ControlClient, AMissingSocketIsNamedWithHowToStartTheNode) {
  const TemporaryDirectory dir;
  const Result<json> result =
      control_request(dir / "none.ctl", "status", json::object(), kSecond_ns);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, kExitUnreachable);
  EXPECT_NE(result.error().what.find(dir / "none.ctl"), std::string::npos);
  EXPECT_NE(result.error().action.find("twinblockd CONFIG"), std::string::npos);
  const std::string longer = "/" + std::string(200, 'x');
  EXPECT_EQ(control_request(longer, "status", json::object(), 1).error().code, kExitUsage);
}

// --- which socket ---

void touch(const std::string& path) { std::ofstream(path) << ""; }

void write_config(const std::string& path, const std::string& dir) {
  std::ofstream(path) << "volume = \"r0\"\nsize = \"1GiB\"\n[node.alpha]\nbacking = \"/a/i\"\n"
                         "metadata = \"/a/m\"\nruntime = \""
                      << dir
                      << "/a\"\n[node.beta]\n"
                         "backing = \"/b/i\"\nmetadata = \"/b/m\"\nruntime = \""
                      << dir
                      << "/b\"\n"
                         "[link.main]\nalpha = \"127.0.0.1:1\"\nbeta = \"127.0.0.1:2\"\n";
}

TEST(Locate, ASocketOrAConfigurationSaysItAll) {
  const TemporaryDirectory dir;
  EXPECT_EQ(locate_control_socket({"", "", "", "/x/r0.ctl"}, dir.path(), {dir.path()}).value(),
            "/x/r0.ctl");
  write_config(dir / "any.toml", dir.path());
  EXPECT_EQ(locate_control_socket({"", dir / "any.toml", "beta", ""}, "/none", {"/none"}).value(),
            dir / "b/r0.ctl");
  const Result<std::string> both =
      locate_control_socket({"", dir / "any.toml", "", "/x"}, "/none", {"/none"});
  EXPECT_EQ(both.error().code, kExitUsage);
  const Result<std::string> other =
      locate_control_socket({"r1", dir / "any.toml", "beta", ""}, "/none", {"/none"});
  EXPECT_NE(other.error().what.find("describes volume 'r0', not 'r1'"), std::string::npos);
}

TEST(Locate, AVolumeIsLookedUpInItsConfigurationThenAmongTheSockets) {
  const TemporaryDirectory dir;
  fs::create_directory(dir / "one");
  fs::create_directory(dir / "two");
  const std::vector<std::string> dirs{dir / "one", dir / "two"};
  EXPECT_EQ(locate_control_socket({"r0", "", "", ""}, dir.path(), dirs).value(),
            dir / "one/r0.ctl");
  touch(dir / "two/r0.ctl");
  EXPECT_EQ(locate_control_socket({"r0", "", "", ""}, dir.path(), dirs).value(),
            dir / "two/r0.ctl");
  EXPECT_EQ(locate_control_socket({"r0", "", "alpha", ""}, dir.path(), dirs).error().code,
            kExitUsage);
  write_config(dir / "r0.toml", dir.path());
  EXPECT_EQ(locate_control_socket({"r0", "", "alpha", ""}, dir.path(), dirs).value(),
            dir / "a/r0.ctl");
}

// A member of the group asks about root's node, whose directory the file does not say.
TEST(Locate, WhereTheFileDoesNotSayTheNodeMayBeAnotherUsers) {
  const TemporaryDirectory dir;
  write_config(dir / "r0.toml", dir.path());
  fs::create_directory(dir / "a");
  fs::create_directory(dir / "system");
  const NodeOptions alpha{"r0", "", "alpha", ""};
  const std::vector<std::string> dirs{dir / "a", dir / "system"};
  touch(dir / "system/r0.ctl");
  EXPECT_EQ(locate_control_socket(alpha, dir.path(), dirs).value(), dir / "system/r0.ctl");
  touch(dir / "a/r0.ctl");
  EXPECT_EQ(locate_control_socket(alpha, dir.path(), dirs).value(), dir / "a/r0.ctl");
  const std::vector<std::string> others{dir / "one", dir / "system"};
  EXPECT_EQ(locate_control_socket(alpha, dir.path(), others).value(), dir / "a/r0.ctl");
}

// Without a directory of its own a user's nodes have one of /tmp, where anybody may have made it first.
TEST(Locate, AnotherUsersDirectoryIsNotBelieved) {
  ASSERT_EQ(unsetenv("XDG_RUNTIME_DIR"), 0);
  const bool root = geteuid() == 0;
  const uid_t user = root ? 1'000'000 + static_cast<uid_t>(getpid()) : geteuid();
  const std::string path = "/tmp/twinblock-" + std::to_string(user);
  if (!fs::create_directory(path)) GTEST_SKIP() << path << " is in use";
  fs::permissions(path, fs::perms::all);
  touch(path + "/mine.ctl");
  if (root && seteuid(user) != 0) {
    fs::remove_all(path);
    GTEST_SKIP() << "no user " << user << " here, whom a container may not know";
  }
  const Result<json> reply = control_request(path + "/mine.ctl", "status", json::object(), kSecond_ns);
  const Result<std::string> found = locate_control_socket({"mine", "", "", ""});
  if (root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  fs::permissions(path, fs::perms::owner_all);
  if (root) {
    ASSERT_EQ(seteuid(user), 0);
  }
  const bool own = !is_somebody_elses(path);
  if (root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  fs::remove_all(path);
  ASSERT_FALSE(reply.ok());
  EXPECT_NE(reply.error().what.find(path + " is not this user's own"), std::string::npos) << reply.error().what;
  EXPECT_EQ(found.value(), "/run/twinblock/mine.ctl");
  EXPECT_EQ(own, !root) << "by root it is another one's still";
}

TEST(Locate, TheOnlyNodeNeedsNoName) {
  const TemporaryDirectory dir;
  const Result<std::string> none = locate_control_socket({}, "/none", {dir.path()});
  EXPECT_EQ(none.error().code, kExitUnreachable);
  touch(dir / "r0.ctl");
  touch(dir / "r0.nbd");
  EXPECT_EQ(locate_control_socket({}, "/none", {dir.path()}).value(), dir / "r0.ctl");
  touch(dir / "r1.ctl");
  const Result<std::string> two = locate_control_socket({}, "/none", {dir.path()});
  EXPECT_EQ(two.error().code, kExitUsage);
  EXPECT_NE(two.error().what.find("r0, r1"), std::string::npos);
}

// A node that did not start has no socket, and who watches the host is to hear of it.
TEST(Locate, ANodeThatNeverStartedIsExpected) {
  const TemporaryDirectory dir;
  ASSERT_TRUE(fs::create_directories(dir / "run") && fs::create_directories(dir / "etc"));
  touch(dir / "run/other.ctl");
  std::string host(HOST_NAME_MAX + 1, '\0');
  ASSERT_EQ(gethostname(host.data(), host.size()), 0);
  host.resize(host.find('\0'));
  const auto configure = [&](const std::string& volume, const std::string& node) {
    std::ofstream(dir / "etc/" + volume + ".toml")
        << "volume = \"" << volume << "\"\nsize = \"1GiB\"\n[node." << node << "]\nbacking = \"/a/i\"\nmetadata = \"/a/m\"\n"
        << "runtime = \"" << dir / "run" << "\"\n[node.there]\nbacking = \"/b/i\"\nmetadata = \"/b/m\"\n"
        << "[link.main]\n" << node << " = \"127.0.0.1:1\"\nthere = \"127.0.0.1:2\"\n";
  };
  configure("r0", host);
  configure("elsewhere", "nobody");
  touch(dir / "etc/broken.toml");
  touch(dir / "etc/r1.toml.example");
  EXPECT_EQ(expected_control_sockets(dir / "etc", {dir / "run"}),
            (std::vector<std::string>{dir / "run/other.ctl", dir / "run/r0.ctl"}));
  touch(dir / "run/r0.ctl");
  EXPECT_EQ(expected_control_sockets(dir / "etc", {dir / "run"}).size(), 2u) << "once";
  EXPECT_EQ(expected_control_sockets("/none", {"/none"}), std::vector<std::string>{});
}

TEST(Locate, FilesOfANodeBeginLikeItsSocket) {
  const TemporaryDirectory dir;
  fs::create_directory_symlink(dir.path(), dir / "link");
  EXPECT_EQ(node_file_stem(dir / "r0.ctl"), dir / "r0");
  EXPECT_EQ(node_file_stem(dir / "link/r0.ctl"), dir / "r0");
  EXPECT_EQ(node_file_stem(dir / "r0.x.ctl"), dir / "r0.x");
}

}  // namespace
}  // namespace twinblock
