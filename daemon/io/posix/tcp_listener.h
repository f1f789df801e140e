// The listening socket of one link: accepts from the peer's IP only, and with keys only who proves
// one. Who has not yet is bounded in number and time: when there are too many, one that has shown
// nothing of a key goes, the oldest of them, so that the peer gets in beside any number of others. Internal to io/posix.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "base/limits.h"
#include "io/clock.h"
#include "io/connection.h"
#include "io/posix/acceptor.h"
#include "io/posix/tcp_address.h"
#include "io/posix/tcp_connection.h"
#include "io/posix/tcp_network.h"

namespace twinblock {

class TcpListener {
 public:
  static constexpr int kAcceptsPerTurn = 16;
  // Refusals are reported at most this often, with a count of those in between.
  static constexpr uint64_t kReportInterval_ns = limits::kStrangerInterval_ns;

  // Takes the listening socket.
  TcpListener(TcpNetwork& network, int fd, TcpAddress peer,
              std::function<void(std::unique_ptr<Connection>)> accepted,
              std::function<void(const Refusal&)> refused);
  ~TcpListener();

 private:
  // An accepted connection, until the peer has proven the key.
  struct Unproven final : ConnectionHandler {
    explicit Unproven(TcpListener& listener) : owner(listener) {}
    void connected() override { owner.proven(*this); }
    void readable() override {}
    void closed(const std::string& reason) override { owner.lost(*this, reason); }
    TcpListener& owner;
    std::unique_ptr<TcpConnection> connection;
    std::string address;
    uint64_t since_ns = 0;
  };
  void proven(Unproven& who);
  void lost(Unproven& who, const std::string& reason);
  void end_late_ones();
  [[nodiscard]] std::list<Unproven>::iterator least_known();
  [[nodiscard]] std::list<Unproven>::iterator place_of(const Unproven& who);
  void take(int fd, const TcpAddress& from);
  struct Reports {
    bool from_peers_address;
    uint64_t next_ns = 0;
    uint64_t untold = 0;
  };
  void report(Reports& reports, const std::string& why);

  TcpNetwork& network_;
  const TcpAddress peer_;
  const std::function<void(std::unique_ptr<Connection>)> accepted_;
  const std::function<void(const Refusal&)> refused_;
  // Apart, so that strangers can't hide what becomes of the peer.
  Reports of_peer_{.from_peers_address = true};
  Reports of_strangers_{.from_peers_address = false};
  std::list<Unproven> unproven_;  // the oldest first
  std::unique_ptr<Timer> look_;
  Acceptor acceptor_;
};

}  // namespace twinblock
