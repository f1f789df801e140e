// What speaks against this node's becoming primary: its own state, what its peer is, and, where there is no session,
// what only the operator or a witness can know. In sentences for the operator. Owned by Roles; loop thread only.
#pragma once

#include <optional>

#include "base/result.h"
#include "volume/asked_record.h"
#include "volume/consent.h"
#include "volume/core.h"
#include "volume/disk_health.h"

namespace twinblock {

class Roles;
class RolesOwner;

class Candidacy {
 public:
  // Roles' and the engine's.
  struct Parts {
    const AskedRecord& asked;
    const Consent& consent;
    const DiskHealth& disks;
    const RolesOwner& owner;
  };
  Candidacy(const Core& core, const Roles& roles, const Parts& parts) : core_(core), roles_(roles), parts_(parts) {}

  // `peer_is_dead`: by the operator's word.
  [[nodiscard]] std::optional<Error> why_not(bool peer_is_dead) const;
  // Nothing but that the peer is primary, in a session that stands.
  [[nodiscard]] bool only_beside_a_primary() const { return peer_is_primary() && !why_not_serve(); }
  // The peer that was refused last has said that it is primary.
  [[nodiscard]] bool refused_peer_is_primary() const;
  // This node has no disk to serve from.
  [[nodiscard]] std::optional<Error> disk_failed() const;

 private:
  [[nodiscard]] std::optional<Error> why_not_serve() const;
  [[nodiscard]] std::optional<Error> why_word_is_needed() const;
  [[nodiscard]] Error why_rolled_back() const;
  [[nodiscard]] bool peer_is_primary() const;

  const Core& core_;
  const Roles& roles_;
  const Parts parts_;
};

}  // namespace twinblock
