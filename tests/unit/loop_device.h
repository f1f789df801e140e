// A block device for tests.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace twinblock {

// A loop device over a temporary file; without a path where none can be made.
class LoopDevice {
 public:
  explicit LoopDevice(const std::string& file) {
    FILE* pipe = ::popen(("losetup -f --show " + file + " 2>/dev/null").c_str(), "r");
    char line[64] = "";
    if (::fgets(line, sizeof line, pipe) != nullptr) path_ = std::string(line, strcspn(line, "\n"));
    if (::pclose(pipe) != 0) path_.clear();
  }
  ~LoopDevice() {
    if (!path_.empty()) (void)!::system(("losetup -d " + path_).c_str());
  }
  LoopDevice(const LoopDevice&) = delete;
  LoopDevice& operator=(const LoopDevice&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace twinblock
