// Two nodes, a third party that says who goes on alone, and nobody who keeps any rule: nodes are killed,
// lose power, stand still; the ways between any two of the three are cut, in one direction or both; the
// witness loses requests and answers, carries them out late, goes away, comes back with or without what it
// knew. On each node somebody promotes it whenever its peer is not primary, as twinblock-promoter does,
// and nobody ever vouches for anything. Clients write and read wherever they are let in.
//
// What must hold: all that is read and written, on both nodes, is one history (History says when; here
// of whole blocks, and across nodes); the two never both move on; clients get no error while a node waits;
// and when all is mended, the two are in duplex and the same without anybody's help.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "node_pair.h"
#include "virtual_witness.h"

namespace twinblock::sim {

class Witnessed final : public NodePair {
 public:
  explicit Witnessed(uint64_t seed);
  ~Witnessed();
  void run();

 private:
  static constexpr uint64_t kNever = ~uint64_t{0};
  static constexpr uint64_t kHealingMax_ns = 60 * kSecond_ns;

  // The operations on one value of one block: its write, and the reads that returned it (Gibbons and
  // Korach: two values of which each has an operation that ended before one of the other began are in no
  // order).
  struct Value {
    uint64_t first_end_ns = kNever;
    uint64_t last_begin_ns = 0;
    bool acknowledged = false;
  };
  using Block = std::map<uint64_t, Value>;  // by the number of the write; 0: as it was at first
  struct Request : NumberedWrite {  // or a read, or a flush
    std::vector<ContentTag> tags;
    uint64_t began_ns = 0;
    bool done = false;
  };
  // The clients of one node's process.
  struct Client {
    bool open = false;
    bool leaves = false;  // it asks for nothing more, since the node is to be demoted
    uint64_t life = 0;    // another one with each process, and each time they are cut off
    std::map<uint64_t, std::unique_ptr<Request>> requests;
  };

  Client& client(int host) { return clients_[static_cast<size_t>(host)]; }
  [[nodiscard]] bool lives(int host) { return node(host).running() && !node(host).paused(); }
  void begin();
  void promoter_turn(int host);
  void client_turn(int host);
  void ask(int host, ClientOp op);
  void answered(int host, uint64_t id);
  void learn(size_t block, uint64_t number, uint64_t began_ns, uint64_t ended_ns, int host);
  void check_fencing(int host);
  void cut_off(int host);
  void gone(int host);
  void fault();
  void stop(int host, bool power);
  void lose_power(int host);
  void start_later(int host, uint64_t longest_ns);
  void start(int host);
  void demote(int host);
  void swap_disks(int host);
  void witness_fault();
  void word_about_a_dead_peer();
  void cut_apart(Random& apart);
  void stall_disk(Random& apart);
  void let_go_on(Random& apart);
  void check_that_it_waits(int host);
  [[nodiscard]] bool register_is_settled();
  void without_witness();
  void mend();
  void replace_what_is_too_old(int host);
  void look();
  void check_entry();
  void check_end();
  [[nodiscard]] uint64_t number_at(int host, size_t block);
  [[nodiscard]] bool at_one();
  [[nodiscard]] std::string describe();

  Config unwitnessed_;   // the same without [witness] …
  bool without_ = false;  // … which is in force by now
  // Operators change peer_timeout in one host's file and then in the other's: each process begins with either.
  bool files_differ_ = false;
  Config other_file_;
  bool disk_stalls_ = false;  // now and then, the primary's
  // Clients wait for a lost peer (on_peer_loss), until an operator lets them go on. A process that begins in a generation
  // that the peer may have asks nobody in its place, unless it is ordered to.
  bool freezes_ = false;
  std::array<bool, 2> may_ask_{};
  VirtualRegister register_;
  VirtualFence fence_;
  std::array<Client, 2> clients_;
  std::array<bool, 2> start_due_{};
  std::vector<Block> blocks_;
  bool power_cuts_ = false;
  // Each write is on stable storage before it is acknowledged. Where they are not, only a secondary in
  // duplex loses power: what was acknowledged is at the primary then.
  bool fua_ = false;
  uint64_t writes_ = 0;
  uint64_t ids_ = 0;
  uint64_t acknowledged_ = 0;
  // Disks are, or the witness loses what it knew: after both, only an operator could say who counts.
  bool swaps_ = false;
  // The node whose disks were, last; -1: none yet. Another replica may be waiting for the witness then.
  int swapped_ = -1;
};

}  // namespace twinblock::sim
