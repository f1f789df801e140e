// A host of files with an attached /dev/nbd3, for tests.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "twinblock/attachment.h"
#include "twinblock/process.h"

namespace twinblock {

inline void put(const std::string& path, const std::string& text = "") {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

// The note of it: the kernel's process is 77, the server this one.
template <typename Host>
Attachment attached_nbd3(const Host& host) {
  Attachment attachment;
  attachment.volume = "r0";
  attachment.node = "alpha";
  attachment.method = kMethodNbd;
  attachment.device = host.dev + "/nbd3";
  attachment.nbd_pid = 77;
  attachment.term = 5;
  attachment.server = identify_process(getpid());
  attachment.complete = true;
  return attachment;
}

}  // namespace twinblock
