#include "io/posix/thread.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

#include <string>
#include <utility>

namespace twinblock {

std::thread start_thread(const char* name, std::function<void()> body) {
  sigset_t blocked;
  sigset_t before;
  sigfillset(&blocked);
  // These come from the thread's own bugs; blocking them would only hide where it happened.
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP})
    sigdelset(&blocked, fault);
  // A thread inherits its mask, so it never runs with signals open.
  pthread_sigmask(SIG_SETMASK, &blocked, &before);
  std::thread thread;
  try {
    thread = std::thread([shown = std::string(name).substr(0, 15), body = std::move(body)] {
      pthread_setname_np(pthread_self(), shown.c_str());
      const sched_param none{};
      if (sched_getscheduler(0) == SCHED_BATCH) (void)sched_setscheduler(0, SCHED_OTHER, &none);
      body();
    });
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

void run_in_batches() {
  const sched_param none{};
  // Refused or not, everything works; only more slowly.
  (void)sched_setscheduler(0, SCHED_BATCH, &none);
}

void take_size_limit_as_error() { ::signal(SIGXFSZ, SIG_IGN); }

void outlive_parent() { prctl(PR_SET_PDEATHSIG, 0); }

}  // namespace twinblock
