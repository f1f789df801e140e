// Where a role is settled, what is on record says the same: it is what a later process, and the peer, go by. (It is not
// where one that was not settled is taken back: of that the record says what it did before.) Used by Roles; loop thread
// only.
#pragma once

#include "base/checks.h"
#include "metadata/superblock.h"
#include "volume/role.h"

namespace twinblock {

inline void settle_role(Role& role, Role settled, const metadata::NodeRecord& record) {
  TB_CHECK(settled != Role::kPrimary || record.primary, "who is primary is that on record");
  TB_CHECK(settled != Role::kSecondary || !record.primary, "who is secondary is not primary on record");
  role = settled;
}

}  // namespace twinblock
