#include "io/posix/lone_thread.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

#include "base/checks.h"
#include "io/posix/thread.h"

namespace twinblock {

LoneThread::LoneThread(Loop& loop, const char* name)
    : loop_(loop), name_(name), stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  TB_CHECK(stop_.open(), "out of descriptors");
}

LoneThread::~LoneThread() {
  const uint64_t one = 1;
  TB_CHECK(::write(stop_.get(), &one, sizeof one) == sizeof one, "an eventfd takes a number");
  if (thread_.joinable()) thread_.join();
}

Status LoneThread::start(std::function<void()> work, const std::string& what_for) {
  if (thread_.joinable()) thread_.join();
  try {
    thread_ = start_thread(name_, std::move(work));
  } catch (const std::system_error& error) {
    end();
    return system_error(error.code().value(), "no thread can be started for " + what_for,
                        "see the limits of tasks of this host");
  }
  return ok_status();
}

void LoneThread::post(std::function<void()> said) {
  loop_.post([alive = std::weak_ptr(alive_), said = std::move(said)] {
    if (!alive.expired()) said();
  });
}

}  // namespace twinblock
