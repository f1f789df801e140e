// A third party that has a say in who goes on without the other (invariant 15): a register, of which
// one entry is replaced by compare-and-set, or a command that fences the peer. What follows from its
// answers is decided by volume/consent.h. Implemented by io/posix and by the simulator. Loop thread
// only; nothing here blocks it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"

namespace twinblock {

// What stands at the witness of one volume.
struct WitnessEntry {
  std::string volume_uuid;  // of the volume that it is about, as format_uuid() has it
  uint64_t generation = 0;  // the history that counts: who does not know it has missed something
  std::string holder;       // the node that was let go on with it alone; empty: both nodes share it

  bool operator==(const WitnessEntry&) const = default;
};

struct WitnessReading {
  std::optional<WitnessEntry> entry;  // none: nothing stands there
  int64_t revision = 0;               // changes with every replacement; 0: nothing stands there
  bool unmarked = false;              // it has no mark (Witness::mark()), and gets one when it is replaced
};

// Each request ends within its time limit. `done` is called on the loop, never from within the request,
// and not any more when the witness is gone.
class Witness {
 public:
  virtual ~Witness() = default;
  // What stands for the volume. An error: it could not be asked, or what it says makes no sense; a
  // sentence for the operator, and what to do.
  virtual void read(const std::string& volume, const std::string& volume_uuid,
                    std::function<void(Result<WitnessReading>)> done) = 0;
  // Replaces it, if what stands there is still of `revision` (0: if nothing stands there). False:
  // it was not, and nothing was replaced. After an error nobody knows whether it was, or still will be.
  virtual void replace(const std::string& volume, int64_t revision, const WitnessEntry& entry,
                       std::function<void(Result<bool>)> done) = 0;
  // For users: "etcd at http://10.0.0.3:2379".
  [[nodiscard]] virtual std::string name() const = 0;
  // A random number that stands with the entry from its first replacement on, by which two nodes find out that they ask the
  // same register: what was read or written last; 0: not known.
  [[nodiscard]] virtual uint64_t mark() const { return 0; }
};

struct FenceCall {
  std::string volume;
  std::string node;
  std::string peer;
  std::string peer_address;  // of the first link, without the port
  bool promotion = false;    // this node is to be promoted; false: it is primary, and lost its peer
};

// A command that sees to it that the peer does not go on, and says so by its exit status.
class FenceCommand {
 public:
  virtual ~FenceCommand() = default;
  // One at a time. `done` gets the exit status (0 to 255), or an error: it could not be started, was
  // ended by a signal, or at its deadline. As of Witness.
  virtual void fence(const FenceCall& call, std::function<void(Result<int>)> done) = 0;
  // For users: its path.
  [[nodiscard]] virtual std::string name() const = 0;
};

}  // namespace twinblock
