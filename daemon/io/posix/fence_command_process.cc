#include "io/posix/fence_command_process.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/checks.h"
#include "io/posix/command_run.h"
#include "io/posix/monotonic.h"
#include "io/posix/thread.h"
#include "io/posix/witness_files.h"

namespace twinblock {
namespace {

std::string named(const std::string& path) { return "the fence command " + path; }

// DRBD's names stand beside ours, for scripts that people have.
std::vector<std::string> environment_of(const FenceCall& call) {
  const bool v6 = call.peer_address.find(':') != std::string::npos;
  return {kCommandPath,
          "TWINBLOCK_VOLUME=" + call.volume,
          "TWINBLOCK_NODE=" + call.node,
          "TWINBLOCK_PEER=" + call.peer,
          "TWINBLOCK_PEER_ADDRESS=" + call.peer_address,
          std::string("TWINBLOCK_REASON=") + (call.promotion ? "promotion" : "loss"),
          "DRBD_RESOURCE=" + call.volume,
          "DRBD_VOLUME=0",
          "DRBD_PEER=" + call.peer,
          "DRBD_PEERS=" + call.peer,
          "DRBD_PEER_ADDRESS=" + call.peer_address,
          std::string("DRBD_PEER_AF=") + (v6 ? "ipv6" : "ipv4")};
}

}  // namespace

FenceCommandProcess::FenceCommandProcess(Loop& loop, Log& log, std::string path, uint64_t timeout_ns)
    : loop_(loop), log_(log), path_(std::move(path)), timeout_ns_(timeout_ns),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  TB_CHECK(stop_.open(), "out of descriptors");
}

FenceCommandProcess::~FenceCommandProcess() {
  const uint64_t one = 1;
  TB_CHECK(::write(stop_.get(), &one, sizeof one) == sizeof one, "an eventfd takes a number");
  if (thread_.joinable()) thread_.join();
}

void FenceCommandProcess::fence(const FenceCall& call, std::function<void(Result<int>)> done) {
  if (running_.exchange(true)) {
    answer(Error{named(path_) + " still runs", "it is asked again when it has ended", EBUSY}, done);
    return;
  }
  if (thread_.joinable()) thread_.join();
  const uint64_t deadline_ns = monotonic_ns() + timeout_ns_;
  try {
    thread_ = start_thread("tb-fence", [this, call, done, deadline_ns] { work(call, done, deadline_ns); });
  } catch (const std::system_error& error) {
    running_ = false;
    answer(system_error(error.code().value(), "no thread can be started for " + named(path_),
                        "see the limits of tasks of this host"),
           done);
  }
}

void FenceCommandProcess::answer(Result<int> status, const std::function<void(Result<int>)>& done) {
  loop_.post([alive = std::weak_ptr(alive_), done, status = std::move(status)] {
    if (!alive.expired()) done(status);
  });
}

void FenceCommandProcess::work(const FenceCall& call, const std::function<void(Result<int>)>& done,
                               uint64_t deadline_ns) {
  std::optional<ChildProcess> left;
  Status good = check_fence_command(path_);
  Result<int> status =
      good ? run_command({named(path_), path_, "fence command: ", "timeout in [witness]", timeout_ns_},
                         environment_of(call), stop_.get(), log_, deadline_ns, left)
           : Result<int>(good.error());
  if (!left) running_ = false;
  answer(std::move(status), done);
  if (!left) return;
  wait_for_what_is_left(left, stop_.get());
  running_ = false;
}

}  // namespace twinblock
