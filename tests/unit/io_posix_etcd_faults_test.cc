// The witness against what etcd does not do by itself: slow, hanging, talking nonsense, or somebody else.
#include <net/if.h>
#include <netdb.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <array>
#include <ctime>
#include <fstream>

#include "io_posix_etcd_support.h"

namespace twinblock {
namespace {

const WitnessEntry kAlpha{kUuid, 0x1234, "alpha"};
const std::string kHeader = R"("header":{"revision":"7"})";
const std::string kNothing = "{" + kHeader + R"(,"responses":[{"response_range":{)" + kHeader + "}}]}";
const std::string kDone = "{" + kHeader + R"(,"succeeded":true})";

FakeServer::Answer always(int status, const std::string& body) {
  return [=](const std::string&) { return FakeServer::http(status, body); };
}

FakeServer::Answer raw(const std::string& bytes) {
  return [=](const std::string&) { return bytes; };
}

EtcdAccess access_to_both(const std::string& first, const std::string& second) {
  EtcdAccess access = access_to(first);
  access.endpoints.push_back(second);
  return access;
}

TEST(EtcdFaults, a_slow_one_is_waited_for) {
  FakeServer server([](const std::string&) {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    return FakeServer::http(200, kNothing);
  });
  AskedEtcd asked(access_to(server.url()));
  EXPECT_TRUE(asked.read("r0").ok());
}

TEST(EtcdFaults, an_end_does_not_wait_for_one_that_hangs) {
  FakeServer server(raw(FakeServer::kSilence));
  constexpr uint64_t kDeadline_ns = 60 * kSecond_ns;
  AskedEtcd asked(access_to(server.url()), kDeadline_ns);
  std::atomic<int> answers{0};
  asked.loop().call([&] {
    asked.witness().read("r0", kUuid, [&](const Result<WitnessReading>&) { ++answers; });
    asked.witness().replace("r0", 0, kAlpha, [&](const Result<bool>&) { ++answers; });
  });
  EXPECT_TRUE(soon([&] { return server.requests() == 1; }));
  const uint64_t began_ns = monotonic_ns();
  asked.end();
  EXPECT_LT(monotonic_ns() - began_ns, kDeadline_ns / 2) << "it has waited for the question's deadline";
  asked.loop().call([] {});
  EXPECT_EQ(answers, 0) << "nobody is there to hear it";
}

TEST(EtcdFaults, an_answer_that_comes_with_the_end_is_not_told) {
  for (int round = 0; round < 20; ++round) {
    FakeServer server(always(200, kNothing));
    AskedEtcd asked(access_to(server.url()));
    int answers = 0;
    bool gone = false;
    asked.loop().call([&] {
      asked.witness().read("r0", kUuid, [&](const Result<WitnessReading>&) {
        ++answers;
        EXPECT_FALSE(gone);
      });
      EXPECT_EQ(answers, 0) << "never from within the request";
    });
    if (round % 2 == 0) {
      EXPECT_TRUE(soon([&] { return server.requests() == 1; }));
    }
    asked.end();
    asked.loop().call([&] { gone = true; });
    asked.loop().call([] {});
  }
}

TEST(EtcdFaults, waiting_takes_no_processor) {
  FakeServer server(raw(FakeServer::kSilence));
  AskedEtcd asked(access_to(server.url()), 700 * kMillisecond_ns);
  const clock_t before = std::clock();
  const uint64_t begin_ns = monotonic_ns();
  EXPECT_FALSE(asked.read("r0").ok());
  const double used_s = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  const double took_s = static_cast<double>(monotonic_ns() - begin_ns) / 1e9;
  EXPECT_LT(used_s, took_s / 3) << "of all threads of this process";
}

TEST(EtcdFaults, nonsense_is_no_answer) {
  for (const std::string& body : std::vector<std::string>{
           "", "hello", "{}", "[]", "null", R"({"header":{"revision":"7"},"kvs":7})",
           R"({"header":{"revision":"7"},"kvs":[{"key":"eA==","mod_revision":"1","value":"eA=="}]})"}) {
    FakeServer server(always(200, body));
    AskedEtcd asked(access_to(server.url()));
    EXPECT_TRUE(fails_with(asked.read("r0"), {"etcd at " + server.url() + " answers what etcd would not", "2379"}))
        << body;
  }
  for (const std::string& body : std::vector<std::string>{"", "{}", R"({"succeeded":true})",
                                                          R"({"header":{"revision":"7"},"succeeded":"true"})"}) {
    FakeServer server(always(200, body));
    AskedEtcd asked(access_to(server.url()));
    EXPECT_TRUE(fails_with(asked.replace("r0", 0, kAlpha), {"answers what etcd would not"})) << body;
  }
}

TEST(EtcdFaults, a_long_answer_is_not_read) {
  const std::string head = "HTTP/1.1 200 OK\r\nContent-Length: 4000000000\r\n\r\n";
  const std::string line = "X-Line: " + std::string(1000, 'x') + "\r\n";
  std::string headers = "HTTP/1.1 200 OK\r\n";
  for (int i = 0; i < 80; ++i) headers += line;
  for (const std::string& answer : {FakeServer::http(200, kNothing + std::string(70'000, ' ')),
                                    head + std::string(70'000, ' '), headers + "\r\n"}) {
    FakeServer server(raw(answer));
    AskedEtcd asked(access_to(server.url()));
    EXPECT_TRUE(fails_with(asked.read("r0"), {"answers more than 64 KiB"}));
  }
}

TEST(EtcdFaults, half_an_answer_is_none) {
  const std::string whole = FakeServer::http(200, kNothing);
  for (const std::string& part : {std::string(), whole.substr(0, 20), whole.substr(0, whole.size() - 3)}) {
    FakeServer server(raw(part));
    AskedEtcd asked(access_to(server.url()));
    EXPECT_TRUE(fails_with(asked.read("r0"), {"ended the connection without a whole answer"})) << part;
  }
}

TEST(EtcdFaults, what_does_not_speak_http_is_told) {
  FakeServer server(raw("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"));
  AskedEtcd asked(access_to(server.url()));
  EXPECT_TRUE(fails_with(asked.read("r0"), {"does not speak HTTP", "2379"}));
}

TEST(EtcdFaults, faults_of_etcd_are_told_with_what_to_do) {
  struct Case {
    int status;
    std::string body;
    std::vector<std::string> said;
  };
  const auto json = [](const std::string& text) { return R"({"error":")" + text + R"(","code":14})"; };
  const std::vector<Case> cases{
      {503, json("etcdserver: no leader"), {"has no leader at the moment", "endpoint health --cluster"}},
      {503, json("etcdserver: request timed out"), {"has no leader at the moment"}},
      {503, json("etcdserver: mvcc: database space exceeded"), {"is full, and takes no writes", "alarm disarm"}},
      {403, json("etcdserver: permission denied"), {"refuses access"}},
      {401, "who are you?", {"wants to know who asks"}},
      {403, "<html>no</html>", {"refuses access", "<html>no</html>"}},
      {404, "404 page not found\n", {"answers what etcd would not", "--enable-grpc-gateway"}},
      {500, json("etcdserver: corrupt cluster"), {"could not do it", "corrupt cluster", "endpoint status"}},
      {500, std::string("{\"error\":\"a\\u001b[31mb\\nc\"}"), {"a?[31mb?c"}},
  };
  for (const Case& each : cases) {
    FakeServer server(always(each.status, each.body));
    AskedEtcd asked(access_to(server.url()));
    EXPECT_TRUE(fails_with(asked.read("r0"), each.said)) << each.body;
    EXPECT_TRUE(fails_with(asked.replace("r0", 0, kAlpha), each.said)) << each.body;
  }
}

TEST(EtcdFaults, a_redirection_is_not_followed) {
  FakeServer elsewhere(always(200, kNothing));
  FakeServer server(raw("HTTP/1.1 307 Temporary Redirect\r\nLocation: " + elsewhere.url() +
                        "/v3/kv/txn\r\nContent-Length: 0\r\n\r\n"));
  AskedEtcd asked(access_to(server.url()));
  EXPECT_TRUE(fails_with(asked.read("r0"), {"HTTP status 307"}));
  EXPECT_EQ(elsewhere.requests(), 0);
}

TEST(EtcdFaults, a_host_without_an_address_is_named) {
  AskedEtcd asked(access_to("http://no-such-host.invalid:2379"), 20 * kSecond_ns);
  const Result<WitnessReading> reading = asked.read("r0");
  ASSERT_FALSE(reading.ok());
  // Where names are looked up by a service that is away, that takes longer than we wait.
  if (reading.error().what.find("did not answer within") == std::string::npos) {
    EXPECT_TRUE(fails_with(reading, {"has a host name that can't be looked up", "getent hosts"}));
  }
}

// A name service that takes questions and says nothing, in a network of the calling thread's own, and of those that it
// starts.
class SilentNames {
 public:
  ~SilentNames() { ::close(fd_); }
  // False: that takes root.
  bool begin() {
    if (::unshare(CLONE_NEWNS | CLONE_NEWNET) != 0) return false;
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
    fd_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return in_place_of("/etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:30 attempts:1\n") &&
           in_place_of("/etc/nsswitch.conf", "hosts: files dns\n") && loopback_up() && listen();
  }
  // It says at last that there is no such name, until nobody asks any more.
  void answer(const std::atomic<bool>& over) {
    EXPECT_TRUE(soon([&] {
      std::array<unsigned char, 512> message{};
      sockaddr_in from{};
      socklen_t length = sizeof from;
      const ssize_t n = ::recvfrom(fd_, message.data(), message.size(), MSG_DONTWAIT,
                                   reinterpret_cast<sockaddr*>(&from), &length);
      if (n < 12) return over.load();
      message[2] |= 0x80;
      message[3] = 3;
      (void)::sendto(fd_, message.data(), static_cast<size_t>(n), 0, reinterpret_cast<sockaddr*>(&from), length);
      return false;
    }));
  }

 private:
  bool in_place_of(const std::string& path, const std::string& text) {
    const std::string file = directory_ / path.substr(5);
    std::ofstream(file) << text;
    return ::mount(file.c_str(), path.c_str(), nullptr, MS_BIND, nullptr) == 0;
  }
  bool loopback_up() const {
    ifreq request{};
    request.ifr_name[0] = 'l';
    request.ifr_name[1] = 'o';
    request.ifr_flags = IFF_UP;
    return ::ioctl(fd_, SIOCSIFFLAGS, &request) == 0;
  }
  bool listen() const {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(53);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return ::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }

  const TemporaryDirectory directory_;
  int fd_ = -1;
};

TEST(EtcdFaults, a_silent_name_service_holds_up_no_deadline) {
  std::thread([] {
    SilentNames names;
    if (!names.begin()) GTEST_SKIP() << "names of one's own take root";
    std::atomic<bool> known{false};
    std::thread asks_too([&known] {
      addrinfo* found = nullptr;
      if (::getaddrinfo("etcd.invalid", "2379", nullptr, &found) == 0) ::freeaddrinfo(found);
      known = true;
    });
    AskedEtcd asked(access_to("http://etcd.invalid:2379"), 300 * kMillisecond_ns);
    EXPECT_TRUE(fails_with(asked.read("r0"), {"did not answer within"}));
    EXPECT_FALSE(known) << "whoever asks for a name at the same time waits still";
    asked.end();
    EXPECT_FALSE(known) << "nor does the witness' end wait for that";
    names.answer(known);
    asks_too.join();
  }).join();
}

TEST(EtcdFaults, whoever_answered_last_is_asked_first) {
  FakeServer bad(always(503, R"({"error":"etcdserver: no leader"})"));
  FakeServer good(always(200, kNothing));
  AskedEtcd asked(access_to_both(bad.url(), good.url()));
  EXPECT_EQ(asked.witness().name(), "etcd at " + bad.url() + ", " + good.url());
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(asked.read("r0").ok());
  EXPECT_EQ(bad.requests(), 1);
  EXPECT_EQ(good.requests(), 5);
}

TEST(EtcdFaults, a_replacement_that_may_have_been_heard_is_not_sent_again) {
  FakeServer good(always(200, kDone));
  int told = 0;
  for (const std::string& answer : {std::string(), std::string("HTTP/1.1 200 OK\r\n"), FakeServer::http(200, "{}"),
                                    FakeServer::http(503, R"({"error":"etcdserver: request timed out"})"),
                                    std::string(FakeServer::kSilence)}) {
    FakeServer bad(raw(answer));
    AskedEtcd asked(access_to_both(bad.url(), good.url()), answer == FakeServer::kSilence ? kSecond_ns : kLong_ns);
    EXPECT_TRUE(fails_with(asked.replace("r0", 0, kAlpha), {"etcd at " + bad.url()})) << answer;
    EXPECT_EQ(bad.requests(), 1) << answer;
    ++told;
  }
  EXPECT_EQ(good.requests(), 0) << told;
}

TEST(EtcdFaults, a_replacement_that_nobody_heard_goes_to_the_next_one) {
  FakeServer good(always(200, kDone));
  AskedEtcd asked(access_to_both("http://127.0.0.1:" + std::to_string(reserve_port()), good.url()));
  const Result<bool> replaced = asked.replace("r0", 0, kAlpha);
  ASSERT_TRUE(replaced.ok()) << replaced.error().what;
  EXPECT_TRUE(replaced.value());
  EXPECT_EQ(good.requests(), 1);
}

// An etcd with users whose tokens don't live long.
class EtcdTokens : public ::testing::Test {
 protected:
  EtcdTokens() {
    std::ofstream(directory_ / "password") << "secret";
    std::filesystem::permissions(directory_ / "password", std::filesystem::perms::owner_read);
  }
  EtcdAccess access(const std::string& url) {
    EtcdAccess access = access_to(url);
    access.user = "tb";
    access.password_file = directory_ / "password";
    return access;
  }
  // What the n-th authentication gives is taken `uses` times.
  std::string answer(const std::string& request, int uses) {
    if (request.find("POST /v3/auth/authenticate ") == 0) {
      EXPECT_NE(request.find(R"("password":"secret")"), std::string::npos);
      EXPECT_EQ(request.find("Authorization:"), std::string::npos);
      ++tokens_;
      left_ = uses;
      return FakeServer::http(200, "{" + kHeader + R"(,"token":"token-)" + std::to_string(tokens_) + "\"}");
    }
    const bool known = request.find("Authorization: token-" + std::to_string(tokens_) + "\r\n") != std::string::npos;
    if (!known || left_-- <= 0)
      return FakeServer::http(401, R"({"error":"etcdserver: invalid auth token","code":16})");
    return FakeServer::http(200, request.find("request_range") == std::string::npos ? kDone : kNothing);
  }

  const TemporaryDirectory directory_;
  std::atomic<int> tokens_{0};
  int left_ = 0;
};

TEST_F(EtcdTokens, one_is_used_as_long_as_it_is_taken) {
  FakeServer server([this](const std::string& request) { return answer(request, 3); });
  AskedEtcd asked(access(server.url()));
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(asked.read("r0").ok());
    const Result<bool> replaced = asked.replace("r0", 0, kAlpha);
    EXPECT_TRUE(replaced.ok() && replaced.value());
  }
  EXPECT_EQ(tokens_, 4);
}

TEST_F(EtcdTokens, one_that_is_never_taken_is_not_fetched_for_ever) {
  FakeServer server([this](const std::string& request) { return answer(request, 0); });
  AskedEtcd asked(access(server.url()));
  EXPECT_TRUE(fails_with(asked.read("r0"), {"does not take the token that it has given"}));
  EXPECT_EQ(tokens_, 1);
  EXPECT_TRUE(fails_with(asked.replace("r0", 0, kAlpha), {"does not take the token"}));
  EXPECT_EQ(tokens_, 2);
}

TEST_F(EtcdTokens, one_that_is_no_token_is_not_used) {
  FakeServer server([](const std::string&) {
    return FakeServer::http(200, "{" + kHeader + R"(,"token":"a\r\nX-Other: b"})");
  });
  AskedEtcd asked(access(server.url()));
  EXPECT_TRUE(fails_with(asked.read("r0"), {"answers what etcd would not (no token)"}));
  EXPECT_EQ(server.requests(), 1);
}

}  // namespace
}  // namespace twinblock
