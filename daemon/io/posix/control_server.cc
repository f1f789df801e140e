#include "io/posix/control_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/checks.h"
#include "io/posix/acceptor.h"
#include "io/posix/server_client.h"
#include "io/posix/users_group.h"

namespace twinblock {
namespace {

Status socket_address(const std::string& path, sockaddr_un& address) {
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return Error{"the socket path " + path + " is too long (" + std::to_string(path.size()) +
                     " bytes, at most " + std::to_string(sizeof address.sun_path - 1) + ")",
                 "set a shorter `runtime` directory for this node", ENAMETOOLONG};
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return ok_status();
}

// Removes a socket that nobody listens on.
Status remove_stale(const std::string& path, const sockaddr_un& address) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return ok_status();
    return system_error(errno, "stat " + path);
  }
  if (!S_ISSOCK(status.st_mode))
    return Error{path + " exists and is not a socket", "move it away", EEXIST};
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return system_error(errno, "socket");
  const int error =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
  ::close(fd);
  if (error == ENOENT) return ok_status();
  if (error != ECONNREFUSED)
    return Error{"another process listens on " + path, "stop it first: a node can run only once",
                 EADDRINUSE};
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    return system_error(errno, "remove the stale socket " + path);
  return ok_status();
}

std::string error_line(const std::string& error) {
  // The texts are ours and hold nothing that JSON would escape.
  return R"({"ok":false,"error":")" + error + R"(","action":""})";
}

// Whether the other side has closed its socket. One that has only said that it sends no more has
// not.
bool has_gone(int fd) {
  pollfd poll_fd{fd, 0, 0};
  return ::poll(&poll_fd, 1, 0) > 0 && (poll_fd.revents & (POLLHUP | POLLERR)) != 0;
}

bool may_control(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == 0 || peer.uid == ::geteuid() || from_users_group(fd);
}

}  // namespace

struct ControlServer::Client : ServerClient {
  using ServerClient::ServerClient;
  [[nodiscard]] bool idle() const { return !answering && input.empty() && output.empty(); }

  bool answering = false;  // a request is with the handler
  bool closing = false;    // to be closed once the output has left
};

Result<std::unique_ptr<ControlServer>> ControlServer::open(Loop& loop, const std::string& path,
                                                           Handler handler, ControlLimits limits,
                                                           Dropped dropped) {
  sockaddr_un address{};
  Status prepared = socket_address(path, address);
  if (prepared.ok()) prepared = remove_stale(path, address);
  if (!prepared.ok()) return prepared.error();
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return system_error(errno, "socket");
  // bind() gives the file the mode of the socket, so it is never open to others.
  if (::fchmod(fd, 0600) != 0 ||
      ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int error = errno;
    ::close(fd);
    return system_error(error, "bind the control socket " + path);
  }
  Status ready = open_to_users_group(path);
  if (ready && ::listen(fd, static_cast<int>(limits.connections)) != 0)
    ready = system_error(errno, "listen on " + path);
  if (!ready) {
    ::close(fd);
    ::unlink(path.c_str());
    return ready.error();
  }
  return std::unique_ptr<ControlServer>(
      new ControlServer(loop, path, fd, std::move(handler), limits, std::move(dropped)));
}

ControlServer::ControlServer(Loop& loop, std::string path, int fd, Handler handler,
                             ControlLimits limits, Dropped dropped)
    : loop_(loop),
      path_(std::move(path)),
      handler_(std::move(handler)),
      limits_(limits),
      dropped_(std::move(dropped)),
      acceptor_(std::make_unique<Acceptor>(
          loop, fd, 1, [this](int socket, const TcpAddress&) { accepted(socket); })),
      self_(std::make_shared<ControlServer*>(this)) {}

ControlServer::~ControlServer() {
  // What was answered last still leaves, as far as the sockets take it.
  for (const auto& [id, client] : clients_)
    if (!client->output.empty()) (void)client->send();
  ::unlink(path_.c_str());
}

void ControlServer::accepted(int fd) {
  const bool room = make_room();
  const uint64_t id = next_id_++;
  auto owned = std::make_unique<Client>(
      loop_, fd, [this, id] { read(id); }, [this, id] { write(id); },
      [this, id] { timed_out(id); });
  Client& client = *owned;
  if (!room) {
    // One line that fits any socket's buffer; if it does not leave, the close says enough.
    const std::string line = error_line("too many control connections") + "\n";
    (void)!::send(fd, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return;
  }
  clients_[id] = std::move(owned);
  if (!may_control(fd)) return fail(client, "permission denied");
  update(client);
}

// Whether one more client may stay; the oldest that waits for nothing, or that has gone while it
// waited for an answer, gives way.
bool ControlServer::make_room() {
  if (clients_.size() < limits_.connections) return true;
  for (auto it = clients_.begin(); it != clients_.end(); ++it) {
    if (!it->second->idle() && !has_gone(it->second->fd)) continue;
    clients_.erase(it);
    return true;
  }
  return false;
}

// Watches what the client's state calls for.
void ControlServer::update(Client& client) {
  const bool sends = !client.output.empty();
  const bool reads = !sends && !client.answering && !client.closing;
  if (reads)
    client.reader.start();
  else
    client.reader.stop();
  if (sends)
    client.writer.start();
  else
    client.writer.stop();
  if (!sends && (client.answering || client.input.empty()))
    client.timer->disarm();
  else if (!client.timer->armed())
    client.timer->arm(limits_.timeout_ns);
}

void ControlServer::drop(uint64_t id) { clients_.erase(id); }

void ControlServer::read(uint64_t id) {
  Client& client = *clients_.at(id);
  if (!client.receive()) return drop(id);
  next_request(id);
}

// Hands over the first whole line, if any. The client may be gone afterwards.
void ControlServer::next_request(uint64_t id) {
  Client& client = *clients_.at(id);
  const size_t newline = client.input.find('\n');
  if (std::min(newline, client.input.size()) > limits_.request_bytes)
    return fail(client,
                "a request may have " + std::to_string(limits_.request_bytes) + " bytes at most");
  if (newline == std::string::npos) return update(client);
  std::string request = client.input.substr(0, newline);
  if (has_gone(client.fd)) {
    drop(id);
    if (dropped_) dropped_(request);
    return;
  }
  client.input.erase(0, newline + 1);
  client.answering = true;
  client.timer->disarm();
  update(client);
  handler_(std::move(request), Reply(self_, id));
}

void ControlServer::Reply::operator()(std::string response) const {
  if (const auto server = server_.lock()) (*server)->respond(client_, std::move(response));
}

bool ControlServer::Reply::gone() const {
  const auto server = server_.lock();
  if (server == nullptr) return true;
  const auto found = (*server)->clients_.find(client_);
  return found == (*server)->clients_.end() || has_gone(found->second->fd);
}

void ControlServer::respond(uint64_t id, std::string response) {
  const auto found = clients_.find(id);
  if (found == clients_.end() || !found->second->answering) return;
  Client& client = *found->second;
  client.answering = false;
  client.output = std::move(response);
  client.output += '\n';
  update(client);
}

// Sends `error` and closes, whatever else was coming.
void ControlServer::fail(Client& client, const std::string& error) {
  client.input.clear();
  client.answering = false;
  client.closing = true;
  client.output = error_line(error) + "\n";
  client.timer->disarm();
  update(client);
}

void ControlServer::write(uint64_t id) {
  Client& client = *clients_.at(id);
  if (!client.send()) return drop(id);
  if (!client.output.empty()) return;
  client.timer->disarm();
  if (client.closing) return drop(id);
  next_request(id);
}

void ControlServer::timed_out(uint64_t id) {
  Client& client = *clients_.at(id);
  if (!client.output.empty()) return drop(id);  // it does not read
  fail(client, "the request was not finished in time");
}

}  // namespace twinblock
