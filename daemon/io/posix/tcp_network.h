// Connections to the peer over TCP: non-blocking sockets on the loop. Everything that is sent in
// one turn goes out when the turn ends. Loop only, or before it runs.
#pragma once

#include <sys/uio.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/connection.h"
#include "io/posix/interface_watch.h"
#include "io/posix/link_key.h"
#include "io/posix/loop.h"
#include "io/posix/tls_session.h"

namespace twinblock {

class TcpConnection;
class TcpListener;

// Outlives its connections.
class TcpNetwork final : public Network, private TurnPart {
 public:
  // `congestion` as check_congestion() takes it. With `keys` every connection is encrypted, and
  // nobody is spoken to who does not prove one of them.
  explicit TcpNetwork(Loop& loop, std::string congestion = {},
                      std::shared_ptr<const LinkKeys> keys = nullptr);
  ~TcpNetwork() override;
  TcpNetwork(const TcpNetwork&) = delete;
  TcpNetwork& operator=(const TcpNetwork&) = delete;

  // Where there were keys before. What is connected stays so, but for who is still to prove a key and proves one that was
  // dropped; of the others Connection::key_dropped() tells.
  // For `pinned_ns` the first one is used for what is dialled, whichever the peer proves meanwhile.
  void set_keys(std::shared_ptr<const LinkKeys> keys, uint64_t pinned_ns = 0);
  [[nodiscard]] std::unique_ptr<Connection> dial(const LinkAddresses& link) override;
  Status listen(const LinkAddresses& link,
                std::function<void(std::unique_ptr<Connection>)> accepted,
                std::function<void(const Refusal&)> refused) override;
  [[nodiscard]] LinkHost host_of(const LinkAddresses& link) const override;
  void unlisten(const std::string& link) override;

 private:
  friend class TcpConnection;
  friend class TcpListener;

  // The peer has proven this one of ours: it may have no other by now, so we go on with it.
  void prefer_key(const std::string& fingerprint);
  void interface_down(unsigned index, const std::string& name);
  void flush_sends() override;
  void deliver() override;
  [[nodiscard]] bool pending() const override;

  Loop& loop_;
  const std::string congestion_;
  std::shared_ptr<const LinkKeys> keys_;  // null: nothing is encrypted
  uint64_t pinned_until_ns_ = 0;          // their order stays
  SeenHellos seen_hellos_;
  InterfaceWatch interfaces_;
  std::vector<TcpConnection*> connections_;  // null: destroyed, removed after the turn
  std::vector<std::pair<std::string, std::unique_ptr<TcpListener>>> listeners_;  // by link
  std::array<iovec, 1024> vectors_;  // for one sendmsg at a time; IOV_MAX of them
  std::array<std::byte, TlsSession::kRecordBytesMax> record_;  // where one is put together
};

}  // namespace twinblock
