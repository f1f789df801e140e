// What a node knows of its witness at one moment, for status. Codes and figures; the texts are names,
// and what a system call, the witness or a command said.
#pragma once

#include <cstdint>
#include <string>

#include "config/config.h"

namespace twinblock {

enum class WitnessStanding {
  kNone,         // there is no witness
  kUnasked,      // nobody has asked it yet
  kAsking,       // … since nothing else is known
  kAgreed,       // it answered, and is content
  kRefused,      // it names another node's generation, or a fence command refused
  kLost,         // it knows nothing of this volume: it was not told yet, or has lost it
  kUnreachable,  // it could not be asked, or said nothing that makes sense
  kOff,          // the two nodes' files have not the same kind
};

// "none", "unknown", "asking", "agreed", "refused", "lost", "unreachable", "off": in events and --json.
const char* standing_name(WitnessStanding standing);

struct WitnessView {
  WitnessKind kind = WitnessKind::kNone;
  std::string name;  // of the witness, for users
  WitnessStanding standing = WitnessStanding::kNone;
  std::string holder;       // the node that goes on alone, by the witness; empty: nobody, or not known
  uint64_t generation = 0;  // of the entry; 0: not known
  std::string error;        // why it did not agree: a sentence …
  std::string action;       // … and what to do
  bool waits = false;       // clients' requests wait for it
  bool copy_waits = false;  // … and so does the copy to a replica that is to join
};

// It is an etcd, and is asked.
bool asks_register(const WitnessView& view);

// What it said is about the replicas, by what stands at etcd, or does not.
bool is_about_replicas(const WitnessView& view);
// … there stands another generation, whoever that is of.
bool names_another(const WitnessView& view);

}  // namespace twinblock
