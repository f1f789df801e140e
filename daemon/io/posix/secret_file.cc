#include "io/posix/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "io/posix/descriptor.h"

namespace twinblock {
namespace {

Status check_owner(int fd, const std::string& path, const SecretWords& words) {
  const std::string named = words.name + (" " + path);
  struct stat info {};
  if (::fstat(fd, &info) != 0) return system_error(errno, named);
  if (!S_ISREG(info.st_mode)) return Error{named + " is not a file", words.write};
  if (info.st_uid != 0 && info.st_uid != ::geteuid())
    return Error{named + " belongs to user " + std::to_string(info.st_uid) +
                     ", who can read and change it",
                 words.own};
  if ((info.st_mode & 077) == 0) return ok_status();
  return Error{named + " can be read or changed by other users of this host",
               "chmod 600 " + path + "; if somebody may have read it, " + words.replace};
}

// A node of the unit is root without its capabilities: it opens nobody else's files.
Error why_not_opened(int code, const std::string& path, const SecretWords& words) {
  const std::string named = words.name + (" " + path);
  struct stat info {};
  if (code != EACCES || ::stat(path.c_str(), &info) != 0) return system_error(code, named, words.write);
  const std::string me = std::to_string(::geteuid());
  if (info.st_uid == ::geteuid())
    return system_error(code, named, "chmod 600 " + path);
  return Error{named + " belongs to user " + std::to_string(info.st_uid) + ", and the node, which runs as user " + me +
                   ", can't read it",
               "chown " + me + " " + path + "; if that user should not have it, " + words.replace, code};
}

}  // namespace

Result<std::string> read_secret_file(const std::string& path, size_t bytes_max,
                                     const SecretWords& words) {
  const std::string named = words.name + (" " + path);
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.open()) return why_not_opened(errno, path, words);
  if (Status own = check_owner(file.get(), path, words); !own) return own.error();
  std::string text(bytes_max + 1, '\0');
  const ssize_t got = ::read(file.get(), text.data(), text.size());
  if (got < 0) return system_error(errno, named);
  text.resize(static_cast<size_t>(got));
  if (text.size() > bytes_max) return Error{path + ": too long to be a " + words.name, words.write};
  return text;
}

}  // namespace twinblock
