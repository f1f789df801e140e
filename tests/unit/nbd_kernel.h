// A kernel's nbd that keeps what it is told. A test's program that has nbd_kernel.cc has functions of libnl of its own,
// which stand before those of the library: nothing goes to this host's kernel.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace twinblock {

struct NbdOrder {
  int command = 0;                       // NBD_CMD_…
  std::map<int, std::string> attributes;  // NBD_ATTR_… as bytes, without the sockets
  std::vector<int> sockets;
};

struct NbdKernel {
  std::vector<NbdOrder> orders;
  // Asked with each before the answer, an error of libnl's (-NLE_…) or 0. The socket is the caller's: a kernel that
  // takes it duplicates it.
  std::function<int(const NbdOrder& order)> answer;
  bool has_nbd = true;
};

NbdKernel& nbd_kernel();

// As an attribute holds it.
std::string as_u32(uint32_t value);
std::string as_u64(uint64_t value);
std::string as_text(const std::string& text);

}  // namespace twinblock
