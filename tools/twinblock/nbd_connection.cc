#include "twinblock/nbd_connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/units.h"
#include "twinblock/exit_status.h"

namespace twinblock {
namespace {

bool ready(int fd, short events, uint64_t deadline_ns) {
  while (true) {
    const uint64_t now_ns = steady_now_ns();
    const uint64_t left_ns = deadline_ns - std::min(deadline_ns, now_ns);
    pollfd polled{fd, events, 0};
    const int n = poll(&polled, 1, static_cast<int>(left_ns / kMillisecond_ns));
    if (n < 0 && errno == EINTR) continue;
    return n > 0;
  }
}

// How long connect() waits where more connections wait than the server takes; 0: without end.
void wait_to_connect(int fd, uint64_t timeout_ns) {
  const timeval limit{.tv_sec = static_cast<time_t>(timeout_ns / kSecond_ns),
                      .tv_usec = static_cast<suseconds_t>(timeout_ns % kSecond_ns / 1000)};
  (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

Status send_all(int fd, const std::string& bytes) {
  // A few dozen bytes, which a fresh socket has room for.
  const ssize_t n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (n == static_cast<ssize_t>(bytes.size())) return ok_status();
  return unreachable(system_error(errno, "can't send to the node's NBD socket").what);
}

}  // namespace

Result<NbdConnection> NbdConnection::open(const std::string& socket_path,
                                          const std::string& export_name, uint64_t timeout_ns) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof address.sun_path)
    return refused(socket_path + " is longer than a socket's path can be");
  socket_path.copy(address.sun_path, socket_path.size());
  NbdConnection connection(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connection.fd_ < 0) return refused(system_error(errno, "can't make a socket").what);
  const uint64_t deadline_ns = steady_now_ns() + timeout_ns;
  wait_to_connect(connection.fd_, timeout_ns);
  if (connect(connection.fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    if (errno == EAGAIN) return unreachable("the NBD server at " + socket_path + " takes no connection");
    return unreachable(system_error(errno, "no NBD server at " + socket_path).what);
  }
  wait_to_connect(connection.fd_, 0);  // the kernel, which may be given it, has limits of its own
  ucred server{};
  socklen_t length = sizeof server;
  struct stat info {};
  if (getsockopt(connection.fd_, SOL_SOCKET, SO_PEERCRED, &server, &length) != 0 ||
      fstat(connection.fd_, &info) != 0)
    return refused(system_error(errno, "can't look at the node's NBD socket").what);
  connection.server_ = identify_process(server.pid);
  connection.inode_ = info.st_ino;
  const Status agreed = connection.negotiate(export_name, deadline_ns);
  if (!agreed) return agreed.error();
  return connection;
}

Status NbdConnection::negotiate(const std::string& export_name, uint64_t deadline_ns) {
  NbdHandshake handshake(export_name);
  while (!handshake.done()) {
    if (!ready(fd_, POLLIN, deadline_ns)) return unreachable("the node's NBD server is silent");
    char buffer[4096];
    const ssize_t n = recv(fd_, buffer, sizeof buffer, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return unreachable("the node's NBD server ended the connection");
    const Result<std::string> answer = handshake.take({buffer, static_cast<size_t>(n)});
    if (!answer) return answer.error();
    if (answer.value().empty()) continue;
    if (Status sent = send_all(fd_, answer.value()); !sent) return sent;
  }
  export_ = handshake.result();
  return ok_status();
}

NbdConnection::NbdConnection(NbdConnection&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      export_(other.export_),
      server_(other.server_),
      inode_(other.inode_) {}

NbdConnection& NbdConnection::operator=(NbdConnection&& other) noexcept {
  let_go();
  fd_ = std::exchange(other.fd_, -1);
  export_ = other.export_;
  server_ = other.server_;
  inode_ = other.inode_;
  return *this;
}

NbdConnection::~NbdConnection() { let_go(); }

void NbdConnection::let_go() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

bool unix_socket_exists(const std::string& proc, uint64_t inode) {
  std::ifstream file(proc + "/net/unix");
  std::string line;
  std::getline(file, line);  // the heads of the columns
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string number, count, protocol, flags, type, state, found;
    fields >> number >> count >> protocol >> flags >> type >> state >> found;
    if (found == std::to_string(inode)) return true;
  }
  return false;
}

}  // namespace twinblock
