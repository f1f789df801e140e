// An etcd of the test's own, on loopback, with its data in memory; and an answerer over HTTP that is none.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"
#include "io/posix/http_client.h"
#include "io/posix/monotonic.h"
#include "io_posix_support.h"
#include "reserved_port.h"
#include "temporary_directory.h"

namespace twinblock {

inline constexpr const char* kEtcdProgram = "/usr/bin/etcd";

inline int listen_on_loopback(uint16_t& port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::listen(fd, 16), 0);
  socklen_t length = sizeof address;
  EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length), 0);
  port = ntohs(address.sin_port);
  return fd;
}

class EtcdServer {
 public:
  // `scheme` and `options`: of its clients' port, beside what is the same for all.
  explicit EtcdServer(std::string scheme = "http", std::vector<std::string> options = {})
      : url_(scheme + "://127.0.0.1:" + std::to_string(reserve_port())), options_(std::move(options)) {
    start();
  }
  ~EtcdServer() { kill(); }
  EtcdServer(const EtcdServer&) = delete;
  EtcdServer& operator=(const EtcdServer&) = delete;

  [[nodiscard]] const std::string& url() const { return url_; }
  void start() {
    const std::string peer = "http://127.0.0.1:" + std::to_string(reserve_port());
    std::vector<std::string> words{kEtcdProgram, "--name=t", "--data-dir=" + directory_ / "data",
                                   "--listen-client-urls=" + url_, "--advertise-client-urls=" + url_,
                                   "--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
                                   "--initial-cluster=t=" + peer};
    words.insert(words.end(), options_.begin(), options_.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    const std::string log = directory_ / "log";
    posix_spawn_file_actions_addopen(&files, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    posix_spawn_file_actions_addclosefrom_np(&files, 3);
    ASSERT_EQ(posix_spawn(&pid_, kEtcdProgram, &files, nullptr, arguments.data(), environ), 0);
    posix_spawn_file_actions_destroy(&files);
    bool ended = false;
    ASSERT_TRUE(soon([&] {
      ended = ::waitpid(pid_, nullptr, WNOHANG) != 0;
      return ended || says("ready to serve client requests");
    })) << log_text();
    if (ended) pid_ = 0;
    ASSERT_FALSE(ended) << log_text();
  }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
    std::filesystem::remove(directory_ / "log");
  }
  // Until it stands still: one of its threads has to run once more for that.
  void pause() const {
    ::kill(pid_, SIGSTOP);
    EXPECT_EQ(::waitpid(pid_, nullptr, WUNTRACED), pid_);
  }
  void resume() const { ::kill(pid_, SIGCONT); }

  // As its administrator, by its gateway. The answer's body; `token` may be empty.
  std::string order(const std::string& path, const std::string& body, const std::string& token = "") const {
    HttpClient client({}, 64 * 1024);
    const HttpOutcome outcome = client.post(
        {url_ + path, body, token}, monotonic_ns() + static_cast<uint64_t>(kNever.count()) * kSecond_ns);
    EXPECT_EQ(outcome.status, 200) << path << " " << body << ": " << outcome.body << outcome.detail;
    return outcome.body;
  }

 private:
  [[nodiscard]] std::string log_text() const {
    std::ifstream log(directory_ / "log");
    return {std::istreambuf_iterator<char>(log), {}};
  }
  [[nodiscard]] bool says(const std::string& words) const { return log_text().find(words) != std::string::npos; }

  const TemporaryDirectory directory_;
  const std::string url_;
  const std::vector<std::string> options_;
  pid_t pid_ = 0;
};

// Answers each request by what a function says: all bytes of the answer, after which the connection is
// closed; kSilence: it is held open, and nothing said.
class FakeServer {
 public:
  using Answer = std::function<std::string(const std::string& request)>;
  static constexpr const char* kSilence = "(nothing)";

  explicit FakeServer(Answer answer) : answer_(std::move(answer)), fd_(listen_on_loopback(port_)) {
    thread_ = std::thread([this] { serve(); });
  }
  ~FakeServer() {
    stopping_ = true;
    ::shutdown(fd_, SHUT_RDWR);
    thread_.join();
    for (const int fd : held_) ::close(fd);
    ::close(fd_);
  }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  [[nodiscard]] int requests() const { return requests_; }

  static std::string http(int status, const std::string& body) {
    return "HTTP/1.1 " + std::to_string(status) + " Some words\r\nContent-Type: application/json\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body;
  }

 private:
  void serve() {
    for (;;) {
      const int fd = ::accept(fd_, nullptr, nullptr);
      if (fd < 0 || stopping_) {
        if (fd >= 0) ::close(fd);
        return;
      }
      const std::string request = read_request(fd);
      if (!request.empty()) ++requests_;
      const std::string said = answer_(request);
      if (said == kSilence) {
        held_.push_back(fd);
        continue;
      }
      (void)!::send(fd, said.data(), said.size(), MSG_NOSIGNAL);
      ::shutdown(fd, SHUT_WR);
      drain(fd);
      ::close(fd);
    }
  }
  // Headers and as much as they say.
  static std::string read_request(int fd) {
    std::string text;
    char buffer[4096];
    for (;;) {
      const size_t head = text.find("\r\n\r\n");
      const size_t length = text.find("Content-Length: ");
      if (head != std::string::npos && length < head &&
          text.size() >= head + 4 + std::stoul(text.substr(length + 16)))
        return text;
      const ssize_t n = ::recv(fd, buffer, sizeof buffer, 0);
      if (n <= 0) return text;
      text.append(buffer, static_cast<size_t>(n));
    }
  }
  // A socket that is closed with something left in it is reset, and what was sent is lost.
  static void drain(int fd) {
    char buffer[4096];
    pollfd readable{fd, POLLIN, 0};
    while (::poll(&readable, 1, 1000) == 1 && ::recv(fd, buffer, sizeof buffer, 0) > 0) continue;
  }

  const Answer answer_;
  uint16_t port_ = 0;
  const int fd_;
  std::atomic<int> requests_{0};
  std::atomic<bool> stopping_{false};
  std::vector<int> held_;  // the thread's, then the destructor's
  std::thread thread_;
};

}  // namespace twinblock
