#include "io/posix/backing_copies.h"

#include <poll.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/snapshot_name.h"
#include "base/units.h"
#include "io/posix/command_run.h"
#include "io/posix/files.h"
#include "io/posix/monotonic.h"
#include "io/posix/reflink.h"

namespace twinblock {
namespace {

const char* step_name(CopyStep step) {
  switch (step) {
    case CopyStep::kBeforeResync:
      return "before-resync";
    case CopyStep::kAfterResync:
      return "after-resync";
    case CopyStep::kRollback:
      return "rollback";
    case CopyStep::kTakeSnapshot:
      return "snapshot";
    case CopyStep::kKeepSnapshot:
      return "keep-snapshot";
    case CopyStep::kDropSnapshot:
      return "drop-snapshot";
  }
  return "?";
}

std::string named(CopyStep step, const std::string& path) {
  return std::string("the ") + step_name(step) + " command " + path;
}

std::string part_of(const std::string& path) { return path + ".part"; }

// It was told that there is none: nobody else would remove it, and it holds on to what is overwritten.
Status came_too_late(const std::string& path) {
  (void)remove_file(path);
  return Error{path + " came too late", "", ETIMEDOUT};
}

// Of a file, or of the device to which a special file leads; nothing where there is none.
std::optional<std::pair<uint64_t, uint64_t>> identity_of(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  if (S_ISBLK(info.st_mode)) return std::pair<uint64_t, uint64_t>(info.st_rdev, 0);
  return std::pair<uint64_t, uint64_t>(info.st_dev, info.st_ino);
}

}  // namespace

BackingCopies::BackingCopies(Loop& loop, Log& log, Of of, CopyWays ways)
    : log_(log),
      of_(std::move(of)),
      ways_(std::move(ways)),
      backing_is_(identity_of(of_.backing)),
      lock_(of_.lock),
      deadline_(loop.make_timer([this] { at_deadline(); })),
      thread_(loop, "tb-copies") {}

BackingCopies::~BackingCopies() {
  if (step_) step_->given_up = true;
}

CopyWay BackingCopies::way(CopyStep step) const {
  switch (step) {
    case CopyStep::kBeforeResync:
      return ways_.before_resync;
    case CopyStep::kAfterResync:
      return ways_.after_resync;
    case CopyStep::kRollback:
      return ways_.rollback;
    case CopyStep::kKeepSnapshot:
      // A command's copy has its name at once.
      return ways_.snapshot.reflink ? ways_.snapshot : CopyWay{};
    case CopyStep::kTakeSnapshot:
    case CopyStep::kDropSnapshot:
      return ways_.snapshot;
  }
  return {};
}

bool BackingCopies::can(CopyStep step) const { return !way(step).none(); }

std::string BackingCopies::place(CopyStep step, const std::string& name) const {
  if (const CopyWay by = way(step); !by.reflink) return by.command;
  return name.empty() ? of_.backing + ".before-resync" : of_.backing + ".snapshot." + name;
}

void BackingCopies::remove_unfinished() {
  if (!way(CopyStep::kTakeSnapshot).reflink) return;
  const std::filesystem::path backing(of_.backing);
  const std::string head = backing.filename().string() + ".snapshot.";
  std::error_code error;
  std::vector<std::string> left;
  std::filesystem::directory_iterator at(backing.parent_path(), error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    const std::string name = at->path().filename();
    constexpr std::string_view kPart = ".part";
    if (!name.starts_with(head) || !name.ends_with(kPart) || name.size() < head.size() + kPart.size()) continue;
    const size_t bytes = name.size() - head.size() - kPart.size();
    const std::string_view called = std::string_view(name).substr(head.size(), bytes);
    struct stat info {};
    if (is_snapshot_name(called) && ::lstat(at->path().c_str(), &info) == 0 && S_ISREG(info.st_mode))
      left.push_back(at->path());
  }
  for (const std::string& path : left)
    if (const Status gone = remove_file(path); gone)
      log_.log(Severity::kInfo, "removed " + path + ", of a snapshot that was not finished");
    else
      log_.log(Severity::kWarning, "a snapshot that was not finished stays: " + gone.error().what);
}

void BackingCopies::begin(CopyStep step, const std::string& name, Done done) {
  auto next = std::make_shared<Step>(step, name, way(step), monotonic_ns() + ways_.timeout_ns, std::move(done));
  if (next->way.none()) {
    answer(next, ok_status());
    return;
  }
  if (!thread_.claim()) {
    // What it would have dropped is not there yet.
    if (step == CopyStep::kDropSnapshot && step_->name == name) step_->given_up = true;
    answer(next, Error{"the last copy (" + std::string(step_name(step_->step)) + ") is still under way",
                       "try again when it has ended: see dmesg where it does not", EBUSY, Retry::kLater});
    return;
  }
  deadline_->disarm();
  step_ = next;
  if (Status started = thread_.start([this, next] { work(next); }, "a copy of " + of_.backing); !started) {
    answer(next, std::move(started));
    return;
  }
  // A command ends by itself then.
  if (next->way.reflink && step != CopyStep::kRollback) deadline_->arm(ways_.timeout_ns);
}

void BackingCopies::answer(const std::shared_ptr<Step>& step, Status status) {
  thread_.post([this, step, status = std::move(status)] { tell(*step, status); });
}

void BackingCopies::tell(Step& step, const Status& status) {
  if (!step.done) {
    // It was told that there is none.
    if (!status || !step.way.reflink) return;
    const auto ignore = [](const Status&) {};
    if (step.step == CopyStep::kKeepSnapshot) begin(CopyStep::kDropSnapshot, step.name, ignore);
    // What was begun since may have put another one in its place.
    if (&step != step_.get()) return;
    if (step.step == CopyStep::kTakeSnapshot) begin(CopyStep::kDropSnapshot, step.name, ignore);
    if (step.step == CopyStep::kBeforeResync) begin(CopyStep::kAfterResync, "", ignore);
    return;
  }
  if (&step == step_.get()) deadline_->disarm();
  std::exchange(step.done, nullptr)(status);
}

void BackingCopies::at_deadline() {
  step_->given_up = true;
  tell(*step_, Error{"a copy of " + of_.backing + " (" + step_name(step_->step) + ") did not end within " +
                         format_duration(ways_.timeout_ns),
                     "give it more time (timeout in [copies]), or see whether its disk answers (dmesg)", ETIMEDOUT,
                     Retry::kLater});
}

void BackingCopies::work(const std::shared_ptr<Step>& step) {
  std::optional<ChildProcess> left;
  Status status = same_backing();
  if (status) status = step->way.reflink ? by_reflink(*step) : by_command(*step, left);
  // What may still write to the backing comes before anything else that is done to it.
  const bool runs_on = left || (!step->way.reflink && lock_.held());
  const bool waits = runs_on && step->step == CopyStep::kRollback;
  if (!runs_on) thread_.end();
  if (!waits) answer(step, status);
  if (!runs_on) return;
  if (left && waits) log_.log(Severity::kWarning, status.error().what + "; to do: " + status.error().action);
  if (left) wait_for_what_is_left(left, thread_.stop_fd());
  wait_for_descendants(*step);
  thread_.end();
  if (waits) answer(step, status);
}

void BackingCopies::wait_for_descendants(const Step& step) {
  constexpr int kLook_ms = 50;
  pollfd stop{thread_.stop_fd(), POLLIN, 0};
  for (bool told = false; lock_.held() && ::poll(&stop, 1, kLook_ms) <= 0;) {
    if (told || monotonic_ns() < step.deadline_ns) continue;
    told = true;
    log_.log(Severity::kWarning, named(step.step, step.way.command) +
                                     " has started something that does not end, and may still write: see fuser -v " +
                                     of_.lock);
  }
}

// A path may lead elsewhere by now: to another file, or below a mount.
Status BackingCopies::same_backing() const {
  if (!backing_is_ || identity_of(of_.backing) == backing_is_) return ok_status();
  return Error{of_.backing + " is another file than the one that this node has open",
               "put that one back where it was, or restart twinblockd", ESTALE, Retry::kWhenMended};
}

Status BackingCopies::by_reflink(const Step& step) {
  const std::string path = place(step.step, step.name);
  const std::string part = part_of(path);
  switch (step.step) {
    case CopyStep::kBeforeResync: {
      if (Status copied = reflink(of_.backing, part); !copied) return copied;
      bool named = false;
      Status kept = keep_reflink(part, path, true, step.given_up, named);
      if (kept) return step.given_up ? came_too_late(path) : kept;
      (void)remove_file(named ? path : part);  // told as none, too
      return kept;
    }
    case CopyStep::kAfterResync:
      return remove_file(path);
    case CopyStep::kRollback:
      return reflink_onto(path, of_.backing);
    case CopyStep::kTakeSnapshot: {
      if (std::exchange(part_, {}) != part) {
        if (const Result<FileKind> there = file_kind(path); !there || there.value() != FileKind::kMissing)
          return Error{"there is a snapshot " + path, "choose another name, or remove it", EEXIST, Retry::kNotNow};
        if (Status copied = reflink(of_.backing, part); !copied) return copied;
      } else if (Status copied = reflink_again(of_.backing, part); !copied) {
        (void)remove_file(part);
        return copied;
      }
      kept_.clear();
      if (step.given_up) return came_too_late(part);
      part_ = part;
      return ok_status();
    }
    case CopyStep::kKeepSnapshot: {
      part_.clear();
      bool named = false;
      Status kept = keep_reflink(part, path, false, step.given_up, named);
      // It has its name, even if that may not be durable; and perhaps too late.
      if (!named) return kept;
      if (step.given_up) return came_too_late(path);
      kept_ = path;
      return kept;
    }
    case CopyStep::kDropSnapshot:
      part_.clear();
      // Of another file that has this name nothing is known here.
      if (std::exchange(kept_, {}) == path) return remove_file(path);
      return remove_file(part);
  }
  return ok_status();
}

Status BackingCopies::by_command(const Step& step, std::optional<ChildProcess>& left) {
  const std::string& path = step.way.command;
  const std::string name = named(step.step, path);
  if (Status good = check_command(name, path, "[copies]"); !good) return good;
  // A copy that is taken below the page cache lacks what is in there only. Nobody writes meanwhile.
  if (step.step == CopyStep::kTakeSnapshot || step.step == CopyStep::kBeforeResync) {
    const auto backing = FileReader::open(of_.backing);
    if (!backing) return backing.error();
    if (Status flushed = backing.value()->flush(); !flushed) return flushed;
  }
  const Result<int> status = run_command(
      {name, path, std::string(step_name(step.step)) + " command: ", "timeout in [copies]", ways_.timeout_ns,
       &lock_},
      {kCommandPath, "TWINBLOCK_VOLUME=" + of_.volume, "TWINBLOCK_NODE=" + of_.node,
       "TWINBLOCK_BACKING=" + of_.backing, std::string("TWINBLOCK_STEP=") + step_name(step.step),
       "TWINBLOCK_SNAPSHOT=" + step.name,
       // It has a file more open than LVM's programs like.
       "LVM_SUPPRESS_FD_WARNINGS=1"},
      thread_.stop_fd(), log_, step.deadline_ns, left);
  if (!status) return status.error();
  if (status.value() == 0) return ok_status();
  return Error{name + " ended with status " + std::to_string(status.value()), "see its lines in the log", EIO};
}

Status check_copies(const CopyWays& ways, const std::string& backing) {
  const auto check = [](const char* key, const CopyWay& way) {
    if (way.command.empty()) return ok_status();
    return check_command(std::string("the command of ") + key + ", " + way.command + ",", way.command, "[copies]");
  };
  Status good = check("before_resync", ways.before_resync);
  if (good) good = check("snapshot", ways.snapshot);
  if (good) good = check("after_resync", ways.after_resync);
  if (good) good = check("rollback", ways.rollback);
  if (good && ways.before_resync.reflink) good = can_reflink(backing);
  return good;
}

}  // namespace twinblock
