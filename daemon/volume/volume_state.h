// The state of a volume in one word, and what it follows from. Pure; any thread.
#pragma once

#include "volume/role.h"

namespace twinblock {

// Names and meanings are the same in logs, in `status` and in the docs.
enum class VolumeState {
  kBlank,       // no metadata: waits for `init`, or for a peer that has been initialised
  kWaiting,     // secondary without a session
  kConnecting,  // primary or secondary whose session is being set up for the first time
  kConnected,   // both nodes are secondary and know of no difference
  kDuplex,      // one node is primary, both replicas are whole and receive every write
  kDegraded,    // as kDuplex, but this node's disk can't be read everywhere: the peer stands in
  kDiskless,    // the primary's disk failed: it works on the peer's replica, the only good one
  kResync,      // one replica is being brought up to date
  kSimplex,     // primary, alone; what the peer misses is recorded
  kFrozen,      // primary, alone, and writes wait (on_peer_loss = "freeze")
  kRefused,     // the nodes can't work together; `status` and `action` say why
  kFailed,      // the local disk failed, and no peer stands in
};
const char* state_name(VolumeState state);

enum class DataState { kBlank, kCurrent, kInconsistent, kFailed };
const char* data_state_name(DataState state);

// How one node stands, with its peer and alone.
struct Standing {
  Role role = Role::kSecondary;
  PeerRole peer = PeerRole::kUnknown;
  bool blank = false;       // this node has no record
  bool disk_ok = true;      // the local replica is in use
  bool unreadable = false;  // … but not in some places
  bool frozen = false;      // writes wait for the peer
  bool connected = false;   // a session stands, and in it:
  bool resyncing = false;   // one replica is being brought up to date
  bool sole_copy = false;   // one of the two replicas is the only good one
  bool peer_whole = false;  // the peer receives every write and is whole
  bool in_sync = false;     // both are whole, and this node knows
  bool refused = false;     // no session: the nodes can't work together …
  bool both_blank = false;  // … since both wait for `init`
};
VolumeState state_of(const Standing& node);

}  // namespace twinblock
