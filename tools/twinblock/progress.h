// Shows how a resync proceeds while `wait` waits: one line that is drawn over on a terminal, plain
// lines at every tenth otherwise.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

namespace twinblock {

// "[########------------] 40.0%, …" for a bar of `width` characters.
std::string progress_bar(const nlohmann::json& resync, size_t width);

class ProgressDisplay {
 public:
  // `out` must outlive this.
  ProgressDisplay(std::FILE* out, bool terminal) : out_(out), terminal_(terminal) {}
  void show(const nlohmann::json& status);
  // Ends the drawn line and, when a resync ended since the first show(), says how it went: a short
  // one begins and ends between two polls.
  void finish(const nlohmann::json& status);

 private:
  std::FILE* out_;
  bool terminal_;
  bool drawn_ = false;
  bool started_ = false;
  nlohmann::json last_resync_before_;
  int tenth_shown_ = -1;
  std::string state_shown_;
};

}  // namespace twinblock
