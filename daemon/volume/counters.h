// What a node has done since its process began. Owned by Core; loop thread only.
#pragma once

#include <cstdint>

namespace twinblock {

class Counters {
 public:
  struct Figures {
    uint64_t writes = 0;
    uint64_t write_bytes = 0;
    uint64_t zeroes = 0;
    uint64_t flushes = 0;
    uint64_t resync_bytes = 0;
    uint64_t peer_losses = 0;
  };

  [[nodiscard]] const Figures& now() const { return figures_; }
  void wrote(uint64_t bytes) {
    ++figures_.writes;
    figures_.write_bytes += bytes;
  }
  void zeroed() { ++figures_.zeroes; }
  void flushed() { ++figures_.flushes; }
  void resynced(uint64_t bytes) { figures_.resync_bytes += bytes; }
  void lost_peer() { ++figures_.peer_losses; }

 private:
  Figures figures_;
};

}  // namespace twinblock
