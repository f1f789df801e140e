// How a node comes to hold a volume: `init` begins a new history of it here, `init --join` lets the
// peer's overwrite what is here.
//
// Owned by the engine; loop thread only.
#pragma once

#include <functional>
#include <string>

#include "volume/core.h"
#include "volume/disk_health.h"
#include "volume/roles.h"
#include "volume/simplex_gate.h"

namespace twinblock {

class FirstRecord {
 public:
  class Owner {
   public:
    // What is said of the volume may be another state now.
    virtual void note_state() = 0;

   protected:
    ~Owner() = default;
  };
  // A sentence for the operator, or an error with an action.
  using Reply = std::function<void(Result<std::string>)>;

  FirstRecord(Core& core, const DiskHealth& disks, SimplexGate& gate, const Roles& roles,
              Owner& owner)
      : core_(core),
        disks_(disks),
        gate_(gate),
        roles_(roles),
        owner_(owner) {}

  void init(bool force, bool join, Reply reply);
  // Makes the record durable as the first one of its history.
  void write(metadata::SuperblockStore::Done done);

 private:
  [[nodiscard]] Session& session() const { return core_.session; }
  void persist_all(const metadata::SuperblockStore::Done& done);
  void order_join(Reply reply);
  [[nodiscard]] std::string described_history() const;
  [[nodiscard]] std::string beside_peer() const;

  Core& core_;
  const DiskHealth& disks_;
  SimplexGate& gate_;
  const Roles& roles_;
  Owner& owner_;
};

}  // namespace twinblock
