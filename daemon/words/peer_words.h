// What to do about a peer without which there is no session, and what only that one may hold. Pure; any thread.
#pragma once

#include <string>

namespace twinblock {

// A part of a sentence: "start twinblockd on …", unless the peer runs already. Where the session stands there is
// nothing to bring back: who asks knows that, and has other words. `answers`: the address of a link does.
std::string bring_back(const std::string& peer, bool answers);
// … as its beginning.
std::string capitalised(std::string words);
// Of a node whose host lost its memory while it was primary beside that peer, or followed it: a part of a sentence.
std::string may_hold_more_words(const std::string& peer, bool was_primary);

// What serves what a node has without that peer, by the operator's word: an order.
std::string promote_by_word(const std::string& volume, bool without_witness);

// What helps a primary beside a witness that can put nothing on record: the end of a sentence.
std::string take_over_words(const std::string& volume, const std::string& peer, bool answers);
// What becomes of requests that wait at a primary whose peer has gone on without it: the end of a sentence.
std::string vain_words(const std::string& volume);

}  // namespace twinblock
