// Keeps nbdkit 1.32 and 1.33 alive when a client dies with requests in flight. Preloaded into
// nbdkit by twinblockd; newer versions have the fault corrected, and then this does nothing.
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
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace {

using LockMutex = int (*)(pthread_mutex_t*);
using AssertFail = void (*)(const char*, const char*, unsigned, const char*);

// Constant initialisation: other libraries lock before this one's constructors have run.
constinit std::atomic<LockMutex> g_next_lock{nullptr};
constinit thread_local pthread_mutex_t* t_locked_last = nullptr;

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

bool owned_by_this_thread(const pthread_mutex_t* mutex) {
  return mutex != nullptr && mutex->__data.__lock != 0 && mutex->__data.__owner == gettid();
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
