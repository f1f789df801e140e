// The network between two hosts: byte streams in random segments with random delays, a window,
// resets, silence in one direction or both, and hosts that vanish. Bytes that silence holds back
// arrive when it ends, as TCP sends them again; a connection that one side has given up stays
// half-open at the other until it hears of it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/units.h"
#include "io/connection.h"
#include "random.h"
#include "scheduler.h"

namespace twinblock::sim {

struct NetworkFaults {
  // By the host that sends.
  std::array<bool, 2> silent{};
  uint64_t delay_max_ns = 2 * kMillisecond_ns;
};

class VirtualNetwork {
 public:
  VirtualNetwork(Scheduler& scheduler, Random random);

  // A process on `host` (0 or 1) begins; the Network that it uses. The object must be destroyed
  // with the process.
  std::unique_ptr<Network> attach(int host, ProcessPtr process);
  // Without power a host answers nothing, and what it had open is gone without a word.
  void set_power(int host, bool on) { hosts_[index(host)].powered = on; }
  // All connections break, with what they carry.
  void reset_all();
  // What was held back goes on; to be called after `faults.silent` has been changed.
  void silence_changed();

  NetworkFaults faults;

 private:
  class Endpoint;
  class Port;

  // One direction of a connection.
  struct Pipe {
    std::vector<std::byte> bytes;  // from `dropped` on; taken by the kernel
    uint64_t dropped = 0;          // offsets count from the connection's start
    uint64_t read = 0;
    [[nodiscard]] uint64_t taken() const { return dropped + bytes.size(); }
    uint64_t arrived = 0;
    uint64_t held = 0;  // came to the silent stretch; arrives when it ends
    uint64_t last_arrival_ns = 0;
    uint64_t window = 0;
    bool end_arrived = false;  // the sender has closed
    bool end_held = false;
    bool reset = false;  // … and what it had sent is void
  };
  struct Wire {
    std::array<Pipe, 2> pipe;        // by the host that sends
    std::array<Endpoint*, 2> end{};  // by host; null: closed, or never opened
    std::array<bool, 2> dead{};      // that end was told, or its host lost power
  };
  using WirePtr = std::shared_ptr<Wire>;
  struct Host {
    bool powered = true;
    ProcessPtr process;
    std::function<void(std::unique_ptr<Connection>)> accepted;
  };

  static size_t index(int host) { return static_cast<size_t>(host); }
  [[nodiscard]] uint64_t delay_ns();
  void syn(const WirePtr& wire, int from);
  void taken(const WirePtr& wire, int from, uint64_t begin);
  void segment(const WirePtr& wire, int from, uint64_t up_to);
  void window_opened(const WirePtr& wire, int sender);
  void arrive(const WirePtr& wire, int from, uint64_t up_to);
  void send_end(const WirePtr& wire, int from, bool reset);
  void end_arrives(const WirePtr& wire, int from);
  WirePtr new_wire();

  Scheduler& scheduler_;
  Random random_;
  std::array<Host, 2> hosts_;
  std::vector<std::weak_ptr<Wire>> wires_;
};

}  // namespace twinblock::sim
