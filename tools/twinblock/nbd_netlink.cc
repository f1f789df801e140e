#include "twinblock/nbd_netlink.h"

#include <linux/nbd-netlink.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/netlink.h>

#include <cerrno>
#include <utility>

#include "twinblock/exit_status.h"

namespace twinblock {
namespace {

// libnl's number for an error that the kernel has told by errno.
Error netlink_error(int code, const std::string& what) {
  Error error = refused(what + ": " + nl_geterror(code));
  if (-code == NLE_BUSY) error.code = EBUSY;
  return error;
}

}  // namespace

void NbdNetlink::Close::operator()(nl_sock* socket) const { nl_socket_free(socket); }

// One request and its attributes. A message that has become too long is noticed when it is sent.
class NbdNetlink::Message {
 public:
  Message(int family, uint8_t command) : message_(nlmsg_alloc()) {
    ok_ = message_ != nullptr && genlmsg_put(message_, NL_AUTO_PORT, NL_AUTO_SEQ, family, 0, 0,
                                             command, NBD_GENL_VERSION) != nullptr;
  }
  ~Message() { nlmsg_free(message_); }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  void put(int attribute, uint32_t value) {
    ok_ = ok_ && nla_put_u32(message_, attribute, value) == 0;
  }
  void put(int attribute, uint64_t value) {
    ok_ = ok_ && nla_put_u64(message_, attribute, value) == 0;
  }
  void put(int attribute, const std::string& text) {
    ok_ = ok_ && nla_put_string(message_, attribute, text.c_str()) == 0;
  }
  void put_socket(int fd) {
    if (!ok_) return;
    nlattr* sockets = nla_nest_start(message_, NBD_ATTR_SOCKETS);
    nlattr* item = sockets == nullptr ? nullptr : nla_nest_start(message_, NBD_SOCK_ITEM);
    ok_ = item != nullptr && nla_put_u32(message_, NBD_SOCK_FD, static_cast<uint32_t>(fd)) == 0;
    if (!ok_) return;
    nla_nest_end(message_, item);
    nla_nest_end(message_, sockets);
  }
  // nullptr when it could not be made. The one who takes it frees it.
  nl_msg* release() { return ok_ ? std::exchange(message_, nullptr) : nullptr; }

 private:
  nl_msg* message_;
  bool ok_ = false;
};

NbdNetlink::NbdNetlink(std::unique_ptr<nl_sock, Close> socket, int family)
    : socket_(std::move(socket)), family_(family) {}
NbdNetlink::NbdNetlink(NbdNetlink&&) noexcept = default;
NbdNetlink& NbdNetlink::operator=(NbdNetlink&&) noexcept = default;
NbdNetlink::~NbdNetlink() = default;

Result<NbdNetlink> NbdNetlink::open() {
  std::unique_ptr<nl_sock, Close> socket(nl_socket_alloc());
  if (!socket) return refused("no memory for a netlink socket");
  if (const int code = genl_connect(socket.get()); code < 0)
    return netlink_error(code, "can't open a netlink socket");
  const int family = genl_ctrl_resolve(socket.get(), NBD_GENL_FAMILY_NAME);
  if (family < 0)
    return refused("the kernel's nbd does not answer here",
                   "load it (modprobe nbd); a container needs the host's network for it");
  return NbdNetlink(std::move(socket), family);
}

Status NbdNetlink::send(Message& message, const std::string& what) {
  nl_msg* ready = message.release();
  if (ready == nullptr) return refused("no memory for a netlink message");
  // Frees the message, and waits for the kernel's answer.
  if (const int code = nl_send_sync(socket_.get(), ready); code < 0)
    return netlink_error(code, what);
  return ok_status();
}

Status NbdNetlink::connect(const NbdDeviceSetup& setup, int fd) {
  Message message(family_, NBD_CMD_CONNECT);
  message.put(NBD_ATTR_INDEX, setup.index);
  message.put(NBD_ATTR_SIZE_BYTES, setup.size_bytes);
  message.put(NBD_ATTR_BLOCK_SIZE_BYTES, setup.block_bytes);
  message.put(NBD_ATTR_SERVER_FLAGS, uint64_t{setup.server_flags});
  // No request's age ends a connection.
  message.put(NBD_ATTR_TIMEOUT, uint64_t{0});
  message.put(NBD_ATTR_DEAD_CONN_TIMEOUT, setup.dead_connection_s);
  message.put(NBD_ATTR_BACKEND_IDENTIFIER, setup.backend);
  message.put_socket(fd);
  return send(message, "the kernel does not make nbd" + std::to_string(setup.index));
}

Status NbdNetlink::reconfigure(uint32_t index, const std::string& backend, int fd) {
  Message message(family_, NBD_CMD_RECONFIGURE);
  message.put(NBD_ATTR_INDEX, index);
  message.put(NBD_ATTR_BACKEND_IDENTIFIER, backend);
  message.put_socket(fd);
  return send(message, "the kernel does not reconnect nbd" + std::to_string(index));
}

Status NbdNetlink::resize(uint32_t index, const std::string& backend, uint64_t size_bytes) {
  Message message(family_, NBD_CMD_RECONFIGURE);
  message.put(NBD_ATTR_INDEX, index);
  message.put(NBD_ATTR_BACKEND_IDENTIFIER, backend);
  message.put(NBD_ATTR_SIZE_BYTES, size_bytes);
  return send(message, "the kernel does not make nbd" + std::to_string(index) + " larger");
}

Status NbdNetlink::disconnect(uint32_t index) {
  Message message(family_, NBD_CMD_DISCONNECT);
  message.put(NBD_ATTR_INDEX, index);
  return send(message, "the kernel does not end nbd" + std::to_string(index));
}

}  // namespace twinblock
