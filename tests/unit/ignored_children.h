// As whoever started this program may have it: how children end is told to nobody. For tests.
#pragma once

#include <signal.h>

namespace twinblock {

class IgnoredChildren {
 public:
  IgnoredChildren() : before_(signal(SIGCHLD, SIG_IGN)) {}
  ~IgnoredChildren() { (void)signal(SIGCHLD, before_); }
  IgnoredChildren(const IgnoredChildren&) = delete;
  IgnoredChildren& operator=(const IgnoredChildren&) = delete;

 private:
  void (*const before_)(int);
};

}  // namespace twinblock
