#include "io/posix/fence_command_process.h"

#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "io/posix/command_run.h"
#include "io/posix/monotonic.h"
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
    : log_(log), path_(std::move(path)), timeout_ns_(timeout_ns), thread_(loop, "tb-fence") {}

void FenceCommandProcess::fence(const FenceCall& call, std::function<void(Result<int>)> done) {
  if (!thread_.claim()) {
    answer(Error{named(path_) + " still runs", "it is asked again when it has ended", EBUSY}, done);
    return;
  }
  const uint64_t deadline_ns = monotonic_ns() + timeout_ns_;
  const Status started =
      thread_.start([this, call, done, deadline_ns] { work(call, done, deadline_ns); }, named(path_));
  if (!started) answer(started.error(), done);
}

void FenceCommandProcess::answer(Result<int> status, const std::function<void(Result<int>)>& done) {
  thread_.post([done, status = std::move(status)] { done(status); });
}

void FenceCommandProcess::work(const FenceCall& call, const std::function<void(Result<int>)>& done,
                               uint64_t deadline_ns) {
  std::optional<ChildProcess> left;
  Status good = check_fence_command(path_);
  Result<int> status =
      good ? run_command({named(path_), path_, "fence command: ", "timeout in [witness]", timeout_ns_},
                         environment_of(call), thread_.stop_fd(), log_, deadline_ns, left)
           : Result<int>(good.error());
  if (!left) thread_.end();
  answer(std::move(status), done);
  if (!left) return;
  wait_for_what_is_left(left, thread_.stop_fd());
  thread_.end();
}

}  // namespace twinblock
