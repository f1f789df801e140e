// Copies of a file that share its extents until either is written (FICLONE, ioctl_ficlone(2)): XFS, btrfs,
// bcachefs. All block, for as long as the file system takes, and may be called from any thread.
#pragma once

#include <atomic>
#include <string>

#include "base/result.h"

namespace twinblock {

// What is at `from` at one instant, as the file `to`, which is made, or is emptied before. Not durable yet.
Status reflink(const std::string& from, const std::string& to);
// The same again, into the file that reflink() made: what has not changed since costs next to nothing.
Status reflink_again(const std::string& from, const std::string& to);
// `part`, durable, under its name `to`; in the place of what is there with `replace`. `given_up`: it is removed
// instead, if that is set by then. `named`: it has the name, whatever failed.
Status keep_reflink(const std::string& part, const std::string& to, bool replace,
                    const std::atomic<bool>& given_up, bool& named);
// What is at `from` becomes the contents of the file `onto`, which others may have open; durable. After a
// crash `onto` may hold a part of it.
Status reflink_onto(const std::string& from, const std::string& onto);
// Nothing there is no error.
Status remove_file(const std::string& path);
// Whether the file system of the file `path` can do it: tried with empty files beside it.
Status can_reflink(const std::string& path);

}  // namespace twinblock
