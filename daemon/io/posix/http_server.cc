#include "io/posix/http_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "io/posix/acceptor.h"
#include "io/posix/http_request.h"
#include "io/posix/server_client.h"
#include "io/posix/tcp_address.h"

namespace twinblock {
namespace {

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

struct HttpServer::Client : ServerClient {
  using ServerClient::ServerClient;
  bool answered = false;  // what comes now is read and thrown away
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
      handler_(std::move(handler)),
      limits_(limits),
      acceptor_(std::make_unique<Acceptor>(
          loop, fd, 1, [this](int socket, const TcpAddress&) { accepted(socket); })) {}

HttpServer::~HttpServer() = default;

std::string HttpServer::address() const {
  TcpAddress bound;
  bound.length = sizeof bound.storage;
  if (::getsockname(acceptor_->fd(), bound.get(), &bound.length) != 0) return {};
  return bound.text();
}

void HttpServer::accepted(int fd) {
  // The oldest one is the one that takes longest.
  if (clients_.size() >= limits_.connections) clients_.erase(clients_.begin());
  const uint64_t id = next_id_++;
  auto client = std::make_unique<Client>(
      loop_, fd, [this, id] { read(id); }, [this, id] { write(id); },
      [this, id] { timed_out(id); });
  client->timer->arm(limits_.timeout_ns);
  client->reader.start();
  clients_[id] = std::move(client);
}

void HttpServer::drop(uint64_t id) { clients_.erase(id); }

void HttpServer::read(uint64_t id) {
  Client& client = *clients_.at(id);
  if (!client.receive()) return drop(id);
  if (client.answered) return client.input.clear();
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
  if (!client.send()) return drop(id);
  if (!client.output.empty()) return;
  // Closed with something unread, the connection would be reset, and the answer with it: the client
  // closes first, or the time is over.
  client.writer.stop();
  ::shutdown(client.fd, SHUT_WR);
  client.reader.start();
}

void HttpServer::timed_out(uint64_t id) {
  Client& client = *clients_.at(id);
  if (client.answered || client.input.empty()) return drop(id);
  client.timer->arm(limits_.timeout_ns);
  answer(client, 408);
}

}  // namespace twinblock
