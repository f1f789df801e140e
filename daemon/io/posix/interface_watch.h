// Tells when a network interface goes down or loses its carrier: a TCP connection over it would
// not notice for minutes. Where the system does not tell (no netlink), nothing is told, and links
// are found dead by their silence. Source: rtnetlink(7). Loop only.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "io/posix/io_watcher.h"
#include "io/posix/loop.h"

namespace twinblock {

class InterfaceWatch {
 public:
  // `down` is called with the index and the name of an interface that can't carry anything now.
  InterfaceWatch(Loop& loop, std::function<void(unsigned index, const std::string& name)> down);
  ~InterfaceWatch();
  InterfaceWatch(const InterfaceWatch&) = delete;
  InterfaceWatch& operator=(const InterfaceWatch&) = delete;

 private:
  void read_some();

  std::function<void(unsigned, const std::string&)> down_;
  int fd_ = -1;
  std::unique_ptr<IoWatcher> watcher_;
};

// The index of the interface that has the local address of socket `fd`; 0: none.
unsigned interface_of(int fd);

}  // namespace twinblock
