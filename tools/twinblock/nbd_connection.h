// A connection to a node's NBD server that was negotiated and carries no request yet: what the
// kernel is given to work with. Blocks, at most for the time that is said.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "twinblock/nbd_handshake.h"
#include "twinblock/process.h"

namespace twinblock {

class NbdConnection {
 public:
  // Errors: kExitUnreachable when nobody listens at `socket_path` or answers in time, kExitRefused
  // when the server refuses, as a secondary does.
  static Result<NbdConnection> open(const std::string& socket_path, const std::string& export_name,
                                    uint64_t timeout_ns);
  NbdConnection(NbdConnection&& other) noexcept;
  NbdConnection& operator=(NbdConnection&& other) noexcept;
  ~NbdConnection();

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] const NbdExport& served() const { return export_; }
  // The server's process.
  [[nodiscard]] const ProcessId& server() const { return server_; }
  // Names this end in /proc/net/unix, for as long as anybody holds it.
  [[nodiscard]] uint64_t inode() const { return inode_; }
  // Lets go of this end here; the kernel's own hold, where it has one, stays.
  void let_go();

 private:
  explicit NbdConnection(int fd) : fd_(fd) {}
  [[nodiscard]] Status negotiate(const std::string& export_name, uint64_t deadline_ns);

  int fd_;
  NbdExport export_;
  ProcessId server_;
  uint64_t inode_ = 0;
};

// Whether somebody, such as the kernel, still holds the unix socket with that number. `proc` is
// "/proc" but for tests.
bool unix_socket_exists(const std::string& proc, uint64_t inode);

}  // namespace twinblock
