// A service manager for tests: $NOTIFY_SOCKET leads to it as long as it is there, which has to be longer than whoever may
// tell it something on another thread.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

namespace twinblock {

class ServiceManager {
 public:
  explicit ServiceManager(const std::string& path) {
    sockaddr_un here{};
    here.sun_family = AF_UNIX;
    path.copy(here.sun_path, sizeof here.sun_path - 1);
    socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    EXPECT_EQ(bind(socket_, reinterpret_cast<const sockaddr*>(&here), sizeof here), 0);
    setenv("NOTIFY_SOCKET", path.c_str(), 1);
  }
  ~ServiceManager() {
    unsetenv("NOTIFY_SOCKET");
    close(socket_);
  }
  ServiceManager(const ServiceManager&) = delete;
  ServiceManager& operator=(const ServiceManager&) = delete;

  // The next message; empty: there is none.
  [[nodiscard]] std::string heard() const {
    std::array<char, 256> text{};
    const ssize_t got = recv(socket_, text.data(), text.size(), 0);
    return got <= 0 ? "" : std::string(text.data(), static_cast<size_t>(got));
  }
  // Whether one of those that have come says that the service is ready. Takes them.
  [[nodiscard]] bool heard_ready() const {
    bool ready = false;
    for (std::string text = heard(); !text.empty(); text = heard())
      ready = ready || text.find("READY=1") != std::string::npos;
    return ready;
  }

 private:
  int socket_ = -1;
};

}  // namespace twinblock
