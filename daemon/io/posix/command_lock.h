// A file that a command has as its standard input (ChildProcess), and that is locked (flock(2)) through that alone: everything
// that the command has started inherits it, also in groups and sessions of its own and beyond the death of this process. So it is
// known whether any of it runs, which may still write to the backing or to a copy, here and when the node starts the
// next time. Any thread; all block a little.
#pragma once

#include <string>

#include "base/result.h"
#include "io/posix/descriptor.h"

namespace twinblock {

class CommandLock {
 public:
  // The file is made when it is first needed; nothing is in it.
  explicit CommandLock(std::string path) : path_(std::move(path)) {}

  // For a command that is about to start: to be its standard input, and closed here then. An error (EBUSY) while anything of an
  // earlier one runs.
  [[nodiscard]] Result<Descriptor> take() const;
  // Whether anything of one runs.
  [[nodiscard]] bool held() const;
  // Ends (SIGKILL) what a command of an earlier process has left running, before this one looks at its disks. An
  // error: something could not be ended.
  [[nodiscard]] Status end_what_is_left() const;

 private:
  const std::string path_;
};

}  // namespace twinblock
