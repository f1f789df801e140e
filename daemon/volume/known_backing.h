// What this node knows of its backing: whether it is the one that the record is about, whether what the record promises
// was found in it, and who vouches for what is there. A part of NodeState, which tells it what happens to the replica, and
// makes it durable. Loop thread only.
#pragma once

#include <cstdint>

#include "base/data_search.h"
#include "metadata/superblock.h"

namespace twinblock {

// io/posix/backing_number.h; 0: not known.
struct BackingNumbers {
  uint64_t backing = 0;
  uint64_t metadata = 0;  // of what the record lies in
};

class KnownBacking {
 public:
  // `found` in it as the process begins. `record` outlives it.
  KnownBacking(metadata::NodeRecord& record, DataFound found, const BackingNumbers& numbers)
      : record_(record), numbers_(numbers), found_(found) {}
  // The record was read.
  void load();

  // What was found there when the process began.
  [[nodiscard]] DataFound found() const { return found_; }
  // A blank node has looked again.
  void found_now(DataFound found) { found_ = found; }
  // Held data once, but none were found.
  [[nodiscard]] bool lost() const { return lost_; }
  // … and nobody has said that what is there is right, by a promotion: the peer may have come up without its disk, too.
  [[nodiscard]] bool unvouched() const { return lost_ && !vouched_; }
  // A session begins. Only a peer that found data, or is primary, shows by being the same, or by a copy, that what is here is.
  void meet(bool peer_is_believed) { peer_is_believed_ = peer_is_believed; }
  // This node, or the peer in a session, becomes primary; `both_whole`: they are the same by then;
  // where not, all of an empty backing may differ, on record.
  void vouch(bool both_whole);

  // The record is about another backing than the one that is here: every block of it may differ from the peer's, whatever the
  // record says. It stays so, also in the processes to come, until the record is about what is here …
  [[nodiscard]] bool other() const { return other_; }
  // (It was copied together with its record, as that lies in another place, too.)
  [[nodiscard]] bool moved_together() const;
  // … from now on: before anything is written here.
  void take();

  // A volume begins with what is here; it is to be filled for the first time, …
  void begins_volume();
  void joins();
  // … or anew, from the peer; it has been, or both hold the same anyway; both were found to hold the same.
  void is_to_be_filled();
  void is_as_the_peer_s() { lost_ = lost_ && !peer_is_believed_; }
  void is_found_equal();
  // This node holds what the peer may miss, or has been made equal: what was vouched for counts.
  void counts_as_vouched() { lost_ = unvouched(); }

 private:
  void name();
  void doubt_all();

  metadata::NodeRecord& record_;
  const BackingNumbers numbers_;
  DataFound found_;
  bool lost_ = false;
  bool other_ = false;
  bool vouched_ = false;
  bool peer_is_believed_ = false;
};

}  // namespace twinblock
