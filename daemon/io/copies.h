// Copies of this node's backing, as the file system takes them (reflink) or a command of the user's does
// ([copies] of the file): a way back before a resync, and snapshots. What they are taken for, and when, is
// decided by volume/. Implemented by io/posix and by the simulator. Loop thread only; nothing here
// blocks it.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"

namespace twinblock {

enum class CopyStep {
  kBeforeResync,  // a copy of the backing as it is, in the place of an older one; it is durable then
  kAfterResync,   // … is not needed any more
  kRollback,      // the backing becomes what that copy holds, and that is durable; the copy stays
  // A snapshot under a name: first the copy alone, while no write is under way; then it is made durable, and
  // has its name; or it is given up, also when it has its name already. A reflink may be taken once before, with
  // writes under way: the next one of that name renews it.
  kTakeSnapshot,
  kKeepSnapshot,
  kDropSnapshot,
};

class Copies {
 public:
  virtual ~Copies() = default;
  // Whether the file says how this step is done.
  [[nodiscard]] virtual bool can(CopyStep step) const = 0;
  // One at a time: an error (EBUSY) while one is under way. `name`: of the snapshot. `done` is called on the loop, never from within begin(), within the time
  // limit of the file (and some 2 s, which it may take to end a command), and not any more when this is
  // gone. ETIMEDOUT: the step is not taken later (a copy that comes late is removed). But what
  // brings a copy back and can't be ended may still write: there is no answer to kRollback before it has
  // ended.
  // An error is a sentence for the operator, and what to do.
  virtual void begin(CopyStep step, const std::string& name, std::function<void(Status)> done) = 0;
  // Where the copy of this step is, or what is run, for users: "/srv/r0.img.before-resync".
  [[nodiscard]] virtual std::string place(CopyStep step, const std::string& name) const = 0;
};

}  // namespace twinblock
