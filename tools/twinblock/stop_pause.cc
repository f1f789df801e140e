#include "twinblock/stop_pause.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <vector>

#include "base/units.h"

namespace twinblock {

StopPause::StopPause() {
  sigset_t stops;
  sigemptyset(&stops);
  sigaddset(&stops, SIGTERM);
  sigaddset(&stops, SIGINT);
  pthread_sigmask(SIG_BLOCK, &stops, &before_);
  signals_ = signalfd(-1, &stops, SFD_CLOEXEC | SFD_NONBLOCK);
}

StopPause::~StopPause() {
  if (signals_ >= 0) close(signals_);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

bool StopPause::wait(uint64_t ns, std::initializer_list<int> fds) {
  std::vector<pollfd> polled{pollfd{signals_, POLLIN, 0}};
  for (const int fd : fds) polled.push_back(pollfd{fd, POLLIN, 0});
  const uint64_t ms = (ns + kMillisecond_ns - 1) / kMillisecond_ns;
  (void)poll(polled.data(), polled.size(), static_cast<int>(ms));
  // Taken from the queue, it does not end this program when signals do so again.
  signalfd_siginfo taken{};
  return read(signals_, &taken, sizeof taken) < 0;
}

}  // namespace twinblock
