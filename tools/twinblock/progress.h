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
  // Ends the drawn line and, when a resync was shown, says how it went.
  void finish(const nlohmann::json& status);

 private:
  std::FILE* out_;
  bool terminal_;
  bool drawn_ = false;
  bool seen_ = false;
  int tenth_shown_ = -1;
  std::string state_shown_;
};

}  // namespace twinblock
