// What the kernel is told of an nbd device, attribute by attribute: what it is not told, it does its own way.
#include "twinblock/nbd_netlink.h"

#include <gtest/gtest.h>
#include <linux/nbd-netlink.h>
#include <netlink/errno.h>

#include <cerrno>

#include "nbd_kernel.h"

namespace twinblock {
namespace {

using Attributes = std::map<int, std::string>;

class NbdNetlinkTest : public testing::Test {
 protected:
  NbdNetlinkTest() { nbd_kernel() = {}; }
  ~NbdNetlinkTest() override { nbd_kernel() = {}; }
  // What it has been told, which must be one order.
  static NbdOrder told() {
    EXPECT_EQ(nbd_kernel().orders.size(), 1u);
    return nbd_kernel().orders.empty() ? NbdOrder{} : nbd_kernel().orders.back();
  }

  const NbdDeviceSetup setup_{.index = 3,
                              .size_bytes = uint64_t{5} << 40,
                              .block_bytes = 512,
                              .server_flags = 0x16d,
                              .dead_connection_s = 2592000,
                              .backend = "twinblock/r0"};
  Result<NbdNetlink> kernel_ = NbdNetlink::open();
};

// Without the server's flags the kernel sends no flush; a request that waits for its node must not age.
TEST_F(NbdNetlinkTest, ADeviceIsMadeAsItsServerSays) {
  ASSERT_TRUE(kernel_.ok());
  ASSERT_TRUE(kernel_.value().connect(setup_, 17).ok());
  const NbdOrder order = told();
  EXPECT_EQ(order.command, NBD_CMD_CONNECT);
  EXPECT_EQ(order.attributes, (Attributes{{NBD_ATTR_INDEX, as_u32(3)},
                                          {NBD_ATTR_SIZE_BYTES, as_u64(uint64_t{5} << 40)},
                                          {NBD_ATTR_BLOCK_SIZE_BYTES, as_u64(512)},
                                          {NBD_ATTR_SERVER_FLAGS, as_u64(0x16d)},
                                          {NBD_ATTR_TIMEOUT, as_u64(0)},
                                          {NBD_ATTR_DEAD_CONN_TIMEOUT, as_u64(2592000)},
                                          {NBD_ATTR_BACKEND_IDENTIFIER, as_text("twinblock/r0")}}));
  EXPECT_EQ(order.sockets, std::vector<int>{17});
}

TEST_F(NbdNetlinkTest, AnotherConnectionIsForTheDeviceOfThatVolumeOnly) {
  ASSERT_TRUE(kernel_.ok());
  ASSERT_TRUE(kernel_.value().reconfigure(4, "twinblock/r1", 18).ok());
  const NbdOrder order = told();
  EXPECT_EQ(order.command, NBD_CMD_RECONFIGURE);
  EXPECT_EQ(order.attributes,
            (Attributes{{NBD_ATTR_INDEX, as_u32(4)}, {NBD_ATTR_BACKEND_IDENTIFIER, as_text("twinblock/r1")}}));
  EXPECT_EQ(order.sockets, std::vector<int>{18});
}

TEST_F(NbdNetlinkTest, ASizeIsForTheDeviceOfThatVolumeOnly) {
  ASSERT_TRUE(kernel_.ok());
  ASSERT_TRUE(kernel_.value().resize(5, "twinblock/r2", uint64_t{6} << 40).ok());
  const NbdOrder order = told();
  EXPECT_EQ(order.command, NBD_CMD_RECONFIGURE);
  EXPECT_EQ(order.attributes, (Attributes{{NBD_ATTR_INDEX, as_u32(5)},
                                          {NBD_ATTR_BACKEND_IDENTIFIER, as_text("twinblock/r2")},
                                          {NBD_ATTR_SIZE_BYTES, as_u64(uint64_t{6} << 40)}}));
  EXPECT_TRUE(order.sockets.empty());
}

TEST_F(NbdNetlinkTest, ADeviceIsEndedByItsNumber) {
  ASSERT_TRUE(kernel_.ok());
  ASSERT_TRUE(kernel_.value().disconnect(6).ok());
  const NbdOrder order = told();
  EXPECT_EQ(order.command, NBD_CMD_DISCONNECT);
  EXPECT_EQ(order.attributes, (Attributes{{NBD_ATTR_INDEX, as_u32(6)}}));
  EXPECT_TRUE(order.sockets.empty());
}

TEST_F(NbdNetlinkTest, ADeviceOfSomebodyElseIsToldFromOtherErrors) {
  ASSERT_TRUE(kernel_.ok());
  nbd_kernel().answer = [](const NbdOrder& /*order*/) { return -NLE_BUSY; };
  const Status busy = kernel_.value().connect(setup_, 17);
  ASSERT_FALSE(busy.ok());
  EXPECT_EQ(busy.error().code, EBUSY);
  nbd_kernel().answer = [](const NbdOrder& /*order*/) { return -NLE_PERM; };
  const Status refused = kernel_.value().connect(setup_, 17);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().code, EBUSY);
  EXPECT_NE(refused.error().what.find("nbd3"), std::string::npos) << refused.error().what;
}

TEST_F(NbdNetlinkTest, AKernelWithoutNbdIsToldWhatToDo) {
  nbd_kernel().has_nbd = false;
  const Result<NbdNetlink> opened = NbdNetlink::open();
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.error().action.find("modprobe nbd"), std::string::npos) << opened.error().action;
}

}  // namespace
}  // namespace twinblock
