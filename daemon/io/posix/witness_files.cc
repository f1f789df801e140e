#include "io/posix/witness_files.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include <cerrno>
#include <fstream>
#include <iterator>

#include "base/units.h"
#include "io/posix/command_run.h"
#include "io/posix/secret_file.h"

namespace twinblock {
namespace {

constexpr size_t kPasswordBytesMax = 1024;
constexpr size_t kPemBytesMax = kMiB;  // an authority's whole bundle has less
constexpr SecretWords kPasswordWords{
    "password", "write the password of etcd's user into it, readable by its owner only",
    "let it belong to the user who runs the node", "choose another one (`etcdctl user passwd`)"};
constexpr SecretWords kKeyWords{"private key", "put the client's key there, in PEM, readable by its owner only",
                                "let it belong to the user who runs the node",
                                "have another certificate issued"};

gnutls_datum_t datum_of(const std::string& text) {
  return {reinterpret_cast<unsigned char*>(const_cast<char*>(text.data())), static_cast<unsigned>(text.size())};
}

}  // namespace

Status check_fence_command(const std::string& path) {
  return check_command("the fence command " + path, path, "command of [witness]");
}

Result<std::string> read_etcd_password(const std::string& path) {
  Result<std::string> text = read_secret_file(path, kPasswordBytesMax, kPasswordWords);
  if (!text) return text;
  std::string password = text.value().substr(0, text.value().find_first_of("\r\n"));
  if (password.empty()) return Error{"password " + path + " is empty", kPasswordWords.write};
  return password;
}

Status check_certificates(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return system_error(errno, "certificates " + path, "correct [witness], or let this user read it");
  std::string text(kPemBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  gnutls_x509_crt_t* list = nullptr;
  unsigned count = 0;
  const gnutls_datum_t pem = datum_of(text);
  const bool bounded = text.size() <= kPemBytesMax;
  const int error = bounded ? gnutls_x509_crt_list_import2(&list, &count, &pem, GNUTLS_X509_FMT_PEM, 0)
                            : GNUTLS_E_PARSING_ERROR;
  for (unsigned i = 0; error >= 0 && i < count; ++i) gnutls_x509_crt_deinit(list[i]);
  if (error >= 0) gnutls_free(list);
  if (error >= 0 && count > 0) return ok_status();
  return Error{"certificates " + path + ": " + gnutls_strerror(error), "it has to be PEM"};
}

Status check_certificate_key(const std::string& path) {
  const Result<std::string> text = read_secret_file(path, kPemBytesMax, kKeyWords);
  if (!text) return text.error();
  gnutls_x509_privkey_t key = nullptr;
  if (gnutls_x509_privkey_init(&key) != 0) return Error{"out of memory", ""};
  const gnutls_datum_t pem = datum_of(text.value());
  const int error = gnutls_x509_privkey_import2(key, &pem, GNUTLS_X509_FMT_PEM, nullptr, 0);
  gnutls_x509_privkey_deinit(key);
  if (error >= 0) return ok_status();
  return Error{"private key " + path + ": " + gnutls_strerror(error), "it has to be PEM, without a password"};
}

Status check_tls_files(const std::string& ca, const std::string& certificate, const std::string& key) {
  Status good = ok_status();
  for (const std::string& path : {ca, certificate})
    if (good && !path.empty()) good = check_certificates(path);
  return good && !key.empty() ? check_certificate_key(key) : good;
}

}  // namespace twinblock
