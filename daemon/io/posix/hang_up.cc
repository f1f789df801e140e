#include "io/posix/hang_up.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

namespace twinblock {
namespace {

constexpr std::array<int, 4> kStopSignals{SIGTERM, SIGINT, SIGQUIT, SIGHUP};
constexpr int kDescriptorsMax = 65536;

// Written once before the handler is installed; a handler can have no argument of its own.
std::array<struct sigaction, kStopSignals.size()> g_before;
char g_socket_path[sizeof(sockaddr_un{}.sun_path)];
int g_descriptors = 0;  // all are below this
std::atomic<bool> g_stop_requested{false};
std::atomic<int> g_stop_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler sets it");
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

// Only calls that POSIX allows in a signal handler, without `pid`. `how`: as shutdown() has it. `pid`: of whose
// connections; 0: of all. How many there were.
int hang_up(int how, pid_t pid = 0) {
  int found = 0;
  for (int fd = 3; fd < g_descriptors; ++fd) {
    sockaddr_un address{};
    socklen_t length = sizeof address;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) continue;
    if (address.sun_family != AF_UNIX || std::strcmp(address.sun_path, g_socket_path) != 0)
      continue;
    int listening = 0;
    socklen_t size = sizeof listening;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || listening != 0) continue;
    ucred peer{};
    size = sizeof peer;
    if (pid != 0 && (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid != pid)) continue;
    shutdown(fd, how);
    ++found;
  }
  return found;
}

int descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kDescriptorsMax;
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, kDescriptorsMax));
}

void handle_as_before(int signal, siginfo_t* info, void* context) {
  for (size_t i = 0; i < kStopSignals.size(); ++i) {
    if (kStopSignals[i] != signal) continue;
    const struct sigaction& before = g_before[i];
    if ((before.sa_flags & SA_SIGINFO) != 0)
      before.sa_sigaction(signal, info, context);
    else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
      before.sa_handler(signal);
  }
}

void on_stop(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  g_stop_signal.store(signal, std::memory_order_relaxed);
  const bool first = !g_stop_requested.exchange(true, std::memory_order_relaxed);
  const int clients = hang_up(SHUT_RD);
  if (!first || clients == 0) handle_as_before(signal, info, context);
  errno = saved_errno;
}

}  // namespace

bool stop_requested() { return g_stop_requested.load(std::memory_order_relaxed); }

void stop_now() { kill(getpid(), g_stop_signal.load(std::memory_order_relaxed)); }

int hang_up_on(int pid) { return hang_up(SHUT_RD, pid); }

void cut_off_clients() { hang_up(SHUT_RDWR); }

void hang_up_on_stop(const std::string& socket_path) {
  socket_path.copy(g_socket_path, sizeof g_socket_path - 1);
  g_descriptors = descriptor_limit();
  struct sigaction action {};
  action.sa_sigaction = on_stop;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kStopSignals.size(); ++i) {
    sigaction(kStopSignals[i], nullptr, &g_before[i]);
    // A signal that nobody handles keeps its meaning.
    if ((g_before[i].sa_flags & SA_SIGINFO) == 0 &&
        (g_before[i].sa_handler == SIG_DFL || g_before[i].sa_handler == SIG_IGN))
      continue;
    sigaction(kStopSignals[i], &action, nullptr);
  }
}

}  // namespace twinblock
