// The network between two hosts: one or more links, each with byte streams in random segments with
// random delays, a window, resets, silence in one direction or both, and hosts that vanish; and perhaps
// a firewall that lets one host's dials through only. Bytes that silence holds back arrive when it ends,
// as TCP sends them again, also those of a connection that its sender has given up and replaced; such a
// connection stays half-open at the other side until that hears of it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "io/connection.h"
#include "random.h"
#include "scheduler.h"
#include "wire/frame_format.h"

namespace twinblock::sim {

struct LinkFaults {
  std::array<bool, 2> silent{};  // by the host that sends
  // By the host that knows of it: connections break there, and dials fail at once. A cut link
  // carries nothing either way; a host that does not know of the cut finds it silent.
  std::array<bool, 2> cut{};
  std::array<bool, 2> no_address{};  // of that host: nobody listens there, and dials fail
  uint64_t delay_min_ns = 10 * kMicrosecond_ns;  // one way, of each segment
  uint64_t delay_max_ns = 2 * kMillisecond_ns;
  uint64_t window_max_bytes = ~uint64_t{0};  // what a connection may have under way
  uint64_t bytes_per_s = 0;                  // in each direction; 0: no limit
  uint64_t bytes_max = ~uint64_t{0};         // with more in one direction, a connection breaks
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
  // Those of one link break at these hosts; what they carry still arrives. The other side hears of
  // it when it sends something.
  void reset(const std::string& link, const std::array<bool, 2>& at);
  // All links, by the host that sends, beside what is wrong with each of them.
  void set_silent(const std::array<bool, 2>& silent);
  // How often it was told so: who ends a silence later does not end another one.
  [[nodiscard]] uint64_t silences() const { return silences_; }
  // For good, on all links: nobody hears of what this host dials; what is dialled to it gets through.
  void block_dials_of(int host) { dials_blocked_[index(host)] = true; }
  void set_faults(const std::string& link, const LinkFaults& faults);
  [[nodiscard]] const LinkFaults& faults(const std::string& link) { return link_of(link).faults; }
  // All faults end.
  void heal();

  // Strangers (virtual_strangers.cc): who is not the peer, and speaks from its address. False: it is not
  // possible just now. That a session stands with one of them is a violation.
  // A connection to `host` that says again what the peer said when it dialled an earlier one.
  bool replay(const std::string& link, int host);
  // The next connection that `host` dials is answered with what the peer answered to an earlier
  // one.
  bool answer_with_recording(const std::string& link, int host);
  // A connection to `host` that says the peer's hello with the right numbers, and then nothing.
  bool say_hello(const std::string& link, int host);

 private:
  class Endpoint;
  class Port;

  using Accepted = std::function<void(std::unique_ptr<Connection>)>;
  // What each host said first on a connection.
  struct Recording {
    int dialler = 0;
    std::array<std::vector<std::byte>, 2> said;
  };
  static constexpr size_t kRecordedBytes = 4 * kKiB;
  static constexpr size_t kRecordingsMax = 6;
  struct Link {
    size_t number = 0;
    std::deque<std::shared_ptr<Recording>> recordings;
    std::array<bool, 2> haunted{};  // by host: its next dial is answered by a recording
    LinkFaults faults;
    std::array<Accepted, 2> accepted;         // by host; null: nobody listens
    std::array<uint64_t, 2> busy_until_ns{};  // by the host that sends, where the rate is limited
  };
  // One direction of a connection.
  struct Pipe {
    std::vector<std::byte> bytes;  // from `dropped` on; taken by the kernel
    uint64_t dropped = 0;          // offsets count from the connection's start
    uint64_t read = 0;
    [[nodiscard]] uint64_t taken() const { return dropped + bytes.size(); }
    // When they are more than those that have to be moved for it.
    void drop_read() {
      const uint64_t done = read - dropped;
      if (done <= bytes.size() / 2) return;
      bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(done));
      dropped = read;
    }
    uint64_t sent = 0;  // left the sending host
    uint64_t arrived = 0;
    uint64_t held = 0;  // came to the silent stretch; arrives when it ends
    uint64_t last_arrival_ns = 0;
    uint64_t window = 0;
    bool end_arrived = false;  // the sender has closed
    bool end_held = false;
    bool reset = false;  // … and what it had sent is void
    bool repeated = false;  // the sender's kernel sends again what nobody acknowledges
  };
  struct Wire {
    Link* link = nullptr;
    std::array<Pipe, 2> pipe;        // by the host that sends
    std::array<Endpoint*, 2> end{};  // by host; null: closed, or never opened
    std::array<bool, 2> dead{};      // that host knows nothing of this connection any more
    std::shared_ptr<Recording> recording;
    int stranger = -1;            // this host's end is no host's
    bool answers_hello = false;   // … and says hello when it is challenged
    std::vector<std::byte> lies;  // what it says
    std::vector<std::byte> heard;  // what was said to it
  };
  using WirePtr = std::shared_ptr<Wire>;
  struct Host {
    bool powered = true;
    ProcessPtr process;
  };

  static size_t index(int host) { return static_cast<size_t>(host); }
  Link& link_of(const std::string& name);
  [[nodiscard]] bool carries(const Link& link, int from) const;
  [[nodiscard]] uint64_t delay_ns(const Link& link);
  void syn(const WirePtr& wire, int from);
  void taken(const WirePtr& wire, int from, uint64_t begin);
  void segment(const WirePtr& wire, int from, uint64_t up_to);
  void window_opened(const WirePtr& wire, int sender);
  void arrive(const WirePtr& wire, int from, uint64_t up_to);
  void repeat(const WirePtr& wire, int from, uint64_t delay_ns = 200 * kMillisecond_ns);
  void send_end(const WirePtr& wire, int from, bool reset);
  void end_arrives(const WirePtr& wire, int from);
  void release(const WirePtr& wire);
  WirePtr new_wire(Link& link);
  void record(const WirePtr& wire, int from, std::span<const std::byte> bytes);
  [[nodiscard]] const Recording* recording_of(const Link& link, int dialler,
                                              wire::FrameType first) const;
  WirePtr stranger_calls(Link& link, int host);
  bool stranger_answers(const WirePtr& wire, int dialler);
  void stranger_says(const WirePtr& wire);
  void stranger_hears(const WirePtr& wire, std::span<const std::byte> bytes);
  void accept_soon(const WirePtr& wire, int host);

  Scheduler& scheduler_;
  Random random_;
  std::array<Host, 2> hosts_;
  std::array<bool, 2> silent_{};
  uint64_t silences_ = 0;
  std::array<bool, 2> dials_blocked_{};  // by the host that dials
  std::map<std::string, Link> links_;  // made when they are first used
  std::vector<std::weak_ptr<Wire>> wires_;
};

}  // namespace twinblock::sim
