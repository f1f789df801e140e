// What this program syncs, in a list. A test's program that has noted_syncs.cc has fsync() and fdatasync() of its own,
// which stand before those of the C library.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace twinblock {

class NotedSyncs {
 public:
  // Asked before each with the name that the file has then, on the thread that syncs: an errno value with which it
  // fails, or 0. Not while something is synced.
  std::function<int(const std::string& path)> before;

  void clear() {
    before = nullptr;
    const std::lock_guard lock(mutex_);
    paths_.clear();
  }
  // What was to fail does not count.
  [[nodiscard]] bool had(const std::string& path) const;
  // Any thread. What fsync() and fdatasync() do first: an errno value, or 0.
  int note(int fd);

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> paths_;
};

NotedSyncs& noted_syncs();

}  // namespace twinblock
