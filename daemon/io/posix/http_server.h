// A small HTTP/1.1 server for GET: one request a connection, for scrapers of metrics and people
// with curl. Loop only, or before it runs. Never blocks; connections, requests and their time are
// bounded.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/limits.h"
#include "base/result.h"
#include "io/posix/loop.h"

namespace twinblock {

class Acceptor;

struct HttpLimits {
  size_t request_bytes = limits::kHttpRequestBytesMax;
  size_t connections = limits::kHttpConnectionsMax;
  uint64_t timeout_ns = limits::kHttpTimeout_ns;  // from the connection to the answer's last byte
};

class HttpServer {
 public:
  struct Page {
    std::string type;
    std::string body;
  };
  // The page at `path`, on the loop; nullopt: there is none.
  using Handler = std::function<std::optional<Page>(const std::string& path)>;

  // Listens on `address` ("127.0.0.1:9777").
  static Result<std::unique_ptr<HttpServer>> open(Loop& loop, const std::string& address,
                                                  Handler handler, HttpLimits limits = {});
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  // Where it listens; of interest where the port was 0.
  [[nodiscard]] std::string address() const;

 private:
  struct Client;
  HttpServer(Loop& loop, int fd, Handler handler, HttpLimits limits);

  void accepted(int fd);
  void drop(uint64_t id);
  void read(uint64_t id);
  void write(uint64_t id);
  void timed_out(uint64_t id);
  void answer(Client& client, int status);
  void send(Client& client, std::string answer);

  Loop& loop_;
  const Handler handler_;
  const HttpLimits limits_;
  uint64_t next_id_ = 1;
  std::map<uint64_t, std::unique_ptr<Client>> clients_;  // oldest first
  std::unique_ptr<Acceptor> acceptor_;
};

}  // namespace twinblock
