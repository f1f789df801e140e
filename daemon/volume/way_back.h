// A way back before a resync: a copy of this node's backing, taken before the node becomes half-copied, and
// brought back by the operator's order where the source died before it had ended.
//
//   asked to become half-copied ─▶ the copy is taken ─▶ recorded with the mark ─▶ whole ─▶ removed
//                                                                └─▶ order() ─▶ brought back
//
// While the copy is taken the source is answered EINPROGRESS, and asks again. The copy counts for the
// session in which it was taken: nothing was written to the backing in between. One that the source did not
// come back for is removed, since it pins what the backing held, and there may be no next resync. Of an earlier
// process' nobody knows: the next copy takes its place.
//
// What was brought back lacks what the source has acknowledged since, in a generation that the source may
// still be in. So it is a history of its own in which that generation does not occur: neither node is brought
// up to date from the other one before an operator has said whose writes count. What the two hold differs
// anywhere: the source's set is about what the half-copied node missed. That is on record before
// the first byte is brought back, so that a rollback that is cut off can be ordered again, and a resync in its
// place looks at every block.
//
// Owned by the engine; loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "io/copies.h"
#include "volume/core.h"
#include "volume/disk_health.h"
#include "volume/replica.h"
#include "volume/roles.h"

namespace twinblock {

class WayBack {
 public:
  // A sentence for the operator, or an error with an action.
  using Reply = std::function<void(Result<std::string>)>;

  struct Parts {
    Copies* copies;  // null: none can be taken
    const DiskHealth& disks;
    const Replica& replica;
    const Roles& roles;
    std::function<void()> note_state;  // what is said of the volume may be another state now
  };
  WayBack(Core& core, Parts parts);

  // The source asks this node to become half-copied. False: not yet, or the session was dropped.
  [[nodiscard]] bool may_become_half_copied();
  // What goes on record with that: nothing, if there is no copy of now. `to_get_bytes`: that may differ.
  [[nodiscard]] std::optional<metadata::WayBack> to_record(uint64_t to_get_bytes);
  // That this node is whole is on record.
  void whole();
  void session_lost();

  // The operator's.
  void order(Reply reply);
  // No session may come up.
  [[nodiscard]] bool rolling_back() const { return rollback_.has_value(); }
  // The resync waits for it.
  [[nodiscard]] bool taking() const {
    return copy_ && copy_->state == CopyState::kWanted && core_.phase().still(copy_->session);
  }
  // Why there was none the last time; empty: there was, or none was wanted.
  [[nodiscard]] const std::string& failure() const { return failure_; }

 private:
  enum class CopyState { kWanted, kTaken, kFailed };
  // The one that this session's resync wants.
  struct Copy {
    uint64_t session;
    uint64_t since_ns;
    CopyState state = CopyState::kWanted;
    uint64_t taken_s = 0;
  };
  using Then = std::function<void(const Status&)>;

  [[nodiscard]] bool worth_keeping() const;
  [[nodiscard]] uint64_t patience_ns() const;
  void run(CopyStep step, Then then);
  void ended(const Status& status);
  void given_up();
  void taken(uint64_t session, const Status& status);
  void not_taken(const Error& error);
  void lapse();
  void not_needed();
  void remove();
  [[nodiscard]] std::optional<Error> why_not_now() const;
  [[nodiscard]] std::optional<Error> why_not() const;
  void bring_back();
  void brought_back(const Status& status);
  void rolled_back(const metadata::WayBack& was);
  void rollback_failed(const Error& error);
  void end_rollback(Result<std::string> result);

  Core& core_;
  const Parts parts_;
  const std::unique_ptr<Timer> guard_;
  std::optional<CopyStep> step_;  // under way
  uint64_t step_number_ = 0;
  Then then_;
  std::optional<Copy> copy_;
  std::optional<Reply> rollback_;  // who is answered when it has ended
  bool kept_;               // a copy is there of which the record says so, or said
  bool unnamed_ = false;    // … of which it does not
  bool to_remove_ = false;  // … not any more: it is removed when nothing else is under way
  std::string failure_;
};

}  // namespace twinblock
