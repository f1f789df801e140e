#include "io/posix/link_key.h"

#include <fcntl.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <sstream>

#include "base/checks.h"
#include "io/posix/descriptor.h"
#include "io/posix/files.h"
#include "io/posix/secret_file.h"

namespace twinblock {
namespace {

constexpr size_t kFileBytesMax = 4096;
constexpr const char* kDigits = "0123456789abcdef";
constexpr const char* kMakeAnother =
    "write it with `twinblock key new`, or copy the other node's file";
constexpr SecretWords kWords{
    "key", kMakeAnother,
    "make a new key as the user who runs the node: remove it, then `twinblock key new`",
    "make a new one"};

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte each : bytes) {
    text += kDigits[std::to_integer<unsigned>(each) >> 4];
    text += kDigits[std::to_integer<unsigned>(each) & 15];
  }
  return text;
}

std::optional<unsigned> digit_of(char c) {
  const std::string_view digits(kDigits);
  const size_t at = digits.find(c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c);
  if (at == digits.npos) return std::nullopt;
  return static_cast<unsigned>(at);
}

// Of something that only who has the key can have hashed: not of the key alone, which is hashed elsewhere, too.
std::string fingerprint_of(const std::array<std::byte, LinkKey::kBytes>& secret) {
  std::string text = "twinblock link key ";
  text.append(reinterpret_cast<const char*>(secret.data()), secret.size());
  std::array<std::byte, 32> digest{};
  TB_CHECK(gnutls_hash_fast(GNUTLS_DIG_SHA256, text.data(), text.size(), digest.data()) == 0,
           "GnuTLS has no SHA-256");
  std::string print = hex(std::span(digest).first(8));
  for (size_t at : {12, 8, 4}) print.insert(at, 1, '-');
  return print;
}

std::optional<LinkKey> parse_key(const std::string& word) {
  if (word.size() != 2 * LinkKey::kBytes) return std::nullopt;
  LinkKey key;
  for (size_t i = 0; i < LinkKey::kBytes; ++i) {
    const auto high = digit_of(word[2 * i]);
    const auto low = digit_of(word[2 * i + 1]);
    if (!high || !low) return std::nullopt;
    key.secret[i] = static_cast<std::byte>(*high << 4 | *low);
  }
  key.fingerprint = fingerprint_of(key.secret);
  return key;
}

}  // namespace

const LinkKey* find_link_key(const LinkKeys& keys, const std::string& fingerprint) {
  const auto at = std::find_if(keys.begin(), keys.end(), [&](const LinkKey& key) {
    return key.fingerprint == fingerprint;
  });
  return at == keys.end() ? nullptr : &*at;
}

Result<LinkKeys> parse_link_keys(const std::string& text, const std::string& path) {
  LinkKeys keys;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::string where = path + ":" + std::to_string(number) + ": ";
    line.erase(std::min(line.find('#'), line.size()));
    std::istringstream words(line);
    std::string word;
    std::string more;
    if (!(words >> word)) continue;
    const std::optional<LinkKey> key = words >> more ? std::nullopt : parse_key(word);
    if (!key) return Error{where + "not a key, which is 64 hexadecimal digits", kMakeAnother};
    if (find_link_key(keys, key->fingerprint) != nullptr)
      return Error{where + "the same key once more", "remove the line"};
    keys.push_back(*key);
    if (keys.size() > kLinkKeysMax)
      return Error{where + "a third key", "keep the one in use and the next one"};
  }
  if (keys.empty()) return Error{path + ": there is no key in it", kMakeAnother};
  return keys;
}

Result<LinkKeys> read_link_keys(const std::string& path) {
  const Result<std::string> text = read_secret_file(path, kFileBytesMax, kWords);
  return text ? parse_link_keys(text.value(), path) : text.error();
}

LinkKey make_link_key() {
  LinkKey key;
  random_bytes(key.secret);
  key.fingerprint = fingerprint_of(key.secret);
  return key;
}

Status write_link_keys(const std::string& path, const std::string& volume, const LinkKeys& keys) {
  std::string text = "# The key of volume " + volume +
                     "'s links. It belongs on both hosts, and to nobody else: who has it can pose as "
                     "either.\n";
  for (const LinkKey& key : keys) text += hex(key.secret) + "  # " + key.fingerprint + "\n";
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.open())
    return system_error(errno, "key " + path,
                        errno == EEXIST ? "nothing was changed: the key that is there may be in use; "
                                          "remove it first if it is not wanted"
                                        : "");
  if (::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::fsync(file.get()) == 0)
    return sync_name(path);
  const int error = errno;
  ::unlink(path.c_str());
  return system_error(error, "key " + path);
}

Status replace_link_keys(const std::string& path, const std::string& volume, const LinkKeys& keys) {
  const std::string fresh = path + ".new";
  struct stat old {};
  if (::stat(path.c_str(), &old) != 0) return system_error(errno, "key " + path);
  ::unlink(fresh.c_str());  // what an earlier one left that was cut off
  if (Status written = write_link_keys(fresh, volume, keys); !written) return written;
  // The node may run as another user than who changes the key.
  if (::chown(fresh.c_str(), old.st_uid, old.st_gid) == 0 &&
      ::rename(fresh.c_str(), path.c_str()) == 0)
    return sync_name(path);
  const int error = errno;
  ::unlink(fresh.c_str());
  return system_error(error, "key " + path);
}

}  // namespace twinblock
