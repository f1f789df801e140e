// The control socket: a Unix stream socket on which a client sends requests, one line each, and
// gets one line back for each, in order. What the lines mean is the handler's business. Loop only,
// or before it runs. Never blocks; memory is bounded: a client's next request is read once its last
// response has left. What a client had asked for that closed its socket before it began is dropped: an
// order that was withdrawn is not carried out because the node stood still. (Who only says that it
// sends no more is answered.) One that goes later can be told by the handler: Reply::gone().
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/limits.h"
#include "base/result.h"
#include "io/posix/loop.h"

namespace twinblock {

class Acceptor;

struct ControlLimits {
  size_t request_bytes = limits::kControlRequestBytesMax;
  size_t connections = limits::kControlConnectionsMax;
  // For the rest of a request of which a part has come, and for taking a response.
  uint64_t timeout_ns = limits::kControlRequestTimeout_ns;
};

class ControlServer {
 public:
  // Where the answer to a request goes. Loop only.
  class Reply {
   public:
    // Once; it does nothing when the client or the server has gone.
    void operator()(std::string response) const;
    // Whether the client has closed its socket. One that has only said that it sends no more has not.
    [[nodiscard]] bool gone() const;

   private:
    friend class ControlServer;
    Reply(std::weak_ptr<ControlServer*> server, uint64_t client) : server_(std::move(server)), client_(client) {}

    std::weak_ptr<ControlServer*> server_;
    uint64_t client_;
  };
  // Gets one request without its newline. `reply` is called once, now or later, on the loop, with a
  // response without newline.
  using Handler = std::function<void(std::string request, Reply reply)>;
  // Is told of a request that was dropped, since who gave it had gone before it began.
  using Dropped = std::function<void(const std::string& request)>;

  // Listens on `path`, for this user and root only. A socket that a dead process has left there is
  // replaced; one that somebody listens on is an error.
  static Result<std::unique_ptr<ControlServer>> open(Loop& loop, const std::string& path,
                                                     Handler handler, ControlLimits limits = {},
                                                     Dropped dropped = {});
  // Closes all connections and removes the socket.
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

 private:
  struct Client;
  ControlServer(Loop& loop, std::string path, int fd, Handler handler, ControlLimits limits,
                Dropped dropped);

  void accepted(int fd);
  [[nodiscard]] bool make_room();
  void drop(uint64_t id);
  void read(uint64_t id);
  void next_request(uint64_t id);
  void respond(uint64_t id, std::string response);
  void fail(Client& client, const std::string& error);
  void write(uint64_t id);
  void timed_out(uint64_t id);
  void update(Client& client);

  Loop& loop_;
  const std::string path_;
  const Handler handler_;
  const ControlLimits limits_;
  const Dropped dropped_;
  uint64_t next_id_ = 1;
  std::map<uint64_t, std::unique_ptr<Client>> clients_;  // oldest first
  std::unique_ptr<Acceptor> acceptor_;
  // Outstanding replies hold this weakly, so that they know when the server is gone.
  std::shared_ptr<ControlServer*> self_;
};

}  // namespace twinblock
