// What a connection's key is mixed with: who records what was said, and gets hold of the key later, must not be able to
// read it (RFC 8446: psk_dhe_ke, and never psk_ke).
#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "io_posix_tls_support.h"

namespace twinblock {
namespace {

TEST(TlsExchangeTest, an_acceptor_agrees_to_no_key_alone) {
  const LinkKey key = make_link_key();
  for (const auto& [exchange, good] :
       std::vector<std::pair<std::string, bool>>{{"PSK", false}, {"ECDHE-PSK", true}, {"DHE-PSK", true}}) {
    const std::string priorities = "NORMAL:-VERS-ALL:+VERS-TLS1.3:-KX-ALL:+" + exchange;
    OtherDialler dialler(key, priorities.c_str());
    TlsSession acceptor(TlsSession::Side::kAcceptor, keys_of({key}));
    EXPECT_EQ(dialler.shake_hands(acceptor), good) << exchange;
    EXPECT_EQ(acceptor.done(), good) << exchange;
  }
}

// As its hello says (RFC 8446, 4.2.9).
TEST(TlsExchangeTest, a_dialler_offers_no_key_alone) {
  TlsSession dialler(TlsSession::Side::kDialler, keys_of({make_link_key()}));
  ASSERT_EQ(dialler.shake_hands(), TlsSession::Step::kWaits);
  const auto offers = [hello = dialler.sealed()](std::initializer_list<uint8_t> modes) {
    const auto count = static_cast<uint8_t>(modes.size());
    std::vector<uint8_t> extension{0, 0x2d, 0, static_cast<uint8_t>(count + 1), count};
    extension.insert(extension.end(), modes);
    return ::memmem(hello.data(), hello.size(), extension.data(), extension.size()) != nullptr;
  };
  constexpr uint8_t kAlone = 0, kWithDiffieHellman = 1;
  EXPECT_TRUE(offers({kWithDiffieHellman}));
  EXPECT_FALSE(offers({kAlone}));
  EXPECT_FALSE(offers({kAlone, kWithDiffieHellman}));
  EXPECT_FALSE(offers({kWithDiffieHellman, kAlone}));
}

}  // namespace
}  // namespace twinblock
