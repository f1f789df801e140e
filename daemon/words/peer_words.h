// What to do about a peer without which there is no session. Pure; any thread.
#pragma once

#include <string>

namespace twinblock {

// A part of a sentence: "start twinblockd on …", unless the peer runs already. Where the session stands there is
// nothing to bring back: who asks knows that, and has other words. `answers`: the address of a link does.
std::string bring_back(const std::string& peer, bool answers);
// … as its beginning.
std::string capitalised(std::string words);

}  // namespace twinblock
