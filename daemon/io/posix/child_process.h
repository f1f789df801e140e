// A program that this process has started, in a session and process group of its own: with nothing open
// but /dev/null, and its output, which comes here; with no signal blocked, ignored or handled; in "/"; one like any other
// where memory is short, whatever the node is (memory.h). It is waited for by its pidfd, so that nobody's SIGCHLD has a part in it. For a thread that may wait.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "io/posix/descriptor.h"

namespace twinblock {

class ChildProcess {
 public:
  // Runs `path` without arguments, in `environment` ("NAME=value") and no other. `input`: its standard input, where that is
  // not to be /dev/null; then it is open as kInputAgain, too, since a shell gives what it starts in the background no standard
  // input, and sudo nothing else.
  static constexpr int kInputAgain = 3;
  static Result<ChildProcess> start(const std::string& path, const std::vector<std::string>& environment,
                                    int input = -1);
  // Ends what still runs of it (SIGKILL), and waits for that as far as it is quick.
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;

  // Readable when it has ended.
  [[nodiscard]] int end_fd() const { return end_.get(); }
  // Its standard output and standard error; they don't block.
  [[nodiscard]] int out_fd() const { return out_.get(); }
  [[nodiscard]] int err_fd() const { return err_.get(); }

  // To it, and to all of its group. Not after wait().
  void signal_group(int signal) const;

  struct End {
    int status = 0;  // exit status, where there is no signal
    int signal = 0;
  };
  // How it ended, once end_fd() is readable. What it has started may live on.
  Result<End> wait();

 private:
  ChildProcess() = default;

  pid_t pid_ = 0;  // 0: waited for
  Descriptor end_;
  Descriptor out_;
  Descriptor err_;
};

}  // namespace twinblock
