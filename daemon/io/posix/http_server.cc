#include "io/posix/http_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/units.h"
#include "io/posix/http_request.h"
#include "io/posix/io_watcher.h"
#include "io/posix/tcp_address.h"

namespace twinblock {
namespace {

constexpr uint64_t kAcceptPause_ns = 100 * kMillisecond_ns;
constexpr const char* kPlainText = "text/plain; charset=utf-8";

Result<int> listen_on(const TcpAddress& address, size_t backlog) {
  const int fd = ::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return system_error(errno, "socket");
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(fd, address.get(), address.length) == 0 &&
      ::listen(fd, static_cast<int>(backlog)) == 0)
    return fd;
  const int error = errno;
  ::close(fd);
  return system_error(error, "listen for scrapers of metrics on " + address.text(),
                      "choose another address for this node's `metrics`, or leave it out");
}

}  // namespace

struct HttpServer::Client {
  Client(HttpServer& server, int socket, uint64_t number)
      : fd(socket),
        reader(server.loop_, fd, EV_READ, [&server, number] { server.read(number); }),
        writer(server.loop_, fd, EV_WRITE, [&server, number] { server.write(number); }),
        timer(server.loop_.make_timer([&server, number] { server.timed_out(number); })) {}
  ~Client() {
    reader.stop();
    writer.stop();
    ::close(fd);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const int fd;
  std::string input;
  std::string output;
  size_t sent = 0;
  bool answered = false;  // what comes now is read and thrown away
  IoWatcher reader;
  IoWatcher writer;
  std::unique_ptr<Timer> timer;
};

Result<std::unique_ptr<HttpServer>> HttpServer::open(Loop& loop, const std::string& address,
                                                     Handler handler, HttpLimits limits) {
  const Result<TcpAddress> parsed = parse_tcp_address(address);
  if (!parsed) return parsed.error();
  const Result<int> fd = listen_on(parsed.value(), limits.connections);
  if (!fd) return fd.error();
  return std::unique_ptr<HttpServer>(new HttpServer(loop, fd.value(), std::move(handler), limits));
}

HttpServer::HttpServer(Loop& loop, int fd, Handler handler, HttpLimits limits)
    : loop_(loop),
      fd_(fd),
      handler_(std::move(handler)),
      limits_(limits),
      acceptor_(std::make_unique<IoWatcher>(loop, fd, EV_READ, [this] { accept_one(); })),
      pause_(loop.make_timer([this] { acceptor_->start(); })) {
  acceptor_->start();
}

HttpServer::~HttpServer() {
  acceptor_->stop();
  ::close(fd_);
}

std::string HttpServer::address() const {
  TcpAddress bound;
  bound.length = sizeof bound.storage;
  if (::getsockname(fd_, bound.get(), &bound.length) != 0) return {};
  return bound.text();
}

void HttpServer::accept_one() {
  const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) {
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
    acceptor_->stop();  // no file descriptors: the connection stays readable, so don't spin
    return pause_->arm(kAcceptPause_ns);
  }
  // The oldest one is the one that takes longest.
  if (clients_.size() >= limits_.connections) clients_.erase(clients_.begin());
  const uint64_t id = next_id_++;
  auto client = std::make_unique<Client>(*this, fd, id);
  client->timer->arm(limits_.timeout_ns);
  client->reader.start();
  clients_[id] = std::move(client);
}

void HttpServer::read(uint64_t id) {
  Client& client = *clients_.at(id);
  std::array<char, 4 * kKiB> buffer;
  const ssize_t n = ::recv(client.fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    clients_.erase(id);
    return;
  }
  if (client.answered) return;
  client.input.append(buffer.data(), static_cast<size_t>(n));
  const std::optional<HttpRequest> request = parse_http_request(client.input);
  if (!request) {
    if (client.input.size() > limits_.request_bytes) answer(client, 431);
    return;
  }
  if (request->status != 200) return answer(client, request->status);
  const std::optional<Page> page = handler_(request->path);
  if (!page) return answer(client, 404);
  send(client, http_answer(200, page->type, page->body));
}

void HttpServer::answer(Client& client, int status) {
  const char* text = status == 404   ? "there is only /metrics here\n"
                     : status == 405 ? "only GET is understood\n"
                                     : "not an HTTP request that is understood\n";
  send(client, http_answer(status, kPlainText, text));
}

void HttpServer::send(Client& client, std::string answer) {
  client.output = std::move(answer);
  client.answered = true;
  client.input.clear();
  client.reader.stop();
  client.writer.start();
}

void HttpServer::write(uint64_t id) {
  Client& client = *clients_.at(id);
  const ssize_t n = ::send(client.fd, client.output.data() + client.sent,
                           client.output.size() - client.sent, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n < 0) {
    clients_.erase(id);
    return;
  }
  client.sent += static_cast<size_t>(n);
  if (client.sent < client.output.size()) return;
  // Closed with something unread, the connection would be reset, and the answer with it: the client
  // closes first, or the time is over.
  client.writer.stop();
  ::shutdown(client.fd, SHUT_WR);
  client.reader.start();
}

void HttpServer::timed_out(uint64_t id) {
  Client& client = *clients_.at(id);
  if (client.answered || client.input.empty()) {
    clients_.erase(id);
    return;
  }
  client.timer->arm(limits_.timeout_ns);
  answer(client, 408);
}

}  // namespace twinblock
