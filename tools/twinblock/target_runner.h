// Starts and stops what uses a volume where its node is primary, the target: a unit of systemd, or two
// programs. One at a time, without waiting for its end. Not for several threads.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace twinblock {

struct TargetCommands {
  std::string volume;  // what the programs are told
  std::string unit;    // by systemctl, unless …
  std::string start;   // … these are given: absolute paths of programs
  std::string stop;
};

class TargetRunner {
 public:
  explicit TargetRunner(TargetCommands commands) : commands_(std::move(commands)) {}
  // What runs goes on.
  ~TargetRunner();
  TargetRunner(const TargetRunner&) = delete;
  TargetRunner& operator=(const TargetRunner&) = delete;

  // Whether there is anything to start; an error (kExitUsage) says what to make.
  [[nodiscard]] Status check() const;
  // For users: the unit's name, where it is one.
  [[nodiscard]] std::string name() const;

  // An error: it can't even be begun. While nothing runs.
  Status begin_start();
  Status begin_stop();
  // Ends what runs: in order, and by force when it takes long. To be called again and again.
  void abort(uint64_t now_ns);

  // What is readable when that has ended; -1 while nothing runs.
  [[nodiscard]] int fd() const { return pidfd_; }
  [[nodiscard]] bool aborted() const { return aborted_ns_.has_value(); }
  // How it ended, once; nothing while it runs, or while nothing does.
  std::optional<Status> ended();

 private:
  Status run(const std::vector<std::string>& words);
  [[nodiscard]] std::vector<std::string> stop_words() const;

  const TargetCommands commands_;
  std::string what_;  // what runs, for users
  pid_t pid_ = 0;
  int pidfd_ = -1;
  std::optional<uint64_t> aborted_ns_;
};

}  // namespace twinblock
