// What `twinblockd --check` makes of the files that a witness needs.
#include "io/posix/witness_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "test_certificates.h"

namespace twinblock {
namespace {

class WitnessFiles : public ::testing::Test {
 protected:
  [[nodiscard]] std::string file(const std::string& text, mode_t mode = 0600) const {
    const std::string path = directory_ / "file";
    std::ofstream(path) << text;
    ::chmod(path.c_str(), mode);
    return path;
  }
  const TemporaryDirectory directory_;
};

template <typename T>
std::string said(const Result<T>& result) {
  return result.ok() ? "fine" : result.error().what + "; " + result.error().action;
}

TEST_F(WitnessFiles, a_password_is_the_first_line) {
  EXPECT_EQ(read_etcd_password(file("secret")).value(), "secret");
  EXPECT_EQ(read_etcd_password(file("a b c\n")).value(), "a b c");
  EXPECT_EQ(read_etcd_password(file("secret\r\nmore\n")).value(), "secret");
  EXPECT_NE(said(read_etcd_password(file("\n"))).find("is empty"), std::string::npos);
  const std::string too_long = said(read_etcd_password(file(std::string(5000, 'x'))));
  EXPECT_NE(too_long.find("too long to be a password"), std::string::npos) << too_long;
}

TEST_F(WitnessFiles, secrets_are_their_owners) {
  const std::string open = said(read_etcd_password(file("secret", 0640)));
  EXPECT_NE(open.find("can be read or changed by other users"), std::string::npos) << open;
  EXPECT_NE(said(read_etcd_password(directory_.path())).find("is not a file"), std::string::npos);
  EXPECT_NE(said(read_etcd_password(directory_ / "none")).find("No such file"), std::string::npos);
  const TestAuthority authority;
  authority.issue("client", "127.0.0.1");
  const std::string key = authority / "client.key";
  const std::string ca = authority / "ca.pem", certificate = authority / "client.pem";
  EXPECT_EQ(said(check_certificate_key(key)), "fine");
  EXPECT_EQ(said(check_tls_files(ca, certificate, key)), "fine");
  ::chmod(key.c_str(), 0644);
  for (const std::string& refused : {said(check_certificate_key(key)), said(check_tls_files(ca, certificate, key))})
    EXPECT_NE(refused.find("private key " + key + " can be read"), std::string::npos) << refused;
  ::unlink(key.c_str());
  EXPECT_NE(said(check_tls_files(ca, certificate, key)).find("No such file"), std::string::npos);
}

TEST_F(WitnessFiles, certificates_are_pem) {
  const TestAuthority authority;
  EXPECT_EQ(said(check_certificates(authority / "ca.pem")), "fine");
  EXPECT_NE(said(check_certificates(directory_ / "none")).find("No such file"), std::string::npos);
  for (const std::string& text : {std::string("hello"), std::string(), std::string(2'000'000, 'x'),
                                  std::string("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")})
    EXPECT_NE(said(check_certificates(file(text))).find("it has to be PEM"), std::string::npos);
  EXPECT_NE(said(check_certificate_key(file("hello"))).find("it has to be PEM"), std::string::npos);
}

}  // namespace
}  // namespace twinblock
