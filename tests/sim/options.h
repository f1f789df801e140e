// What a run is made of: everything but the seed's own chances.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.h"
#include "random.h"

namespace twinblock::sim {

// Faults happen about this often; 0: never.
struct FaultPlan {
  uint64_t interval_ns = 3 * kSecond_ns;
  unsigned kill = 0;  // relative weights
  unsigned power_off = 0;
  unsigned pause = 0;
  unsigned reset = 0;
  unsigned silence = 0;
  unsigned slow_disk = 0;
  unsigned hang_disk = 0;
  unsigned peer_disk_error = 0;
  unsigned local_disk_error = 0;
  unsigned peer_metadata_error = 0;
  unsigned local_metadata_error = 0;
  unsigned switch_roles = 0;
  unsigned restart = 0;     // orderly
  unsigned order = 0;       // of the operator: pace of the resync, verification, going on alone
  unsigned link = 0;        // of one link: cut, silent, clogged, reset, flapping
  unsigned link_order = 0;  // of the operator: remove, add, disable, enable
  unsigned blackout = 0;    // all links silent, for less than link_timeout
  unsigned swap = 0;        // of a node's disks, with their metadata, for blank or for earlier ones
};

struct Options {
  uint64_t volume_bytes = 256 * kKiB;
  uint64_t write_bytes_max = 64 * kKiB;
  unsigned links = 1;
  uint64_t link_timeout_ns = 500 * kMillisecond_ns;
  uint64_t peer_timeout_ns = 2 * kSecond_ns;
  uint64_t disk_timeout_ns = 15 * kSecond_ns;
  uint64_t cache_bytes = 0;  // of the cache of reads; 0: there is none
  bool freeze = false;
  bool resume = false;  // a node goes on as primary, as which its process had ended
  uint64_t absence_ns = 0;  // some nodes and connections are away for up to this; 0: seconds
  uint64_t faulty_ns = 15 * kSecond_ns;  // how long there are faults
  unsigned depth = 8;                    // client requests outstanding
  uint64_t think_max_ns = 20 * kMillisecond_ns;
  uint64_t hot_bytes = 0;  // requests go to a part of this size, which moves on; 0: everywhere …
  uint64_t hot_ns = 0;     // … after this time
  uint32_t region_bytes = 64 * kKiB;  // of the intent map
  double flush_share = 0.05;
  double fua_share = 0.1;
  double zero_share = 0.1;
  double read_share = 0.3;
  double compressed_share = 0;  // of the pieces of writes; 0: compression is off and stays so
  bool split_brains = false;    // the operator is wrong about a dead peer
  bool orders = false;          // … and orders to resolve it are given at any moment
  bool corruption = false;      // disks go bad without a word; verification finds it
  bool session_lasts = false;   // one link lives at any moment: the session may not be lost
  uint64_t late_max_ns = 0;     // the nodes' loops stand still for up to this, all the time; 0: never
  uint64_t renew_ns = 0;        // the operator gives all links new connections, this often; 0: never
  bool hasty = false;           // … although it may have to be dialled first
  uint64_t diskless_ns = 0;     // a primary works on its peer's replica for up to this; 0: for seconds, with nothing else
                                // wrong meanwhile
  // The run ends with a story:
  bool quick_return = false;        // a primary that is back soon after its death
  bool demotion_in_resync = false;  // one that is demoted before its peer is up to date
  bool silence_in_steps = false;    // links that go silent in one direction, then in both
  bool fraying_links = false;       // links that come up and break, before any data is through
  bool old_disk = false;            // a disk that comes back late, and is cut off again and again
  bool promotions = false;          // while a record takes long
  bool goes_on = false;             // a primary that does, while its peer records slowly
  bool word_and_kill = false;       // promoted by the operator's word, and killed before it writes
  bool failed_flushes = false;      // that nobody on the host remembers
  bool failed_demotion = false;     // for its metadata disk
  bool unreadable_source = false;   // a resync whose source's disk can't be read in some places
  bool full_source = false;         // a resync whose source's disk is full now and then
  bool both_full = false;           // both disks fill at the same write
  bool slow_disk = false;           // the secondary's disk works, but slowly
  bool lineage = false;             // nothing of the above: see lineage.h
  bool witness = false;             // … see witnessed.h
  bool rollback = false;            // … see rolled_back.h
  bool grow = false;                // … see grown.h
  bool snapshot = false;            // … see snapshotted.h
  bool unread = false;              // … see unread.h
  bool vouched = false;             // … see vouched.h
  bool confirmed = false;           // … see confirmed.h
  bool sole = false;                // … see sole_copy.h
  bool far = false;                 // … see far_apart.h
  FaultPlan faults;
};

// "mixed" draws one of the others.
constexpr const char* kModes =
    "mixed calm network links crash power disk metadata hang roles freeze idle split orders verify "
    "resync swap slow late lineage resume renewal witness grow rollback snapshot unread confirmed far sole vouched diskless";
// False: there is no such mode.
bool make_options(const std::string& mode, Random& random, Options& options);

}  // namespace twinblock::sim
