#include "nbd_kernel.h"

#include <linux/nbd-netlink.h>
#include <netlink/attr.h>
#include <netlink/errno.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>

#include <string_view>

namespace twinblock {
namespace {

constexpr int kFamily = 27;

template <typename T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// Each of a list of attributes.
void for_each(const nlattr* first, int bytes, const std::function<void(const nlattr* one)>& what) {
  for (int left = bytes; nla_ok(first, left) != 0; first = nla_next(first, &left)) what(first);
}

NbdOrder order_of(nl_msg* message) {
  auto* header = static_cast<genlmsghdr*>(nlmsg_data(nlmsg_hdr(message)));
  NbdOrder order;
  order.command = header->cmd;
  for_each(genlmsg_attrdata(header, 0), genlmsg_attrlen(header, 0), [&order](const nlattr* one) {
    if (nla_type(one) != NBD_ATTR_SOCKETS) {
      order.attributes[nla_type(one)] = {static_cast<const char*>(nla_data(one)), static_cast<size_t>(nla_len(one))};
      return;
    }
    for_each(static_cast<const nlattr*>(nla_data(one)), nla_len(one), [&order](const nlattr* item) {
      const nlattr* fd = nla_type(item) == NBD_SOCK_ITEM
                             ? nla_find(static_cast<const nlattr*>(nla_data(item)), nla_len(item), NBD_SOCK_FD)
                             : nullptr;
      order.sockets.push_back(fd == nullptr ? -1 : static_cast<int>(nla_get_u32(fd)));
    });
  });
  return order;
}

}  // namespace

NbdKernel& nbd_kernel() {
  static NbdKernel kernel;
  return kernel;
}

std::string as_u32(uint32_t value) { return bytes_of(value); }
std::string as_u64(uint64_t value) { return bytes_of(value); }
std::string as_text(const std::string& text) { return text + '\0'; }

}  // namespace twinblock

extern "C" int genl_connect(nl_sock* /*socket*/) { return 0; }

extern "C" int genl_ctrl_resolve(nl_sock* /*socket*/, const char* name) {
  const bool known = twinblock::nbd_kernel().has_nbd && std::string_view(name) == NBD_GENL_FAMILY_NAME;
  return known ? twinblock::kFamily : -NLE_OBJ_NOTFOUND;
}

// Frees the message, as the library's does.
extern "C" int nl_send_sync(nl_sock* /*socket*/, nl_msg* message) {
  twinblock::NbdKernel& kernel = twinblock::nbd_kernel();
  const bool is_for_nbd = nlmsg_hdr(message)->nlmsg_type == twinblock::kFamily;
  if (is_for_nbd) kernel.orders.push_back(twinblock::order_of(message));
  nlmsg_free(message);
  if (!is_for_nbd) return -NLE_OPNOTSUPP;
  return kernel.answer ? kernel.answer(kernel.orders.back()) : 0;
}
