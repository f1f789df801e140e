// The kernel's own interface to its nbd devices, by generic netlink. Needs root. Blocks for as long
// as the kernel takes, which is a moment.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

struct nl_sock;

namespace twinblock {

// What a device is to be.
struct NbdDeviceSetup {
  uint32_t index = 0;  // of /dev/nbdINDEX, which is made where there is none
  uint64_t size_bytes = 0;
  uint64_t block_bytes = 0;
  uint16_t server_flags = 0;
  // How long the device waits for a new socket when its last one is dead, before it ends.
  uint64_t dead_connection_s = 0;
  // What reconfigure() and sysfs know the device by.
  std::string backend;
};

class NbdNetlink {
 public:
  // An error where the kernel has no nbd, or does not show it here.
  static Result<NbdNetlink> open();
  NbdNetlink(NbdNetlink&&) noexcept;
  NbdNetlink& operator=(NbdNetlink&&) noexcept;
  ~NbdNetlink();

  // Makes a device of the connection `fd`, of which the kernel takes a hold of its own. An error
  // with the code EBUSY when the device is somebody's.
  Status connect(const NbdDeviceSetup& setup, int fd);
  // Gives a device whose socket is dead another one. While the old one lives the kernel drops the
  // new one without a word: whether it was taken is for the caller to see.
  Status reconfigure(uint32_t index, const std::string& backend, int fd);
  // A device is as large as that from now on, for all who use it.
  Status resize(uint32_t index, const std::string& backend, uint64_t size_bytes);
  // Ends a device, also under those who use it: they get I/O errors.
  Status disconnect(uint32_t index);

 private:
  struct Close {
    void operator()(nl_sock* socket) const;
  };
  NbdNetlink(std::unique_ptr<nl_sock, Close> socket, int family);
  class Message;
  Status send(Message& message, const std::string& what);

  std::unique_ptr<nl_sock, Close> socket_;
  int family_;
};

}  // namespace twinblock
