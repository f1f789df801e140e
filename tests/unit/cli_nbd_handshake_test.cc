#include "twinblock/nbd_handshake.h"

#include <gtest/gtest.h>

#include "twinblock/exit_status.h"

namespace twinblock {
namespace {

using Bytes = std::string;

Bytes number(uint64_t value, size_t bytes) {
  Bytes out;
  for (size_t i = bytes; i-- > 0;) out.push_back(static_cast<char>(value >> (8 * i)));
  return out;
}

Bytes greeting(uint16_t flags = 3) { return "NBDMAGICIHAVEOPT" + number(flags, 2); }

Bytes reply(uint32_t type, const Bytes& payload, uint32_t option = 7) {
  return number(0x3e889045565a9, 8) + number(option, 4) + number(type, 4) +
         number(payload.size(), 4) + payload;
}

Bytes described(uint64_t size, uint16_t flags) {
  return reply(3, number(0, 2) + number(size, 8) + number(flags, 2));
}

TEST(NbdHandshake, AsksForTheExportAndGetsItsSizeAndFlags) {
  NbdHandshake handshake("r0");
  const Result<Bytes> asked = handshake.take(greeting());
  ASSERT_TRUE(asked.ok()) << asked.error().what;
  EXPECT_EQ(asked.value(), number(3, 4) + "IHAVEOPT" + number(7, 4) + number(8, 4) + number(2, 4) +
                               "r0" + number(0, 2));
  const Bytes block_sizes = reply(3, number(3, 2) + number(1, 4) + number(4096, 4) + number(1, 4));
  EXPECT_EQ(handshake.take(block_sizes + described(1 << 20, 0x16d)).value(), "");
  EXPECT_FALSE(handshake.done());
  EXPECT_EQ(handshake.take(reply(1, "")).value(), "");
  EXPECT_TRUE(handshake.done());
  EXPECT_EQ(handshake.result().size_bytes, uint64_t{1} << 20);
  EXPECT_EQ(handshake.result().flags, 0x16d);
}

TEST(NbdHandshake, TakesWhatComesInAnyPieces) {
  NbdHandshake handshake("r0");
  Bytes sent;
  for (const char c : greeting() + described(4096, 1) + reply(1, "")) {
    const Result<Bytes> answer = handshake.take({&c, 1});
    ASSERT_TRUE(answer.ok()) << answer.error().what;
    sent += answer.value();
  }
  EXPECT_TRUE(handshake.done());
  EXPECT_EQ(handshake.result().size_bytes, 4096u);
  EXPECT_EQ(sent.size(), 4u + 16u + 8u);
}

// A server that never leaves out the zeroes is told so, and does no harm: they follow another
// option.
TEST(NbdHandshake, RepeatsOnlyFlagsThatWereOffered) {
  NbdHandshake handshake("");
  EXPECT_EQ(handshake.take(greeting(1)).value().substr(0, 4), number(1, 4));
}

TEST(NbdHandshake, ARefusalIsToldInTheServersWords) {
  NbdHandshake handshake("r0");
  ASSERT_TRUE(handshake.take(greeting()).ok());
  const Result<Bytes> refusal = handshake.take(reply(0x80000006, "this node\nis secondary"));
  ASSERT_FALSE(refusal.ok());
  EXPECT_EQ(refusal.error().what, "the node refuses its export: this node?is secondary");
  EXPECT_EQ(refusal.error().code, kExitRefused);
  EXPECT_FALSE(handshake.done());
}

struct Odd {
  const char* what;
  Bytes bytes;
};

TEST(NbdHandshake, WhatIsNoSuchServerIsNotBelieved) {
  const Odd cases[] = {
      {"another greeting", "HTTP/1.1 400 Bad Request\r\n"},
      {"an old server", greeting(0)},
      {"oldstyle", "NBDMAGIC" + number(0x420281861253, 8) + number(1, 2)},
      {"another option's reply", greeting() + reply(1, "", 1)},
      {"no magic", greeting() + Bytes(20, 'x')},
      {"an endless reply", greeting() + reply(3, "").substr(0, 16) + number(1 << 30, 4)},
      {"no description", greeting() + reply(1, "")},
      {"a short description", greeting() + reply(3, number(0, 2) + number(1, 8))},
      {"an empty one", greeting() + reply(3, "")},
      {"a list", greeting() + reply(2, "r0")},
      {"more than was asked", greeting() + described(4096, 1) + reply(1, "") + "x"},
  };
  for (const Odd& odd : cases) {
    NbdHandshake handshake("r0");
    const Result<Bytes> taken = handshake.take(odd.bytes);
    EXPECT_FALSE(taken.ok()) << odd.what;
  }
}

}  // namespace
}  // namespace twinblock
