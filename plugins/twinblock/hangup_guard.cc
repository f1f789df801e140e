// Keeps nbdkit 1.32 and 1.33 alive when a client dies with requests in flight. Preloaded into
// nbdkit by twinblockd; newer versions have the faults corrected, and are run without it.
//
// The fault: the worker whose reply the dead client no longer takes marks the connection as dead
// and gives up its sending side (raw_close() sets sockout to -1). A worker that had looked at the
// connection's state before, and then waited for the lock on sending, gets that lock, finds -1 and
// fails `assert (sock >= 0)` in raw_send_socket(): the whole process ends, for all clients. nbdkit
// 1.34 lets the sending fail instead. The worker would then leave raw_send_socket(), release the
// lock, see that the connection is dead and end. Here it does the last two from within the
// assertion. What it leaves behind is a few bytes: its name and, of a query of extents, the list.
//
// The lock on sending can't be asked for, so each thread remembers the mutex that it locked last;
// nbdkit locks no other one between that lock and the assertion. Should this thread not own it,
// or should any other assertion fail, the process ends as ever.
//
// And no client is told of the end of a connection, or of the process, as an error of its request: the kernel's nbd passes
// that on as an I/O error, and a file system may not survive it. A worker of nbdkit 1.32 that has taken the last request
// of a connection looks at the connection's state after it has given the socket to the next one. By then that one may have
// found the end of the connection (io/posix/hang_up.h brings it about), and the request is answered with
// NBD_ESHUTDOWN. Such an answer is not sent. nbdkit is about to close the connection, as soon as its workers have ended; a
// client that comes back sends again what was not answered.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

namespace {

using LockMutex = int (*)(pthread_mutex_t*);
using AssertFail = void (*)(const char*, const char*, unsigned, const char*);
using Send = ssize_t (*)(int, const void*, size_t, int);

// Constant initialisation: other libraries lock before this one's constructors have run.
constinit std::atomic<LockMutex> g_next_lock{nullptr};
constinit thread_local pthread_mutex_t* t_locked_last = nullptr;
constinit std::atomic<Send> g_next_send{nullptr};
// What this thread sends next: nbdkit sends each part of an answer by a call of its own.
enum class Part { kHead, kBytes, kError };
constinit thread_local Part t_part = Part::kHead;
constexpr size_t kSimpleHead = 16, kStructuredHead = 20;
// Of an error whose number is still to come.
constinit thread_local std::array<char, kStructuredHead> t_head{};

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

bool owned_by_this_thread(const pthread_mutex_t* mutex) {
  return mutex != nullptr && mutex->__data.__lock != 0 && mutex->__data.__owner == gettid();
}

uint32_t number_at(const void* bytes, size_t offset) {
  uint32_t number = 0;
  std::memcpy(&number, static_cast<const char*>(bytes) + offset, sizeof number);
  return ntohl(number);
}

ssize_t pass(int fd, const void* bytes, size_t length, int flags) {
  Send send = g_next_send.load(std::memory_order_relaxed);
  if (send == nullptr) {
    send = next<Send>("send");
    g_next_send.store(send, std::memory_order_relaxed);
  }
  return send(fd, bytes, length, flags);
}

// The NBD protocol, "Transmission phase" (https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md).
constexpr uint32_t kSimpleReply = 0x67446698, kStructuredReply = 0x668e33ef, kShutdown = 108;
constexpr uint32_t kErrorTypes = 1u << 15;  // the type stands in the lower half, behind the flags

// What send() answers where nothing, or something else, is sent.
std::optional<ssize_t> send_otherwise(int fd, const void* bytes, size_t length, int flags) {
  const bool more = (flags & MSG_MORE) != 0;
  const Part part = std::exchange(t_part, Part::kHead);
  if (part == Part::kBytes) {
    if (more) t_part = Part::kBytes;
    return std::nullopt;
  }
  if (part == Part::kError) {
    if (length >= sizeof(uint32_t) && number_at(bytes, 0) == kShutdown) return static_cast<ssize_t>(length);
    for (size_t sent = 0; sent < t_head.size();) {
      const ssize_t count = pass(fd, t_head.data() + sent, t_head.size() - sent, MSG_MORE);
      if (count < 0 && errno != EINTR) return count;
      sent += static_cast<size_t>(std::max<ssize_t>(count, 0));
    }
    return std::nullopt;
  }
  if (length == kSimpleHead && number_at(bytes, 0) == kSimpleReply) {
    if (more) t_part = Part::kBytes;
    if (number_at(bytes, 4) == kShutdown) return static_cast<ssize_t>(length);
  } else if (length == kStructuredHead && number_at(bytes, 0) == kStructuredReply && more) {
    t_part = (number_at(bytes, 4) & kErrorTypes) != 0 ? Part::kError : Part::kBytes;
    if (t_part == Part::kError) {
      std::memcpy(t_head.data(), bytes, t_head.size());
      return static_cast<ssize_t>(length);
    }
  }
  return std::nullopt;
}

}  // namespace

// By its presence the plugin knows that the guard is loaded.
extern "C" [[gnu::visibility("default")]] const char twinblock_hangup_guard[] = "loaded";

extern "C" [[gnu::visibility("default")]] int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  LockMutex lock = g_next_lock.load(std::memory_order_relaxed);
  if (lock == nullptr) {
    lock = next<LockMutex>("pthread_mutex_lock");
    g_next_lock.store(lock, std::memory_order_relaxed);
  }
  t_locked_last = mutex;
  return lock(mutex);
}

// Not noexcept, and so declared here: pthread_exit() unwinds the stack through it.
// NOLINTNEXTLINE(bugprone-reserved-identifier): it is glibc's
extern "C" [[noreturn, gnu::visibility("default")]] void __assert_fail(const char* assertion,
                                                                       const char* file,
                                                                       unsigned line,
                                                                       const char* function) {
  pthread_mutex_t* const sending = t_locked_last;
  if (std::strcmp(assertion, "sock >= 0") == 0 && std::strcmp(function, "raw_send_socket") == 0 &&
      owned_by_this_thread(sending)) {
    pthread_mutex_unlock(sending);
    pthread_exit(nullptr);
  }
  if (const auto fail = next<AssertFail>("__assert_fail"); fail != nullptr)
    fail(assertion, file, line, function);
  std::abort();
}

extern "C" [[gnu::visibility("default")]] ssize_t send(int fd, const void* bytes, size_t length, int flags) {
  const std::optional<ssize_t> done = send_otherwise(fd, bytes, length, flags);
  return done ? *done : pass(fd, bytes, length, flags);
}
