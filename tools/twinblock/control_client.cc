#include "twinblock/control_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <utility>

#include "base/units.h"
#include "config/config.h"
#include "twinblock/exit_status.h"
#include "twinblock/json_fields.h"

namespace twinblock {
namespace {

using Clock = std::chrono::steady_clock;

// A status with all its links is a few KiB.
constexpr size_t kReplyBytesMax = 4 * kMiB;
// For a request that is only begun: a node that stands still takes it all the same.
constexpr auto kBeginTimeout = std::chrono::milliseconds(200);

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

Error not_there(const std::string& path, const std::string& why) {
  return unreachable("no node answers at " + path + ": " + why,
                     "is it running? Start it with: twinblockd CONFIG (or: systemctl start "
                     "twinblock@VOLUME); name another socket with --socket, or use --config");
}

constexpr const char* kItStandsStill =
    "its process runs, and hangs or was stopped: see its log, and its state (ps; SIGCONT lets one that "
    "was stopped go on)";

// The connection is made by the kernel, also where the process stands still.
Error does_not_answer(const std::string& path, const std::string& why) {
  return unreachable("the node at " + path + " has taken the connection and does not answer: " + why, kItStandsStill);
}

// Who has given up is in the kernel's queue all the same, until the process takes it out.
Error takes_nobody(const std::string& path) {
  return unreachable("the node at " + path + " does not answer: as many wait for it as there is room for",
                     kItStandsStill);
}

Error not_answered_yet(const std::string& path, uint64_t timeout_ns, const std::string& status_command) {
  return Error{"the node at " + path + " has not answered within " + format_duration(timeout_ns) +
                   ", and goes on with what was ordered",
               "see what has come of it: " + status_command, kExitTimedOut};
}

Error not_connected(const std::string& path, int code) {
  if (code == EAGAIN) return takes_nobody(path);
  if (code != EACCES && code != EPERM) return not_there(path, system_error(code, "connect").what);
  return refused("this user may not talk to the node at " + path,
                 "do it as root (sudo twinblock …), as the user that runs the node, or as a member of the "
                 "group twinblock, where the node runs with that");
}

// False when `deadline` passes first, or `listener` goes away.
bool ready(int fd, short events, Clock::time_point deadline, int listener = kNoListener) {
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count() + 1;
    // Of the listener nothing is asked: that it has hung up is told all the same.
    std::array<pollfd, 2> polled{pollfd{fd, events, 0}, pollfd{listener, 0, 0}};
    const int n = poll(polled.data(), polled.size(),
                       static_cast<int>(std::clamp<int64_t>(left, 0, 1'000'000)));
    if (n > 0) return polled[0].revents != 0;
    if (n < 0 && errno == EINTR) continue;
    return false;
  }
}

Status send_all(int fd, const std::string& path, const std::string& text,
                Clock::time_point deadline) {
  size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t n = send(fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n > 0) {
      sent += static_cast<size_t>(n);
    } else if (errno == EAGAIN) {
      if (!ready(fd, POLLOUT, deadline)) return does_not_answer(path, "it does not take the request");
    } else if (errno != EINTR) {
      return not_there(path, std::string(system_error(errno, "send").what));
    }
  }
  return ok_status();
}

// Takes what is there. Whether `line` has a whole line now.
Result<bool> receive_some(int fd, const std::string& path, std::string& line) {
  while (true) {
    char buffer[16384];
    const ssize_t n = recv(fd, buffer, sizeof buffer, 0);
    if (n > 0) {
      line.append(buffer, static_cast<size_t>(n));
      if (line.find('\n') != std::string::npos) return true;
      if (line.size() > kReplyBytesMax)
        return refused(path + " sends more than a node would", "is this a twinblock socket?");
    } else if (n == 0) {
      return not_there(path, "it closed the connection without a reply");
    } else if (errno == EAGAIN) {
      return false;
    } else if (errno != EINTR) {
      return not_there(path, system_error(errno, "receive").what);
    }
  }
}

// `late`: what it means that no whole line has come in time, or that `listener` has gone before.
Result<std::string> receive_line(int fd, const std::string& path, Clock::time_point deadline,
                                 const Error& late, int listener) {
  std::string line;
  while (true) {
    const Result<bool> whole = receive_some(fd, path, line);
    if (!whole) return whole.error();
    if (whole.value()) return line.substr(0, line.find('\n'));
    if (!ready(fd, POLLIN, deadline, listener)) return late;
  }
}

// Of what else is refused no exit status says whether to try again.
bool is_promotion(const std::string& verb) { return verb == "promote"; }

Result<nlohmann::json> parse_reply(const std::string& path, const std::string& line, bool promotion) {
  const nlohmann::json reply = nlohmann::json::parse(line, nullptr, false);
  if (!reply.is_object() || !reply.contains("ok") || !reply["ok"].is_boolean())
    return refused(path + " does not answer like a twinblock node", "is this a twinblock socket?");
  if (reply["ok"].get<bool>()) return reply.value("result", nlohmann::json::object());
  const auto text = [&](const char* key) {
    return reply.contains(key) && reply[key].is_string() ? reply[key].get<std::string>() : "";
  };
  const std::string what = text("error");
  return Error{what.empty() ? "the node refused without a reason" : what, text("action"),
               promotion ? exit_status_of(text("refused")) : kExitRefused};
}

// Connects and sends it: the connection, of which the caller is the owner.
Result<int> send_request(const std::string& socket_path, const std::string& verb,
                         const nlohmann::json& args, Clock::time_point deadline) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof address.sun_path)
    return wrong_usage(socket_path + " is longer than a socket's path can be",
                       "name it relative to the current directory");
  // Where no other directory is an ordinary user's own, he looks into one of /tmp, and anybody could have made that.
  const std::string directory = std::filesystem::path(socket_path).parent_path().string();
  if (directory == default_runtime_dir() && is_somebody_elses(directory))
    return refused(directory + " is not this user's own: whoever made it could answer in the node's place",
                   "remove it, as root if need be, or name the node's socket with --socket");
  socket_path.copy(address.sun_path, socket_path.size());
  Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.fd() < 0) return refused(system_error(errno, "can't make a socket").what);
  while (connect(socket.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    // EAGAIN: more connections wait than the node takes at once.
    if ((errno != EAGAIN && errno != EINTR) || Clock::now() > deadline)
      return not_connected(socket_path, errno);
    usleep(10'000);
  }
  const std::string request = json_text({{"verb", verb}, {"args", args}}) + "\n";
  const Status sent = send_all(socket.fd(), socket_path, request, deadline);
  if (!sent) return sent.error();
  return socket.release();
}

// `late` as above.
Result<nlohmann::json> exchange(const std::string& socket_path, const std::string& verb,
                                const nlohmann::json& args, uint64_t timeout_ns, const Error& late,
                                int listener) {
  const auto deadline = Clock::now() + std::chrono::nanoseconds(timeout_ns);
  const Result<int> sent = send_request(socket_path, verb, args, deadline);
  if (!sent) return sent.error();
  const Socket socket(sent.value());
  const Result<std::string> line = receive_line(socket.fd(), socket_path, deadline, late, listener);
  if (!line) return line.error();
  return parse_reply(socket_path, line.value(), is_promotion(verb));
}

}  // namespace

bool has_hung_up(int fd) {
  pollfd polled{fd, 0, 0};
  return poll(&polled, 1, 0) > 0;
}

Result<nlohmann::json> control_request(const std::string& socket_path, const std::string& verb,
                                       const nlohmann::json& args, uint64_t timeout_ns,
                                       int listener) {
  const Error late = does_not_answer(socket_path, "no reply within " + format_duration(timeout_ns));
  return exchange(socket_path, verb, args, timeout_ns, late, listener);
}

Result<nlohmann::json> control_order(const std::string& socket_path, const std::string& verb,
                                     const nlohmann::json& args, uint64_t timeout_ns,
                                     const std::string& status_command) {
  const Error late = not_answered_yet(socket_path, timeout_ns, status_command);
  return exchange(socket_path, verb, args, timeout_ns, late, kNoListener);
}

Result<int> begin_control_request(const std::string& socket_path, const std::string& verb,
                                  const nlohmann::json& args) {
  return send_request(socket_path, verb, args, Clock::now() + kBeginTimeout);
}

Result<std::optional<nlohmann::json>> read_control_reply(int fd, const std::string& socket_path,
                                                         std::string& received) {
  const Result<bool> whole = receive_some(fd, socket_path, received);
  if (!whole) return whole.error();
  if (!whole.value()) return std::optional<nlohmann::json>();
  Result<nlohmann::json> reply = parse_reply(socket_path, received.substr(0, received.find('\n')), false);
  if (!reply) return reply.error();
  return std::optional<nlohmann::json>(std::move(reply.value()));
}

}  // namespace twinblock
