#include "volume/fresh_look.h"

#include "base/limits.h"
#include "words/backing_words.h"

namespace twinblock {

bool FreshLook::ended() {
  if (!core_.state().blank() || !core_.join_order().stands_by_itself() || empty_) return true;
  if (looking_) return false;
  looking_ = true;
  asked_in_ = core_.phase().session();
  core_.workers.run([this] { found_ = core_.data.look_for_data(); }, [this] { looked(); });
  return false;
}

void FreshLook::looked() {
  looking_ = false;
  if (!core_.state().blank()) return;
  core_.state().backing().found_now(found_);
  // (What was found for a session that is gone is looked for again when the next one asks.)
  empty_ = found_ == DataFound::kNone && core_.phase().still(asked_in_);
  if (found_ == DataFound::kNone || !core_.join_order().stands_by_itself()) return;
  if (found_ == DataFound::kUnknown) return not_seen();
  core_.join_order().take_back();
  core_.log.log(Severity::kWarning, core_.config.node(core_.node).backing +
                                        " may hold data that was not there when this process began: it is not "
                                        "overwritten without `twinblock init " +
                                        core_.config.volume + " --join` here");
  core_.session.drop("this node's backing may hold data by now, which a resync would overwrite", 0);
}

// What could not be read may be read later. (A session that comes when another one's look has ended asks for its own.)
void FreshLook::not_seen() {
  if (!core_.phase().still(asked_in_)) return;
  core_.session.drop(unseen_words(core_.config.node(core_.node).backing) +
                         ", which a resync would overwrite: it is looked at again; or let it be overwritten: `twinblock init " +
                         core_.config.volume + " --join` here",
                     limits::kPeerDiskRetry_ns);
}

}  // namespace twinblock
