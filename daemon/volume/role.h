// Which node may write, as one node sees it. Codes; any thread.
#pragma once

namespace twinblock {

enum class Role { kSecondary, kPromoting, kPrimary, kDemoting };
enum class PeerRole { kUnknown, kSecondary, kPrimary };

// As users see it: who demotes is primary until that is done.
constexpr bool is_primary(Role role) { return role == Role::kPrimary || role == Role::kDemoting; }

}  // namespace twinblock
