// Asks the witness for the right to go on without the peer, and tells it when both nodes are together
// again (invariant 15). It is asked when a primary loses its peer, before the first acknowledgement that
// the peer would miss, and before a node is promoted without its peer; in duplex nobody waits for it.
//
// Nobody reads what is old, either (WorkerView::lease_holds()): a primary reads by itself only for a while after it
// sent the last heartbeat that the peer has answered: for its own peer timeout or the one that the peer has told in this
// session, whichever is less (Stance::peer_waits_until_ns()). The peer lets its own pass after it heard this node last,
// before it asks to be promoted without it; and, before its first session, what any lease may last since it was started, as
// an earlier process of another file may have told more. A fence command makes sure by itself.
//
//   right    ─▶ the claim on record ─▶ read ─▶ judge_claim() ─▶ replace ─▶ AloneRight::grant()
//   settle   ─▶ read ─▶ the peer answers ─▶ replace by {the shared generation, nobody}
//                                                                       (in duplex, in the background)
//   sole copy ─▶ read ─▶ judge_claim() ─▶ replace by {the peer's generation, the peer}
//                                             (in the background, where this node's own record says it)
//
// A fence command is run instead of the first; its exit status says who goes on. One request is under way
// at a time; one that failed may have been carried out, or still be: by its revision it can't replace
// anything that came later.
//
// Owned by the engine; loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "io/witness.h"
#include "volume/core.h"
#include "volume/witness_view.h"

namespace twinblock {

class Consent {
 public:
  // Nothing: this node has the right to go on alone; else why not, and what to do.
  using Then = std::function<void(std::optional<Error>)>;

  class Owner {
   public:
    // Whether this node is primary and serves …
    [[nodiscard]] virtual bool serves() const = 0;
    // … and has a replica of its own to go on with.
    [[nodiscard]] virtual bool may_want_to_go_on() const = 0;
    // Its disk stands still, or takes no record: it could promise nothing, and is not in the peer's way.
    [[nodiscard]] virtual bool may_promise_nothing() const = 0;
    // Whether everything is to be sent to another replica than before, which takes the right as well.
    [[nodiscard]] virtual bool takes_in_another() const = 0;
    // What waited for the witness may go on, or has to wait.
    virtual void right_changed() = 0;
    // Reads need not wait any more, if any do.
    virtual void may_read() = 0;
    // The peer went on alone, and this node did not: its clients' data is old. It becomes secondary.
    virtual void yield() = 0;
    // By which both nodes find out that they ask the same witness (Witness::mark()).
    virtual void witness_answered(uint64_t mark) = 0;

   protected:
    ~Owner() = default;
  };
  struct Asked {
    Witness* witness;     // where the file has kind = "etcd"; else null
    FenceCommand* fence;  // … "command"
  };

  Consent(Core& core, const Asked& asked, Owner& owner);

  // This node's file has one; …
  [[nodiscard]] bool configured() const { return core_.stance().alone_right().witness() != WitnessKind::kNone; }
  // … and so has the peer's.
  [[nodiscard]] bool asks() const { return core_.stance().alone_right().asks(core_.record()); }
  // Before anybody may read in a phase that is just entered: who takes part reads by the peer's word only.
  void set_lease();
  // After whatever may have changed who goes on with whom; often, and cheap.
  void look();
  void session_up(const SyncFacts& mine, const SyncFacts& peer);

  // Before a promotion, or the resumption of a primary, without a session. Answers once, when the
  // witness has, or could not be asked; not at all when the peer is back before. Not while another one waits.
  void ask_for_promotion(Then then);
  // … or for the operator's word in its place to be on record.
  [[nodiscard]] bool promotion_waits() const { return promotion_ != nullptr || word_is_recorded_; }
  // Nobody waits for the answer any more.
  void forget_promotion() { promotion_ = nullptr; }
  // The operator's word in place of the witness', which is told of it as soon as it can be reached. `then`
  // gets an error only where the claim can't be recorded.
  void take_word(Then then);

  // The peer has it on record that it holds the only copy, in this generation: the entry is to name it, so
  // that no process of this node that knows nothing of it gets consent. `then`: it does, or the witness
  // could not be asked, after which it still is; not when the session has ended before.
  void name_sole_copy(uint64_t generation, std::function<void()> then);

  [[nodiscard]] const WitnessView& view() const { return view_; }

 private:
  enum class Task { kNone, kRight, kSettle, kForce, kSoleCopy };

  [[nodiscard]] Task task() const;
  [[nodiscard]] bool wants_right() const;
  [[nodiscard]] bool waits() const;
  void stand_aside();
  // The peer is there, and this node goes on with it: a no was about the time before.
  [[nodiscard]] bool needs_no_answer() const { return core_.session.up() && !wants_right(); }
  [[nodiscard]] uint64_t lease_until_ns() const;
  // Whether the request that is under way is still about what it was begun for: this node has not met the peer since, nor
  // given its disk up, say.
  [[nodiscard]] bool is_of_now() const {
    return asked_about_ == core_.stance().alone_right().withdrawals() && (running_ != Task::kRight || wants_right());
  }
  void begin(Task task);
  void record_claim();
  void read();
  void judge(const WitnessReading& reading);
  void judge_settling(const WitnessReading& reading);
  void judge_sole_copy(const WitnessReading& reading);
  void sole_copy_named();
  void confirm();
  void replace(int64_t revision, const WitnessEntry& entry);
  void replaced(const WitnessEntry& entry);
  void fence();
  void fenced(const Result<int>& status);
  void note(void (ReplicaHistory::*what)());
  void granted();
  void refused(WitnessStanding standing, Error why);
  void failed(Error why);
  void end(uint64_t pause_ns);
  void answer(std::optional<Error> error);
  void set_standing(WitnessStanding standing, const Error& why);
  void look_whether_overtaken();
  void let_go();

  Core& core_;
  const Asked asked_;
  Owner& owner_;
  const std::unique_ptr<Timer> timer_;
  Then promotion_;
  Task running_ = Task::kNone;
  bool word_is_recorded_ = false;  // just now
  uint64_t recorded_claim_ = core_.record().claim;  // the last one that is durable; 0: none
  uint64_t asked_about_ = 0;  // AloneRight::withdrawals() when the request that is under way began
  uint64_t pause_until_ns_ = 0;
  uint64_t pause_ns_ = 0;     // the last one, after a failure
  uint32_t races_ = 0;        // replacements that came too late, in a row
  // Both nodes are together, as the peer has said since the entry was read: it may be replaced.
  struct Confirmation {
    int64_t revision;
    uint64_t read_ns;
  };
  std::optional<Confirmation> to_confirm_;
  uint64_t settled_ = 0;      // the generation that the witness knows both nodes to share …
  uint64_t settled_at_ns_ = 0;
  uint64_t sole_copy_ = 0;    // the generation of the peer's that is still to be named; 0: none
  std::function<void()> sole_copy_then_;
  uint64_t peer_reads_until_ns_;  // it may, at least, by what an earlier process told; 0: that is past
  WitnessView view_;
};

}  // namespace twinblock
