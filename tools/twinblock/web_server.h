// An HTTP server by libmicrohttpd, with a thread of its own, that answers from what it was given last: no request
// waits for anything, and connections, their memory and their silence are bounded.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "twinblock/web_content.h"

namespace twinblock {

class WebServer {
 public:
  // Listens on `address` ("127.0.0.1:7780", "[::1]:7780"); `names` as web_answer() has them.
  static Result<std::unique_ptr<WebServer>> open(const std::string& address, std::vector<std::string> names);
  ~WebServer();
  WebServer(const WebServer&) = delete;
  WebServer& operator=(const WebServer&) = delete;

  // What is answered from now on. Any thread.
  void show(WebFigures figures);

 private:
  struct State;
  explicit WebServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace twinblock
