// A node's NBD server for tests, which serves nothing.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/units.h"
#include "io/posix/descriptor.h"

namespace twinblock {

// Negotiates with all who come, one after the other, and answers no request. As the plugin does, it can serve one
// promotion alone.
class NbdServer {
 public:
  static constexpr uint64_t kSizeBytes = 8 * kMiB;
  static constexpr uint16_t kFlags = 0x16d;

  explicit NbdServer(const std::string& path) : listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
    thread_ = std::thread([this] { serve(); });
  }
  ~NbdServer() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  NbdServer(const NbdServer&) = delete;
  NbdServer& operator=(const NbdServer&) = delete;

  // Whoever asks for another export is refused; "": nobody is.
  void serve_only(const std::string& name) {
    const std::lock_guard lock(mutex_);
    only_ = name;
  }
  // The exports that were asked for.
  std::vector<std::string> asked() {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  static std::string number(uint64_t value, size_t bytes) {
    std::string out;
    for (size_t i = bytes; i-- > 0;) out.push_back(static_cast<char>(value >> (8 * i)));
    return out;
  }
  static std::string reply(uint32_t type, const std::string& payload) {
    return number(0x3e889045565a9, 8) + number(7, 4) + number(type, 4) + number(payload.size(), 4) + payload;
  }
  bool serves(const std::string& name) {
    const std::lock_guard lock(mutex_);
    asked_.push_back(name);
    return only_.empty() || name == only_;
  }
  static void tell(int fd, const std::string& bytes) { (void)::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  void serve() {
    while (true) {
      const Descriptor client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client.open()) return;
      tell(client.get(), "NBDMAGICIHAVEOPT" + number(3, 2));
      std::array<char, 24> asked{};  // flags, an option, and how long the name is, of less than 256 letters
      if (::recv(client.get(), asked.data(), asked.size(), MSG_WAITALL) != std::ssize(asked)) continue;
      std::string name(static_cast<unsigned char>(asked.back()) + 2u, '\0');  // and that nothing more is asked
      if (::recv(client.get(), name.data(), name.size(), MSG_WAITALL) != std::ssize(name)) continue;
      name.resize(name.size() - 2);
      if (!serves(name)) {
        tell(client.get(), reply(0x80000006, ""));
        continue;
      }
      tell(client.get(), reply(3, number(0, 2) + number(kSizeBytes, 8) + number(kFlags, 2)) + reply(1, ""));
      (void)::recv(client.get(), asked.data(), 1, 0);  // until the last one who holds it lets go
    }
  }

  const Descriptor listener_;
  std::mutex mutex_;
  std::string only_;
  std::vector<std::string> asked_;
  std::thread thread_;
};

}  // namespace twinblock
