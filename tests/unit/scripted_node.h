// A node's control socket for tests: each request goes to a function, whose line is sent back.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace twinblock {

class ScriptedNode {
 public:
  // The line to answer with, without its newline; nothing: not yet, it is asked again a little later.
  // On a thread of its own.
  using Answer = std::function<std::optional<std::string>(const std::string& verb, const nlohmann::json& args)>;

  ScriptedNode(const std::string& path, Answer answer) : path_(path), answer_(std::move(answer)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(listener_, 8), 0);
    EXPECT_EQ(pipe(ending_.data()), 0);
    thread_ = std::thread([this] { run(); });
  }
  // As a process that dies: nobody gets an answer any more.
  ~ScriptedNode() {
    close(ending_[1]);
    thread_.join();
    for (const Client& client : clients_) close(client.fd);
    close(listener_);
    close(ending_[0]);
    unlink(path_.c_str());
  }
  ScriptedNode(const ScriptedNode&) = delete;
  ScriptedNode& operator=(const ScriptedNode&) = delete;

  static std::string good(const nlohmann::json& result) {
    return nlohmann::json{{"ok", true}, {"result", result}}.dump();
  }
  static std::string refusal(const std::string& error, const std::string& refused) {
    return nlohmann::json{{"ok", false}, {"error", error}, {"action", ""}, {"refused", refused}}.dump();
  }

 private:
  static constexpr int kAgainMs = 5;

  struct Client {
    int fd;
    std::string request;
  };

  void run() {
    while (true) {
      std::vector<pollfd> polled{{ending_[0], POLLIN, 0}, {listener_, POLLIN, 0}};
      for (const Client& client : clients_) polled.push_back({client.fd, POLLIN, 0});
      (void)poll(polled.data(), polled.size(), kAgainMs);
      if (polled[0].revents != 0) return;
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd >= 0) clients_.push_back({fd, ""});
      std::erase_if(clients_, [this](Client& client) { return served(client); });
    }
  }

  // … or gone.
  bool served(Client& client) {
    char buffer[4096];
    const ssize_t n = recv(client.fd, buffer, sizeof buffer, 0);
    if (n > 0) client.request.append(buffer, static_cast<size_t>(n));
    if (n != 0) {
      if (client.request.find('\n') == std::string::npos) return false;
      const nlohmann::json request = nlohmann::json::parse(client.request);
      std::optional<std::string> answer = answer_(request["verb"], request["args"]);
      if (!answer) return false;
      *answer += "\n";
      (void)!send(client.fd, answer->data(), answer->size(), MSG_NOSIGNAL);
    }
    close(client.fd);
    return true;
  }

  const std::string path_;
  const Answer answer_;
  std::vector<Client> clients_;
  int listener_ = -1;
  std::array<int, 2> ending_{};
  std::thread thread_;
};

}  // namespace twinblock
