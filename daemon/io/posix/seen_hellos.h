// The hellos of TLS that held up to a key (TlsSession::hello_holds()): one that comes a second time is a recording, of
// which anybody on the way may send as many as he likes. Only who has the key makes another one, so that nobody else can
// have the older ones forgotten. Of TcpNetwork; loop only.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <span>
#include <vector>

#include "base/limits.h"

namespace twinblock {

class SeenHellos {
 public:
  // `random`: the dialler's, of 32 bytes (RFC 8446, 4.1.2). Whether this is the first hello with it.
  [[nodiscard]] bool first(std::span<const std::byte> random) {
    Random made{};
    std::memcpy(made.data(), random.data(), std::min(random.size(), made.size()));
    if (!known_.insert(made).second) return false;
    if (in_turn_.size() < limits::kSeenHellosMax) {
      in_turn_.push_back(made);
      return true;
    }
    Random& oldest = in_turn_[next_++ % in_turn_.size()];
    known_.erase(oldest);
    oldest = made;
    return true;
  }
  [[nodiscard]] size_t size() const { return known_.size(); }

 private:
  using Random = std::array<std::byte, 32>;

  std::set<Random> known_;
  std::vector<Random> in_turn_;
  size_t next_ = 0;
};

}  // namespace twinblock
