// The listening socket of one link: accepts from the peer's IP only. Internal to io/posix.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/limits.h"
#include "io/connection.h"
#include "io/posix/acceptor.h"
#include "io/posix/tcp_address.h"
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
              std::function<void(const std::string&)> refused);

 private:
  void take(int fd, const TcpAddress& from);
  void report(std::string why);

  TcpNetwork& network_;
  const TcpAddress peer_;
  const std::function<void(std::unique_ptr<Connection>)> accepted_;
  const std::function<void(const std::string&)> refused_;
  uint64_t next_report_ns_ = 0;
  uint64_t unreported_ = 0;
  Acceptor acceptor_;
};

}  // namespace twinblock
