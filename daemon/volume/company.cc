#include "volume/company.h"

#include <algorithm>

namespace twinblock {

void Company::session_up(const SyncFacts& peer) {
  peer_ = {peer.instance, peer.boot};
  recorded_ = false;
  const SessionId& id = core_.session.id();
  session_ = std::max<uint64_t>(id.dialler ^ id.acceptor, 1);
  // What this node's hello told it of an earlier one, the peer heeds, too.
  peer_sessions_ = peer.sessions;
  peer_sessions_.begin(session_, facts_.now().sessions);
  if (!core_.state().blank()) core_.state().company().begin_session(session_, peer.sessions);
}

void Company::peer_s_past_is_ours() {
  if (session_ != 0) core_.state().company().share_sessions(peer_sessions_, session_);
}

void Company::session_lost() {
  peer_ = {};
  session_ = 0;
}

void Company::session_stands() {
  if (session_ == 0 || core_.state().blank() || core_.record().sessions.stood.front() == session_) return;
  core_.state().company().session_stands(session_);
  core_.state().persist([](int) {});
}

void Company::take_peer_along() {
  core_.state().company().take_along(facts_.boot(), peer_.instance, peer_.boot);
  recorded_ = false;
}

// A primary without a peer takes nobody along, and what is noted stays: until it begins a generation,
// whoever was with it last still holds all that was acknowledged. So does this host for as long as it
// is not started anew, if it does now. (An empty disk under a record that promises data does not.)
void Company::promoted() {
  core_.state().role().promoted_on(facts_.boot());
  if (core_.phase().both_whole())
    take_peer_along();
  else if (facts_.holds_what_was_acknowledged() && !core_.state().backing().lost() && !core_.state().backing().other())
    core_.state().company().note_boot(facts_.boot());
}

}  // namespace twinblock
