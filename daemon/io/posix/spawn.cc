#include "io/posix/spawn.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "io/posix/descriptor.h"

namespace twinblock {

void listen_to_children() {
  struct sigaction now {};
  if (::sigaction(SIGCHLD, nullptr, &now) != 0) return;
  if (now.sa_handler != SIG_IGN && (now.sa_flags & SA_NOCLDWAIT) == 0) return;
  now.sa_flags &= ~SA_NOCLDWAIT;
  if (now.sa_handler == SIG_IGN) now.sa_handler = SIG_DFL;
  (void)::sigaction(SIGCHLD, &now, nullptr);
}

Result<pid_t> spawn(const char* path, Become become, const void* start) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_error(errno, "no pipe for its start");
  const Descriptor told(ends[0]);
  Descriptor tells(ends[1]);
  listen_to_children();
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::vfork();  // NOLINT(clang-analyzer-security.insecureAPI.vfork)
  if (pid == 0) {
    become(start);  // NOLINT(clang-analyzer-unix.Vfork)
    const int error = errno;
    (void)!::write(ends[1], &error, sizeof error);
    ::_exit(EXIT_FAILURE);
  }
  const int failure = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return system_error(failure, path);
  tells.reset();
  // Nothing, where exec() has closed it.
  int error = 0;
  ssize_t n = 0;
  do n = ::read(told.get(), &error, sizeof error);
  while (n < 0 && errno == EINTR);
  if (n != sizeof error) return pid;
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return system_error(error, path);
}

}  // namespace twinblock
