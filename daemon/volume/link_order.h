// What an operator orders about a link. Codes; any thread.
#pragma once

#include <string>

namespace twinblock {

enum class LinkOrder { kAdd, kRemove, kEnable, kDisable };

// What the link is then: "added", …
const char* done_word(LinkOrder order);

// An order that the peer does not follow, and why.
struct RefusedLinkOrder {
  std::string link;
  LinkOrder order;
  std::string reason;
};

}  // namespace twinblock
