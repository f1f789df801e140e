// [witness] of the file.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/units.h"
#include "config_support.h"

namespace twinblock {
namespace {

constexpr int kFirstLine = 14;  // of what stands below [witness]

std::string file(const std::string& witness) { return minimal_file("\n[witness]\n" + witness); }

WitnessConfig parsed(const std::string& witness) {
  const Result<Config> config = parse_config(file(witness), "r0.toml");
  EXPECT_TRUE(config.ok()) << config.error().what;
  return config.ok() ? config.value().witness : WitnessConfig{};
}

// The error names line `line` below [witness] (0: that itself), and has every one of `parts`.
void expect_refused(const std::string& witness, int line, const std::vector<std::string>& parts) {
  expect_refused_at(file(witness), kFirstLine + line - 1, parts);
}

std::string etcd(const std::string& endpoints, const std::string& more = "") {
  return "kind = \"etcd\"\nendpoints = [" + endpoints + "]\n" + more;
}

constexpr const char* kHttp = "\"http://10.0.0.3:2379\"";
constexpr const char* kHttps = "\"https://10.0.0.3:2379\"";

TEST(Witness, ThereIsNoneUnlessTheFileSaysSo) {
  std::string text = file("");
  text.erase(text.find("[witness]"));
  const Result<Config> config = parse_config(text, "r0.toml");
  ASSERT_TRUE(config.ok()) << config.error().what;
  EXPECT_EQ(config.value().witness, WitnessConfig{});
  EXPECT_EQ(config.value().witness.kind, WitnessKind::kNone);
}

TEST(Witness, EverythingOfEtcdIsRead) {
  const WitnessConfig witness = parsed(etcd(R"("https://10.0.0.3:2379", "https://etcd1.example:2379/")", R"(
user = "twinblock"
password_file = "/etc//twinblock/r0.etcd"
ca_file = "/etc/ssl/ca.pem"
certificate_file = "/etc/ssl/c.pem"
certificate_key_file = "/etc/ssl/c.key"
timeout = "500ms"
)"));
  EXPECT_EQ(witness.kind, WitnessKind::kEtcd);
  EXPECT_EQ(witness.endpoints,
            (std::vector<std::string>{"https://10.0.0.3:2379", "https://etcd1.example:2379"}));
  EXPECT_EQ(witness.user, "twinblock");
  EXPECT_EQ(witness.password_file, "/etc/twinblock/r0.etcd");
  EXPECT_EQ(witness.ca_file, "/etc/ssl/ca.pem");
  EXPECT_EQ(witness.certificate_file, "/etc/ssl/c.pem");
  EXPECT_EQ(witness.certificate_key_file, "/etc/ssl/c.key");
  EXPECT_EQ(witness.timeout_ns, 500 * kMillisecond_ns);
  EXPECT_TRUE(witness.command.empty());
}

TEST(Witness, TheLeastOfEtcdIsItsEndpoints) {
  const WitnessConfig witness = parsed(etcd(kHttp));
  EXPECT_EQ(witness.endpoints, std::vector<std::string>{"http://10.0.0.3:2379"});
  EXPECT_EQ(witness.timeout_ns, 3 * kSecond_ns);
  EXPECT_TRUE(witness.user.empty() && witness.password_file.empty() && witness.ca_file.empty());
}

TEST(Witness, ACommandIsRead) {
  const WitnessConfig witness = parsed("kind = \"command\"\ncommand = \"/etc//twinblock/fence\"\n");
  EXPECT_EQ(witness.kind, WitnessKind::kCommand);
  EXPECT_EQ(witness.command, "/etc/twinblock/fence");
  EXPECT_EQ(witness.timeout_ns, 30 * kSecond_ns);
  EXPECT_EQ(parsed("kind = \"command\"\ncommand = \"/f\"\ntimeout = \"10min\"\n").timeout_ns,
            600 * kSecond_ns);
}

TEST(Witness, TheKindIsNamed) {
  expect_refused("", 0, {"'kind' is missing in [witness]", "kind = \"etcd\""});
  expect_refused("endpoints = [\"http://10.0.0.3:2379\"]\n", 0, {"'kind' is missing"});
  expect_refused("kind = \"zookeeper\"\n", 1, {"'zookeeper'", "\"etcd\" or \"command\""});
  expect_refused("kind = 3\n", 1, {"'kind' is not a text"});
}

TEST(Witness, KeysOfTheOtherKindAreRefused) {
  expect_refused(etcd(kHttp, "command = \"/f\"\n"), 3, {"'command' belongs to a witness of kind \"command\""});
  for (const char* key : {"user", "password_file", "ca_file", "certificate_file", "certificate_key_file"})
    expect_refused(std::string("kind = \"command\"\n") + key + " = \"/x\"\ncommand = \"/f\"\n", 2,
                   {std::string("'") + key + "' belongs to a witness of kind \"etcd\"", "remove it"});
  expect_refused("kind = \"command\"\ncommand = \"/f\"\nendpoints = []\n", 3, {"'endpoints' belongs"});
  expect_refused("kind = \"command\"\ncommand = \"/f\"\nendpoint = []\n", 3, {"did you mean 'endpoints'?"});
}

TEST(Witness, EndpointsAreUrlsOfHostAndPort) {
  const auto only = [](const std::string& url) { return parsed(etcd("\"" + url + "\"")).endpoints.at(0); };
  EXPECT_EQ(only("http://[fd00:0::3]:2379"), "http://[fd00::3]:2379");
  EXPECT_EQ(only("http://Etcd-1.Example:2379/"), "http://etcd-1.example:2379");
  EXPECT_EQ(only("http://localhost:1"), "http://localhost:1");
  for (const char* bad :
       {"10.0.0.3:2379", "ftp://10.0.0.3:2379", "http://10.0.0.3", "http://10.0.0.3:0", "http://10.0.0.3:65536",
        "http://10.0.0.300:2379", "http://fd00::1:2379", "http://etcd1", "http://:2379", "http://etcd1:02379",
        "http://etcd1:port", "http://etcd1:2379/v3", "http://root:secret@etcd1:2379", "http://etcd 1:2379",
        "http://etcd1:2379?x", "http://-etcd1:2379", "HTTP://etcd1:2379", "http://", "", "http://0.0.0.0:2379"})
    expect_refused(etcd("\"" + std::string(bad) + "\""), 2, {bad, "http://10.0.0.3:2379"});
}

TEST(Witness, EndpointsAreAListOfSome) {
  expect_refused("kind = \"etcd\"\n", 0, {"'endpoints' is missing in [witness]", "http://10.0.0.3:2379"});
  expect_refused(etcd(""), 2, {"there is none in 'endpoints'"});
  expect_refused("kind = \"etcd\"\nendpoints = \"http://10.0.0.3:2379\"\n", 2, {"not a list"});
  expect_refused(etcd(R"("http://a:1", "http://A:1")"), 2, {"http://a:1 is there twice"});
  expect_refused(etcd(R"("http://a:1", "https://b:1")"), 2, {"some https"});
  std::string many;
  for (int i = 0; i < 9; ++i) many += "\"http://etcd" + std::to_string(i) + ":2379\", ";
  expect_refused(etcd(many), 2, {"more than 8 endpoints"});
}

TEST(Witness, UserAndPasswordFileBelongTogether) {
  expect_refused(etcd(kHttp, "user = \"u\"\n"), 3, {"'user' needs a password_file", "/etc/twinblock/r0.etcd"});
  expect_refused(etcd(kHttp, "password_file = \"/p\"\n"), 3, {"'password_file' needs a user"});
  expect_refused(etcd(kHttp, "user = \"\"\npassword_file = \"/p\"\n"), 3, {"not the name of a user"});
  expect_refused(etcd(kHttp, "user = \"u\"\npassword_file = \"secret\"\n"), 4, {"not an absolute path"});
}

TEST(Witness, TlsFilesAreForHttps) {
  for (const char* key : {"ca_file", "certificate_file", "certificate_key_file"})
    expect_refused(etcd(kHttp, std::string(key) + " = \"/x\"\n"), 3,
                   {std::string("'") + key + "' is for https", "https://"});
  expect_refused(etcd(kHttps, "certificate_file = \"/x\"\n"), 3, {"belong together", "add certificate_key_file"});
  expect_refused(etcd(kHttps, "certificate_key_file = \"/x\"\n"), 3, {"belong together", "add certificate_file"});
  EXPECT_TRUE(parsed(etcd(kHttps)).ca_file.empty()) << "the host's own authorities";
}

TEST(Witness, TheCommandIsAnAbsolutePath) {
  expect_refused("kind = \"command\"\n", 0, {"'command' is missing in [witness]", "/etc/twinblock/r0.fence"});
  expect_refused("kind = \"command\"\ncommand = \"fence.sh\"\n", 2, {"'fence.sh' is not an absolute path"});
}

TEST(Witness, TimeoutsHaveBounds) {
  for (const char* bad : {"199ms", "61s"})
    expect_refused(etcd(kHttp, "timeout = \"" + std::string(bad) + "\"\n"), 3, {bad, "200ms to 60s"});
  for (const char* bad : {"999ms", "601s"})
    expect_refused("kind = \"command\"\ncommand = \"/f\"\ntimeout = \"" + std::string(bad) + "\"\n", 3,
                   {bad, "1s to 10min"});
  expect_refused(etcd(kHttp, "timeout = 3\n"), 3, {"timeout = \"3s\""});
}

TEST(Witness, ATableIsExpected) {
  std::string text = file("");
  text.erase(text.find("[witness]"));
  const Result<Config> config = parse_config("witness = \"etcd\"\n" + text, "r0.toml");
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.error().what.find("r0.toml:1: 'witness' is not a table"), 0u) << config.error().what;
}

}  // namespace
}  // namespace twinblock
