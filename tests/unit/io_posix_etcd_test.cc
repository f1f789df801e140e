// The witness in an etcd that is one (Debian's etcd-server), in all states that this may be in.
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "io_posix_etcd_support.h"
#include "test_certificates.h"

namespace twinblock {
namespace {

using Json = nlohmann::json;

const WitnessEntry kAlpha{kUuid, 0x1234, "alpha"};
const WitnessEntry kBeta{kUuid, 0x5678, "beta"};

std::string base64(const std::string& text) {
  // The request's own encoding, taken out of it.
  return Json::parse(etcd::read_request(text))["failure"][0]["request_range"]["key"];
}

class EtcdTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kEtcdProgram))
      GTEST_SKIP() << kEtcdProgram << " is not there: packaging/install-dependencies test (Debian's etcd-server)";
  }
  // One for all tests that do it no harm: each has a volume of its own name.
  static EtcdServer& shared() {
    static EtcdServer server;
    return server;
  }
  static void put(const EtcdServer& server, const std::string& key, const std::string& value) {
    server.order("/v3/kv/put", Json{{"key", base64(key)}, {"value", base64(value)}}.dump());
  }
};

TEST_F(EtcdTest, nothing_stands_there_at_first) {
  AskedEtcd asked(access_to(shared().url()));
  const Result<WitnessReading> reading = asked.read("first");
  ASSERT_TRUE(reading.ok()) << reading.error().what;
  EXPECT_FALSE(reading.value().entry.has_value());
  EXPECT_EQ(reading.value().revision, 0);
}

TEST_F(EtcdTest, what_is_written_is_read) {
  AskedEtcd asked(access_to(shared().url()));
  const Result<bool> created = asked.replace("written", 0, kAlpha);
  ASSERT_TRUE(created.ok()) << created.error().what;
  EXPECT_TRUE(created.value());
  const Result<WitnessReading> reading = asked.read("written");
  ASSERT_TRUE(reading.ok()) << reading.error().what;
  EXPECT_EQ(reading.value().entry, kAlpha);
  EXPECT_GT(reading.value().revision, 0);
}

// Both nodes' files are to name the same register; a default etcd on each host has the same cluster id as any other.
TEST_F(EtcdTest, a_register_has_a_mark_that_no_other_one_has) {
  AskedEtcd alpha(access_to(shared().url())), beta(access_to(shared().url()));
  ASSERT_TRUE(alpha.read("marked").ok());
  EXPECT_EQ(alpha.mark(), 0u) << "nothing stands there";
  ASSERT_TRUE(alpha.replace("marked", 0, kAlpha).value());
  const uint64_t mark = alpha.mark();
  EXPECT_NE(mark, 0u);
  EXPECT_FALSE(beta.replace("marked", 0, kBeta).value());
  EXPECT_EQ(beta.mark(), 0u) << "it did not replace it";
  const int64_t revision = beta.read("marked").value().revision;
  EXPECT_EQ(beta.mark(), mark);
  EXPECT_FALSE(beta.read("marked").value().unmarked);
  ASSERT_TRUE(beta.replace("marked", revision, kBeta).value());
  EXPECT_EQ(beta.mark(), mark);
  ASSERT_TRUE(alpha.read("marked").ok());
  EXPECT_EQ(alpha.mark(), mark);
  const EtcdServer other;
  AskedEtcd elsewhere(access_to(other.url()));
  ASSERT_TRUE(elsewhere.read("marked").ok());
  ASSERT_TRUE(elsewhere.replace("marked", 0, kBeta).value());
  EXPECT_NE(elsewhere.mark(), 0u);
  EXPECT_NE(elsewhere.mark(), mark);
}

TEST_F(EtcdTest, only_what_was_read_is_replaced) {
  AskedEtcd asked(access_to(shared().url()));
  ASSERT_TRUE(asked.replace("cas", 0, kAlpha).value());
  EXPECT_FALSE(asked.replace("cas", 0, kBeta).value()) << "something stands there";
  const int64_t first = asked.read("cas").value().revision;
  EXPECT_FALSE(asked.replace("cas", first - 1, kBeta).value());
  EXPECT_FALSE(asked.replace("cas", first + 1, kBeta).value());
  EXPECT_EQ(asked.read("cas").value().entry, kAlpha);
  ASSERT_TRUE(asked.replace("cas", first, kBeta).value());
  EXPECT_FALSE(asked.replace("cas", first, kAlpha).value()) << "of an old reading";
  const WitnessReading now = asked.read("cas").value();
  EXPECT_EQ(now.entry, kBeta);
  EXPECT_GT(now.revision, first);
}

TEST_F(EtcdTest, one_of_two_wins) {
  for (int round = 0; round < 10; ++round) {
    const std::string volume = "race" + std::to_string(round);
    AskedEtcd alpha(access_to(shared().url()));
    AskedEtcd beta(access_to(shared().url()));
    bool won[2] = {};
    std::thread other([&] { won[1] = beta.replace(volume, 0, kBeta).value(); });
    won[0] = alpha.replace(volume, 0, kAlpha).value();
    other.join();
    ASSERT_NE(won[0], won[1]);
    EXPECT_EQ(alpha.read(volume).value().entry, won[0] ? kAlpha : kBeta);
  }
}

TEST_F(EtcdTest, volumes_are_strangers_to_each_other) {
  AskedEtcd asked(access_to(shared().url()));
  WitnessEntry other = kBeta;
  other.volume_uuid = kOtherUuid;
  ASSERT_TRUE(asked.replace("one", 0, kAlpha).value());
  ASSERT_TRUE(asked.replace("two", 0, kBeta).value());
  ASSERT_TRUE(asked.replace("one", 0, other).value()) << "the same name, initialised anew";
  EXPECT_EQ(asked.read("one").value().entry, kAlpha);
  EXPECT_EQ(asked.read("two").value().entry, kBeta);
  EXPECT_EQ(asked.read("one", kOtherUuid).value().entry, other);
}

TEST_F(EtcdTest, what_is_not_ours_is_named_with_its_key) {
  AskedEtcd asked(access_to(shared().url()));
  const std::string key = etcd::key_of("foreign", kUuid);
  put(shared(), key, "something");
  EXPECT_TRUE(fails_with(asked.read("foreign"),
                         {"etcd at " + shared().url(), "no entry of twinblock's", " at " + key,
                          "etcdctl --endpoints=" + shared().url() + " get " + key}));
  WitnessEntry other = kAlpha;
  other.volume_uuid = kOtherUuid;
  put(shared(), key, etcd::entry_text({other, 0}));
  EXPECT_TRUE(fails_with(asked.read("foreign"), {"another volume (" + kOtherUuid + ") at " + key, "get " + key}));
  put(shared(), key, R"({"version":2,"volume":")" + kUuid + "\"}");
  EXPECT_TRUE(fails_with(asked.read("foreign"), {"version 2", key, "newer twinblock"}));
  put(shared(), key, "");
  EXPECT_TRUE(fails_with(asked.read("foreign"), {"no entry of twinblock's", key}));
  shared().order("/v3/kv/deleterange", Json{{"key", base64(key)}}.dump());
  EXPECT_FALSE(asked.read("foreign").value().entry.has_value());
}

TEST_F(EtcdTest, one_that_is_full_says_so_when_it_is_read) {
  EtcdServer server("http", {"--quota-backend-bytes=16384"});
  AskedEtcd asked(access_to(server.url()));
  EXPECT_TRUE(fails_with(asked.replace("r0", 0, kAlpha), {"is full, and takes no writes", "alarm disarm"}));
  EXPECT_TRUE(fails_with(asked.read("r0"), {"is full, and takes no writes", "alarm disarm"}));
}

TEST_F(EtcdTest, one_that_is_away_refuses_and_is_asked_anew_when_it_is_back) {
  EtcdServer server;
  AskedEtcd asked(access_to(server.url()));
  ASSERT_TRUE(asked.replace("r0", 0, kAlpha).value());
  server.kill();
  EXPECT_TRUE(fails_with(asked.read("r0"), {"etcd at " + server.url() + " refused the connection", "systemctl"}));
  EXPECT_TRUE(fails_with(asked.replace("r0", 0, kAlpha), {"refused the connection"}));
  server.start();
  EXPECT_EQ(asked.read("r0").value().entry, kAlpha);
}

TEST_F(EtcdTest, one_that_stands_still_is_not_waited_for_longer_than_said) {
  EtcdServer server;
  AskedEtcd asked(access_to(server.url()), 300 * kMillisecond_ns);
  server.pause();
  const Result<WitnessReading> reading = asked.read("r0");
  EXPECT_TRUE(fails_with(reading, {"etcd at " + server.url() + " did not answer within 300.00 ms", "endpoint health"}));
  EXPECT_TRUE(fails_with(asked.replace("r0", 0, kAlpha), {"did not answer within"}));
  server.resume();
  EXPECT_TRUE(soon([&] { return asked.read("r0").ok(); }));
}

TEST_F(EtcdTest, another_endpoint_answers_for_one_that_does_not) {
  EtcdServer still;
  still.pause();
  EtcdAccess access = access_to("http://127.0.0.1:" + std::to_string(reserve_port()));
  access.endpoints.push_back(still.url());
  access.endpoints.push_back(shared().url());
  {
    AskedEtcd asked(access, 3 * kSecond_ns);
    EXPECT_TRUE(soon([&] { return asked.replace("others", 0, kAlpha).ok() || asked.read("others").ok(); }));
    EXPECT_TRUE(soon([&] { return asked.read("others").ok(); }));
  }
  access.endpoints.pop_back();
  AskedEtcd asked(access, 500 * kMillisecond_ns);
  EXPECT_TRUE(fails_with(asked.read("others"), {"none of etcd's endpoints could be asked", "refused the connection",
                                                still.url() + " did not answer within its share of 500.00 ms"}));
}

TEST_F(EtcdTest, environment_variables_are_no_proxy) {
  ::setenv("http_proxy", "http://127.0.0.1:1", 1);
  ::setenv("ALL_PROXY", "http://127.0.0.1:1", 1);
  AskedEtcd asked(access_to(shared().url()));
  EXPECT_TRUE(asked.read("proxy").ok());
  ::unsetenv("http_proxy");
  ::unsetenv("ALL_PROXY");
}

// An etcd with users, "tb" among them, who may use what is below /twinblock/.
class EtcdUsersTest : public EtcdTest {
 protected:
  void SetUp() override {
    EtcdTest::SetUp();
    if (IsSkipped()) return;
    server_ = std::make_unique<EtcdServer>();
    for (const char* user : {"root", "tb", "nobody"})
      server_->order("/v3/auth/user/add", Json{{"name", user}, {"password", std::string(user) + "-secret"}}.dump());
    for (const char* role : {"root", "writer"}) server_->order("/v3/auth/role/add", Json{{"name", role}}.dump());
    server_->order("/v3/auth/role/grant",
                   Json{{"name", "writer"},
                        {"perm",
                         {{"permType", "READWRITE"},
                          {"key", base64("/twinblock/")},
                          {"range_end", base64("/twinblock0")}}}}
                       .dump());
    server_->order("/v3/auth/user/grant", Json{{"user", "root"}, {"role", "root"}}.dump());
    server_->order("/v3/auth/user/grant", Json{{"user", "tb"}, {"role", "writer"}}.dump());
  }
  void enable() const { server_->order("/v3/auth/enable", "{}"); }
  void write_password(const std::string& text) {
    std::ofstream(directory_ / "password") << text;
    ::chmod((directory_ / "password").c_str(), 0600);
  }
  EtcdAccess access(const std::string& user) {
    EtcdAccess access = access_to(server_->url());
    access.user = user;
    access.password_file = directory_ / "password";
    write_password(user + "-secret\n");
    return access;
  }

  const TemporaryDirectory directory_;
  std::unique_ptr<EtcdServer> server_;
};

TEST_F(EtcdUsersTest, who_may_reads_and_writes) {
  enable();
  AskedEtcd asked(access("tb"));
  const Result<bool> created = asked.replace("r0", 0, kAlpha);
  ASSERT_TRUE(created.ok()) << created.error().what;
  EXPECT_EQ(asked.read("r0").value().entry, kAlpha);
}

TEST_F(EtcdUsersTest, a_token_that_is_forgotten_is_fetched_again) {
  enable();
  AskedEtcd asked(access("tb"));
  ASSERT_TRUE(asked.replace("r0", 0, kAlpha).value());
  server_->kill();  // its tokens are in its memory
  server_->start();
  EXPECT_TRUE(asked.replace("r0", asked.read("r0").value().revision, kBeta).value());
  server_->kill();
  server_->start();
  const Result<bool> stale = asked.replace("r0", 1, kBeta);
  ASSERT_TRUE(stale.ok()) << stale.error().what;
  EXPECT_FALSE(stale.value());
}

TEST_F(EtcdUsersTest, wrong_credentials_are_named) {
  enable();
  AskedEtcd asked(access("tb"));
  write_password("wrong");
  EXPECT_TRUE(fails_with(asked.read("r0"), {"does not know user 'tb' by the password in " + directory_ / "password",
                                            "user passwd tb"}));
  const Result<bool> refused = asked.replace("r0", 0, kAlpha);
  EXPECT_TRUE(fails_with(refused, {"does not know user 'tb'"}));
  EXPECT_EQ(refused.error().what.find("wrong"), std::string::npos) << "no word of the password";
  write_password("tb-secret");
  EXPECT_TRUE(asked.read("r0").ok()) << "mended without a restart";
}

TEST_F(EtcdUsersTest, a_password_that_others_can_read_is_not_used) {
  enable();
  AskedEtcd asked(access("tb"));
  ::chmod((directory_ / "password").c_str(), 0644);
  EXPECT_TRUE(fails_with(asked.read("r0"), {"can be read or changed by other users", "chmod 600"}));
  std::filesystem::remove(directory_ / "password");
  EXPECT_TRUE(fails_with(asked.read("r0"), {"password " + directory_ / "password" + ": No such file"}));
}

TEST_F(EtcdUsersTest, who_may_not_is_told_the_right_that_is_missing) {
  enable();
  AskedEtcd asked(access("nobody"));
  EXPECT_TRUE(fails_with(asked.read("r0"), {"does not let user 'nobody' do that", "role grant-permission"}));
  EXPECT_TRUE(fails_with(asked.replace("r0", 0, kAlpha), {"does not let user 'nobody' do that"}));
}

TEST_F(EtcdUsersTest, who_says_nothing_is_asked_for_a_user) {
  enable();
  AskedEtcd asked(access_to(server_->url()));
  EXPECT_TRUE(fails_with(asked.read("r0"), {"wants to know who asks", "add user and password_file"}));
}

TEST_F(EtcdUsersTest, users_may_be_introduced_later) {
  AskedEtcd asked(access("tb"));
  ASSERT_TRUE(asked.replace("r0", 0, kAlpha).value()) << "nobody is asked yet";
  enable();
  const Result<WitnessReading> reading = asked.read("r0");
  ASSERT_TRUE(reading.ok()) << reading.error().what;
  EXPECT_EQ(reading.value().entry, kAlpha);
}

class EtcdTlsTest : public EtcdTest {
 protected:
  EtcdServer& serve(std::vector<std::string> more = {}) {
    authority_.issue("server", "127.0.0.1");
    more.push_back("--cert-file=" + (authority_ / "server.pem"));
    more.push_back("--key-file=" + (authority_ / "server.key"));
    server_ = std::make_unique<EtcdServer>("https", more);
    return *server_;
  }
  [[nodiscard]] EtcdAccess access() const {
    EtcdAccess access = access_to(server_->url());
    access.ca_file = authority_ / "ca.pem";
    return access;
  }

  const TestAuthority authority_;
  std::unique_ptr<EtcdServer> server_;
};

TEST_F(EtcdTlsTest, it_is_known_by_its_authority) {
  serve();
  AskedEtcd asked(access());
  const Result<bool> created = asked.replace("r0", 0, kAlpha);
  ASSERT_TRUE(created.ok()) << created.error().what;
  EXPECT_EQ(asked.read("r0").value().entry, kAlpha);
}

TEST_F(EtcdTlsTest, a_stranger_is_not_believed) {
  serve();
  const TestAuthority other;
  EtcdAccess wrong = access();
  wrong.ca_file = other / "ca.pem";
  AskedEtcd asked(wrong);
  EXPECT_TRUE(fails_with(asked.read("r0"), {"has a certificate that is not trusted", "ca_file of [witness]"}));
  EXPECT_TRUE(fails_with(asked.replace("r0", 0, kAlpha), {"is not trusted"}));
  EtcdAccess none = access();
  none.ca_file.clear();
  AskedEtcd of_host(none);
  EXPECT_TRUE(fails_with(of_host.read("r0"), {"is not trusted"}));
}

// The host trusts the server's authority, in a mount namespace of the test's own; ca_file names another one.
TEST_F(EtcdTlsTest, the_host_s_authorities_are_not_believed_beside_a_ca_file) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  serve();
  const TestAuthority other;
  const TemporaryDirectory authorities;
  for (const char* name : {"ca.pem", "ca-certificates.crt"})
    std::filesystem::copy_file(authority_ / "ca.pem", authorities / name);
  EtcdAccess wrong = access();
  wrong.ca_file = other / "ca.pem";
  EtcdAccess none = access();
  none.ca_file.clear();
  std::string hindered;
  // Threads that this one starts are where it is.
  std::thread([&] {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount(authorities.path().c_str(), "/etc/ssl/certs", nullptr, MS_BIND, nullptr) != 0) {
      hindered = std::strerror(errno);
      return;
    }
    AskedEtcd of_host(none);
    const Result<WitnessReading> reading = of_host.read("r0");
    EXPECT_TRUE(reading.ok()) << "the host trusts it: " << reading.error().what;
    AskedEtcd asked(wrong);
    EXPECT_TRUE(fails_with(asked.read("r0"), {"has a certificate that is not trusted", "ca_file of [witness]"}));
  }).join();
  if (!hindered.empty()) GTEST_SKIP() << "no mount namespace with other authorities: " << hindered;
}

TEST_F(EtcdTlsTest, a_certificate_for_another_name_is_not_believed) {
  authority_.issue("server", "127.0.0.9");
  server_ = std::make_unique<EtcdServer>(
      "https", std::vector<std::string>{"--cert-file=" + (authority_ / "server.pem"),
                                        "--key-file=" + (authority_ / "server.key")});
  AskedEtcd asked(access());
  EXPECT_TRUE(fails_with(asked.read("r0"), {"has a certificate that is not trusted"}));
}

TEST_F(EtcdTlsTest, a_client_s_certificate_is_shown_where_one_is_wanted) {
  serve({"--client-cert-auth", "--trusted-ca-file=" + (authority_ / "ca.pem")});
  {
    AskedEtcd asked(access());
    // The end of the connection may overtake etcd's word on why; it never answers.
    constexpr int kTriesMax = 100;
    testing::AssertionResult told = testing::AssertionFailure();
    for (int i = 0; i < kTriesMax && !told; ++i) {
      const auto said = asked.read("r0");
      ASSERT_FALSE(said.ok());
      told = fails_with(said, {"does not agree on TLS", "certificate_file and certificate_key_file"});
    }
    EXPECT_TRUE(told);
  }
  authority_.issue("client", "127.0.0.1");
  EtcdAccess with = access();
  with.certificate_file = authority_ / "client.pem";
  with.certificate_key_file = authority_ / "client.key";
  AskedEtcd asked(with);
  const Result<WitnessReading> reading = asked.read("r0");
  EXPECT_TRUE(reading.ok()) << reading.error().what;
}

TEST_F(EtcdTlsTest, files_that_are_missing_are_named) {
  serve();
  EtcdAccess wrong = access();
  wrong.ca_file = "/nowhere/ca.pem";
  {
    AskedEtcd asked(wrong);
    EXPECT_TRUE(fails_with(asked.read("r0"), {"can't be asked: certificates /nowhere/ca.pem: No such file"}));
  }
  wrong = access();
  wrong.certificate_file = "/nowhere/c.pem";
  wrong.certificate_key_file = "/nowhere/c.key";
  AskedEtcd asked(wrong);
  EXPECT_TRUE(fails_with(asked.read("r0"), {"can't be asked: certificates /nowhere/c.pem: No such file"}));
}

TEST_F(EtcdTlsTest, plain_where_tls_is_wanted_and_the_other_way_round) {
  serve();
  EtcdAccess plain = access_to("http" + server_->url().substr(5));
  AskedEtcd asked(plain);
  EXPECT_TRUE(fails_with(asked.read("r0"), {"write https://"}));
  EtcdAccess tls = access();
  tls.endpoints = {"https" + shared().url().substr(4)};
  AskedEtcd other(tls);
  EXPECT_TRUE(fails_with(other.read("r0"), {"does not agree on TLS", "does it speak https"}));
}

}  // namespace
}  // namespace twinblock
