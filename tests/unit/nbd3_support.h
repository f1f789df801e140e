// A host of files with an attached /dev/nbd3, for tests.
#pragma once

#include <sys/stat.h>
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

// Somebody waits for the note that another one holds.
inline bool note_is_waited_for(const std::string& stem) {
  struct stat info {};
  if (stat(attachment_path(stem).c_str(), &info) != 0) return false;
  const std::string inode = ":" + std::to_string(info.st_ino) + " ";
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);)
    if (line.find("-> FLOCK") != std::string::npos && line.find(inode) != std::string::npos) return true;
  return false;
}

}  // namespace twinblock
