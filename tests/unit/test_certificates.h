// An authority of the test's own, and certificates that it signs, as PEM files in a directory of its own.
#pragma once

#include <arpa/inet.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <ctime>
#include <fstream>
#include <string>

#include "temporary_directory.h"

namespace twinblock {

class TestAuthority {
 public:
  TestAuthority() {
    key_ = new_key();
    certificate_ = new_certificate(key_, "an authority", 1);
    check(gnutls_x509_crt_set_basic_constraints(certificate_, 1, -1));
    check(gnutls_x509_crt_set_key_usage(certificate_, GNUTLS_KEY_KEY_CERT_SIGN));
    check(gnutls_x509_crt_sign2(certificate_, certificate_, key_, GNUTLS_DIG_SHA256, 0));
    write(certificate_, "ca.pem");
  }
  ~TestAuthority() {
    gnutls_x509_crt_deinit(certificate_);
    gnutls_x509_privkey_deinit(key_);
  }
  TestAuthority(const TestAuthority&) = delete;
  TestAuthority& operator=(const TestAuthority&) = delete;
  [[nodiscard]] std::string operator/(const std::string& name) const { return directory_ / name; }

  // NAME.pem and NAME.key, for a host with the address `ipv4`, as server and as client.
  void issue(const std::string& name, const std::string& ipv4) const {
    const gnutls_x509_privkey_t key = new_key();
    const gnutls_x509_crt_t certificate = new_certificate(key, name, 2);
    in_addr address{};
    EXPECT_EQ(::inet_pton(AF_INET, ipv4.c_str(), &address), 1);
    check(gnutls_x509_crt_set_subject_alt_name(certificate, GNUTLS_SAN_IPADDRESS, &address, sizeof address,
                                               GNUTLS_FSAN_SET));
    check(gnutls_x509_crt_set_key_usage(certificate, GNUTLS_KEY_DIGITAL_SIGNATURE));
    check(gnutls_x509_crt_set_key_purpose_oid(certificate, GNUTLS_KP_TLS_WWW_SERVER, 0));
    check(gnutls_x509_crt_set_key_purpose_oid(certificate, GNUTLS_KP_TLS_WWW_CLIENT, 0));
    check(gnutls_x509_crt_sign2(certificate, certificate_, key_, GNUTLS_DIG_SHA256, 0));
    write(certificate, name + ".pem");
    gnutls_datum_t text{};
    check(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &text));
    write(text, name + ".key");
    ::chmod((directory_ / (name + ".key")).c_str(), 0600);
    gnutls_x509_crt_deinit(certificate);
    gnutls_x509_privkey_deinit(key);
  }

 private:
  static void check(int error) { EXPECT_GE(error, 0) << gnutls_strerror(error); }
  static gnutls_x509_privkey_t new_key() {
    gnutls_x509_privkey_t key = nullptr;
    check(gnutls_x509_privkey_init(&key));
    check(gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0));
    return key;
  }
  static gnutls_x509_crt_t new_certificate(gnutls_x509_privkey_t key, const std::string& name, char serial) {
    gnutls_x509_crt_t certificate = nullptr;
    check(gnutls_x509_crt_init(&certificate));
    check(gnutls_x509_crt_set_version(certificate, 3));
    check(gnutls_x509_crt_set_serial(certificate, &serial, 1));
    check(gnutls_x509_crt_set_dn(certificate, ("CN=" + name).c_str(), nullptr));
    check(gnutls_x509_crt_set_activation_time(certificate, std::time(nullptr) - 86'400));
    check(gnutls_x509_crt_set_expiration_time(certificate, std::time(nullptr) + 86'400));
    check(gnutls_x509_crt_set_key(certificate, key));
    return certificate;
  }
  void write(gnutls_datum_t& text, const std::string& name) const {
    std::ofstream(directory_ / name).write(reinterpret_cast<const char*>(text.data), text.size);
    gnutls_free(text.data);
  }
  void write(gnutls_x509_crt_t certificate, const std::string& name) const {
    gnutls_datum_t text{};
    check(gnutls_x509_crt_export2(certificate, GNUTLS_X509_FMT_PEM, &text));
    write(text, name);
  }

  const TemporaryDirectory directory_;
  gnutls_x509_privkey_t key_ = nullptr;
  gnutls_x509_crt_t certificate_ = nullptr;
};

}  // namespace twinblock
