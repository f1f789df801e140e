// The copies of one backing: by reflinks beside it, and by the user's commands. Nothing of a command outlives its step unseen
// (CommandLock): what still runs of one keeps the next step waiting, and what a dead process has left is ended before a node looks at
// its disks (end_what_is_left()). Each step is taken by a thread
// of its own, since both may wait for a disk that hangs. Used and destroyed on the loop, or before and after
// it runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/copy_ways.h"
#include "io/copies.h"
#include "io/log.h"
#include "io/posix/child_process.h"
#include "io/posix/command_lock.h"
#include "io/posix/lone_thread.h"

namespace twinblock {

class BackingCopies final : public Copies {
 public:
  struct Of {
    std::string volume;
    std::string node;
    std::string backing;
    std::string lock;  // a file in the node's runtime directory (CommandLock)
  };
  // What commands write goes to `log`, which takes lines from any thread, as StderrLog does.
  BackingCopies(Loop& loop, Log& log, Of of, CopyWays ways);
  // Ends what runs, as at the deadline; a reflink is waited for.
  ~BackingCopies() override;
  BackingCopies(const BackingCopies&) = delete;
  BackingCopies& operator=(const BackingCopies&) = delete;

  // At the start, when this node has the backing to itself: what a process that was killed has left of a snapshot that
  // it had not finished. Everything else beside the backing is somebody's.
  void remove_unfinished();

  [[nodiscard]] bool can(CopyStep step) const override;
  void begin(CopyStep step, const std::string& name, std::function<void(Status)> done) override;
  [[nodiscard]] std::string place(CopyStep step, const std::string& name) const override;

 private:
  using Done = std::function<void(Status)>;
  // One step that is under way; the thread's and the loop's.
  struct Step {
    CopyStep step;
    std::string name;
    CopyWay way;
    uint64_t deadline_ns;
    Done done;  // the loop's; empty: told
    std::atomic<bool> given_up{false};
  };

  [[nodiscard]] CopyWay way(CopyStep step) const;
  void work(const std::shared_ptr<Step>& step);
  [[nodiscard]] Status by_reflink(const Step& step);
  [[nodiscard]] Status by_command(const Step& step, std::optional<ChildProcess>& left);
  void answer(const std::shared_ptr<Step>& step, Status status);
  void tell(Step& step, const Status& status);
  void at_deadline();
  [[nodiscard]] Status same_backing() const;
  // Until nothing runs any more of what the step's command has started, or this ends.
  void wait_for_descendants(const Step& step);

  Log& log_;
  const Of of_;
  const CopyWays ways_;
  const std::optional<std::pair<uint64_t, uint64_t>> backing_is_;  // as the node has it open
  const CommandLock lock_;
  std::unique_ptr<Timer> deadline_;
  std::shared_ptr<Step> step_;  // the last one
  std::string part_;  // the copy that was taken and is neither kept nor dropped; the thread's
  std::string kept_;  // the last snapshot that got its name; the thread's
  LoneThread thread_;
};

// Whether the copies of the file's [copies] can be taken: the commands are there and nobody else's, and the
// backing's file system takes reflinks. Blocks.
Status check_copies(const CopyWays& ways, const std::string& backing);

}  // namespace twinblock
