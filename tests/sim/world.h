// Two hosts, a network, a client, faults, and an operator who follows the rules: promotes only a
// node that holds all that was promised, and says "the peer is dead" only when it is; but for split
// brains, which are stories of their own.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "crash_check.h"
#include "history.h"
#include "options.h"
#include "random.h"
#include "scheduler.h"
#include "sim_node.h"
#include "virtual_network.h"
#include "workload.h"

namespace twinblock::sim {

// With faults stopped, the pair is in duplex again within this.
constexpr uint64_t kHealingMax_ns = 60 * kSecond_ns;
constexpr uint64_t kAnswerMax_ns = 30 * kSecond_ns;

class World {
 public:
  World(uint64_t seed, const Options& options);
  ~World();
  // One whole run: set-up, faults, healing, and the questions at the end.
  void run();
  [[nodiscard]] const Scheduler& scheduler() const { return scheduler_; }

 private:
  enum class Procedure { kNone, kDemote, kShutDown };
  // One primary's clients, and what they were promised. There is a second one in a split brain.
  struct Side {
    Side(World& world, History past, Random random);
    History history;
    Workload workload;
    bool unflushed_lost = false;  // its node lost power since it was primary
    uint64_t promoted_ns = 0;     // when its node was last promoted
  };

  // An order of the story of orders: what `loser` held by the time at which the giver had last heard it
  // is given up.
  struct GivenOrder {
    int loser;
    uint64_t heard_ns;
  };

  // What an operator was shown last of the other node's writes, before he orders to give them up.
  struct Shown {
    ProcessPtr process;  // which remembers that, too
    uint64_t known_ns = 0;
  };

  // One link as the world sees it.
  struct Lane {
    std::string name;
    LinkFaults usual;           // how it is without a fault: some are slow
    bool faulty = false;        // it will be mended
    bool clogged = false;       // … as it lives, and is slow
    bool away = false;          // removed or disabled by the operator, for a while
    bool contradicted = false;  // the nodes got contradicting orders, and have not agreed since
    uint64_t well_since_ns = 0;
  };

  Workload& workload() { return side_->workload; }
  History& history() { return side_->history; }
  SimNode& node(int host) { return *nodes_[static_cast<size_t>(host)]; }
  void begin();
  void quiesce();
  void power_failure();
  void joint_power_cut();
  [[nodiscard]] std::string describe();
  void wait(uint64_t at_most_ns, const std::function<bool()>& until, const char* for_what);

  // operator
  void operator_turn();
  void renew_turn();
  void promote(int host);
  void promoted(int host);
  void see_resumed();
  void begin_procedure(Procedure procedure);
  void procedure_turn();
  void demoted(int host);
  void look();
  [[nodiscard]] bool both_duplex();
  [[nodiscard]] bool settled();

  void let_join();
  void give_order();
  void end_orders();

  // stories that begin in duplex and end there (split_brain.cc, verification.cc)
  void split_brain();
  void separate(int host);
  void diverge(int host);
  void promote_side(int host);
  bool try_to_promote_side(int host);
  void see_split_brain();
  [[nodiscard]] std::string metadata_in_words(int host);
  void resolve(int winner);
  void demote_loser(int host);
  void order(int host, bool keep_local);
  void contradict(int winner);
  void crash_of(int host);
  void revive(int host);
  [[nodiscard]] bool says_split_brain(int host);
  void orders();
  void order_turn();
  void order_at_any_time(int host, bool keep_local);
  void demote_if_primary(int host);
  void meet_at_last(int winner);
  void go_on_with_winner();
  [[nodiscard]] bool met();
  [[nodiscard]] metadata::NodeRecord record_of(int host);
  void check_loss(int loser, const std::string& story);
  Side& side_of(int host) { return host == split_host_ ? *other_side_ : *side_; }
  void order_before_writes(int loser);
  void check_shown(int giver, bool keep_local, uint64_t known_ns, const Result<std::string>& said);
  void verification();
  void repair_is_cut_off();
  void repair_loses_its_source();
  void promotions();  // promotions.cc
  void demote_primary();
  void ask_twice();
  void return_to_a_new_primary();
  void return_during_a_flush();
  void succeed_with_a_failing_disk();
  void goes_on_beside_a_slow_peer();
  void killed_when_promoted_by_word();
  void check_recorded_as_primary(int host);
  void wait_for_two_secondaries();
  void slow_disk();    // slow_disk.cc
  void full_source();  // full_source.cc
  void both_full();
  void replace_full_disk(int host);
  void unreadable_source();  // unreadable_source.cc
  [[nodiscard]] bool begin_spoiled_resync();
  void read_beside_paused_resync();
  void check_waits_for_disk();
  void mend_source(uint64_t how);
  [[nodiscard]] bool counts_bad_places(int host);
  void failed_flushes();  // failed_flush.cc
  void fail_a_flush(uint64_t story);
  void copied_back();
  void dies_when_whole(int source, int target);
  void loses_memory_midway(int source, int target);
  void dies_early();
  void dies_in_a_flush();
  void dies_before_the_record(int host, Random& apart);
  void stand_in_forgets();
  void dies_while_nothing_is_sent();
  void check_rest(int stands_in);
  void let_the_disk_die(int host);
  void failed_demotion();
  void fail_a_flush_of_nothing(int host);  // late_flush.cc
  bool leave_a_flush_behind(int host);
  void demoted_too_late();
  void fail_flush(int host);
  void end_process(int host);
  void write_some();
  void wait_for_restarts();
  void wait_for_moment(const std::function<bool()>& until, const char* for_what);
  StatusView::Verify verify_all(VerifyOrder order);
  StatusView::Verify verify_pass(VerifyOrder order);
  void verify_around_a_bad_place(const std::vector<uint64_t>& differing);

  // faults
  void fault_turn();
  void inject();
  [[nodiscard]] bool bad_disk(int host);
  [[nodiscard]] bool stands_in(int host);
  void kill(int host);
  void fail_flush_in_death(int host);
  void power_off(int host);
  void cut_power(int host);
  void process_gone(int host);
  void restart_later(int host, uint64_t longest_ns);
  void restart(int host);
  void pause(int host);
  void silence(uint64_t at_most_ns);
  void break_disk(VirtualDisk& disk);
  void peer_disk_error();
  void peer_metadata_error();
  void local_metadata_error();
  // `keep`: nobody else holds what this node does, so that only its trouble passes.
  void replace_local_metadata(bool keep = false);
  [[nodiscard]] bool holds_all(int host);
  void swap_disks(int host);
  void exchange_disks(int host, void (SimNode::*how)());
  void old_disk();  // old_disk.cc
  void join_too_old();
  [[nodiscard]] bool may_lose_a_disk();
  void tempt();
  void heal();
  void quick_return();
  void write_without(int target);
  void begin_paused_resync(int target);
  void demotion_in_resync();

  // the primary's data disk (disk_deaths.cc)
  void local_disk_error();
  void trouble_beside_dead_disk();
  void second_trouble(int host);
  void take_away(int host, bool power);
  [[nodiscard]] bool error_is_due(int host);
  [[nodiscard]] bool no_good_replica(int host);
  [[nodiscard]] bool answers_alone_with_a_dead_disk(int host) {
    return !disk_passes_ && no_good_replica(host);
  }
  void replace_local_disk();
  void end_node(int host);
  [[nodiscard]] bool peer_is_half_copied(int host);
  void disk_replaced(int host);

  // single links (link_faults.cc)
  void make_lanes();
  [[nodiscard]] bool lane_up(const Lane& lane);
  [[nodiscard]] bool others_carry(const Lane& lane);
  void link_fault();
  // What either host sends over it gets lost, and nobody is told.
  void set_silent(const Lane& lane, const std::array<bool, 2>& at);
  void mend(Lane& lane);
  void flap(Lane& lane, const std::array<bool, 2>& at, uint64_t turns);
  void blackout();
  void stranger(Random& chances);
  void silence_in_steps();
  void fraying_links();
  void link_order();
  void order_link(int host, const Lane& lane, LinkOrder order, bool addressed = false);
  bool contradict(Lane& lane, int host, Random& chances);
  [[nodiscard]] bool agreed(const Lane& lane);
  [[nodiscard]] bool parted(const Lane& lane);
  void bring_back(Lane& lane);
  void watch_session();
  void check_session();
  void check_parting();
  void check_links_return();

  // hosts that have too much to do (late_loops.cc)
  void begin_to_be_late();
  void late_turn(int host);
  void check_late_loops();
  void dead_link();
  void dead_peer();
  [[nodiscard]] bool gave_up(int host, const std::string& link);

  // checks
  void check_answer(SimNode& node, const Workload::Request& request);
  [[nodiscard]] bool place_is_bad(SimNode& at, const Workload::Request& request);
  void check_on_both(const Workload::Request& request);
  void check_sole_copy(SimNode& at, const Workload::Request& request);
  void check_knows_to_be_stale(SimNode& at);
  static bool has_given_up_metadata(SimNode& at);
  void check_peer_knows(SimNode& at, const Workload::Request& request);
  void check_wait(SimNode& node, const Workload::Request& request);
  void check_latency();
  void check_identical(const char* when);
  void check_turn();
  void check_now();
  void check_crash();
  void check_nobody_was_put_back(const Remains& a, const Remains& b);
  void check_failed_flush(const Remains& left, SimNode& at, const std::string& story);
  void check_sets(const Remains& a, const Remains& b, Verdict verdict, const std::string& story);
  void check_survival(const Remains& source, const History& promised, const std::string& story);
  void check_left_behind(const Remains& left, const Remains& other, int host,
                         const std::string& story);
  void check_survivor(const Remains& kept, const Remains& source, const std::string& story);
  void check_promoted_without_word(int host);
  void check_all_is_there(int host, const History& promised);
  void check_duplex_now();
  void check_primaries();

  Scheduler scheduler_;
  Random random_;
  Random renewals_;  // apart, so that the others are drawn as without them
  const Options options_;
  Config config_;
  VirtualNetwork network_;
  std::array<std::unique_ptr<SimNode>, 2> nodes_;
  std::unique_ptr<Side> side_;
  std::unique_ptr<Side> other_side_;
  std::vector<std::unique_ptr<Side>> past_sides_;  // events of theirs may still be under way
  Random check_random_;

  // What the operator knows.
  int primary_ = -1;
  int last_primary_ = -1;  // who was it last, also when nobody is
  std::array<bool, 2> may_resume_{};  // that one; and who was to be promoted since and may have it on record
  bool promoting_ = false;
  bool operator_rests_ = false;
  bool clients_rest_ = false;     // a primary's clients wait for a word
  bool records_watched_ = false;  // what the secondary has on record is looked at at each answer
  int busy_host_ = -1;    // it changes its role just now
  uint64_t attempt_ = 0;  // number of that change
  Procedure procedure_ = Procedure::kNone;
  std::array<bool, 2> current_{};           // holds all that was promised
  std::array<bool, 2> intact_{true, true};  // … also what was not flushed
  std::array<bool, 2> knows_primary_{};     // was in duplex with the primary of now
  // Its peer was primary when it was in duplex last, and has gone on alone.
  std::array<bool, 2> left_behind_{};
  std::array<bool, 2> restart_due_{};
  std::array<bool, 2> kept_down_{};  // a restart waits for the other one's promotion
  int dead_disk_host_ = -1;        // the primary's disk died, and is not replaced yet
  bool disk_passes_ = false;       // … it will work again, with what is on it
  uint64_t disk_died_ns_ = 0;
  int forgets_flush_ = -1;  // whose failed flush may be forgotten, as a story looks at that itself
  std::array<bool, 2> joins_{};    // its data may be overwritten, it has no metadata
  std::array<bool, 2> swapped_{};  // it got other disks, and has not been in duplex since
  uint64_t diskless_seen_ns_ = 0;  // 0: the primary has a disk
  uint64_t duplex_seen_ns_ = 0;    // … and 0: the session is not duplex
  int survivor_ = -1;  // holds all that was acknowledged by the primary that died; -1: nobody
  bool initialised_ = false;
  bool verify_may_find_ = false;  // a disk was bad while the process runs
  int split_host_ = -1;           // it was promoted beside a living primary
  bool diverged_ = false;         // … and both have acknowledged writes since
  bool ordered_ = false;          // … and an order says whose to keep
  bool resolving_ = false;        // … and may be carried out by now
  bool ordering_ = false;         // orders are given at any moment
  std::vector<GivenOrder> given_orders_;
  std::array<std::array<Shown, 2>, 2> shown_;  // by giver, and whether he keeps his own
  std::array<uint64_t, 2> apart_generations_{};  // of the two, before they met
  bool corrupted_ = false;        // blocks of a disk were changed by nobody
  bool errors_allowed_ = false;   // the client's only good disk is full now and then
  bool no_room_ = false;          // both disks are full, now and then, or hold what they have taken of writes that they refused
  bool checking_ = false;
  bool dead_is_metadata_ = false;
  bool faults_on_ = false;
  uint64_t last_trouble_ns_ = 0;
  std::vector<uint64_t> identical_ns_;       // when a block was last seen to be the same at both
  std::vector<Lane> lanes_;                  // never grows after the start
  uint64_t clogged_until_ns_ = 0;            // a link that lives was slow
  uint64_t stranger_until_ns_ = 0;           // one who says hello has an answer by then
  bool late_ = false;                        // loops stand still now and then …
  uint64_t late_max_ns_ = 0;                 // … for so long at the most
  bool session_watched_ = false;             // it may not be lost …
  std::array<StatusView, 2> before_;         // … since then
  bool slow_disks_ = false;                  // there were any
  bool healed_ = false;  // all faults have ended: what fails since then does so in a story
  std::array<uint64_t, 2> hung_until_ns_{};  // a disk of that node, with what had queued up …
  std::array<uint64_t, 2> metadata_hung_until_ns_{};  // … and that of its metadata
};

}  // namespace twinblock::sim
