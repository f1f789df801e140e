// What the operator orders beside roles: going on alone, the pace of a resync, verification; and the
// answer to "why".
#include <cerrno>
#include <utility>

#include "base/limits.h"
#include "volume/engine.h"

namespace twinblock {
namespace {

// With a capital letter, unless it begins with the peer's name.
std::string sentence(std::string text, const std::string& peer) {
  if (!text.starts_with(peer) && !text.empty() && text[0] >= 'a' && text[0] <= 'z')
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

}  // namespace

void Engine::go_on_alone(Reply reply) {
  if (roles_.role() != Role::kPrimary || !core_.frozen()) {
    reply(Error{"no writes are held",
                "`twinblock continue` is for a primary that waits for its peer "
                "(on_peer_loss = \"freeze\")",
                EINVAL});
    return;
  }
  core_.alone_allowed = true;
  log(Severity::kWarning,
      "going on alone by the operator's order, until " + core_.peer + " is back");
  core_.events.tell("went-on-alone", {{"node", core_.node}, {"reason", "the operator's order"}});
  note_state();
  writes_.release_held();
  flushes_.release_held();
  reply("this node goes on alone until " + core_.peer + " is back; what " + core_.peer +
        " misses is recorded");
}

void Engine::set_resync_pace(ResyncPace pace, uint64_t bytes_per_s, Reply reply) {
  Pacer& pacer = sync_.source().pacer();
  std::string said;
  switch (pace) {
    case ResyncPace::kPause:
      pacer.pause();
      said = "resync pauses until `twinblock resync " + core_.config.volume + " resume`";
      break;
    case ResyncPace::kResume:
      pacer.resume();
      said = pacer.rate_bytes_per_s() == 0
                 ? "resync goes on at the pace that clients leave"
                 : "resync goes on at " + format_size(pacer.rate_bytes_per_s()) + "/s";
      break;
    case ResyncPace::kAuto:
      pacer.set_rate(0);
      said = "resync goes at the pace that clients leave";
      break;
    case ResyncPace::kRate:
      pacer.set_rate(bytes_per_s);
      said = "resync goes at up to " + format_size(bytes_per_s) + "/s";
      break;
  }
  core_.events.tell("resync-pace", {{"reason", said}});
  sync_.source().pace_changed();
  if (core_.phase.being_resynced())
    said += "; but " + core_.peer + " is the source of this resync: give the order there";
  else if (!sync_.source().active())
    said += " (none is under way)";
  reply(said);
}

void Engine::verify(VerifyOrder order, Reply reply) {
  if (order == VerifyOrder::kStop) {
    const bool active = verifier_.active();
    verifier_.stop("stopped by the operator");
    reply(std::string(active ? "the verification was stopped" : "no verification is under way"));
    return;
  }
  if (verifier_.active() || verifier_.ending()) {
    reply(Error{"a verification is under way",
                "watch it in `twinblock status " + core_.config.volume + "`, or stop it", EBUSY});
    return;
  }
  // A node that was demoted may be in duplex still, until the other one is promoted.
  if (roles_.role() != Role::kPrimary || core_.phase.attachment() != Attachment::kDuplex) {
    reply(Error{roles_.role() == Role::kPrimary ? "both replicas must be current to be compared"
                                                : "verification runs on the primary",
                roles_.role() == Role::kPrimary
                    ? "wait for it: twinblock wait " + core_.config.volume + " --for duplex"
                    : "run it on " + core_.peer + ", or promote this node",
                EINVAL});
    return;
  }
  verifier_.begin(order == VerifyOrder::kRepair);
  reply(std::string("verification began"));
}

std::vector<std::string> Engine::why() const {
  std::vector<std::string> lines;
  const StatusView view = status();
  lines.push_back(sentence(view.status, core_.peer));
  if (session_.up())
    why_with_peer(lines);
  else
    why_without_peer(lines);
  if (!core_.blank) lines.push_back(why_promote_here());
  if (const uint64_t bytes =
          core_.record.all_dirty ? core_.config.size_bytes : core_.intents->set_bytes();
      bytes > 0 && roles_.role() == Role::kPrimary)
    lines.push_back("If this node lost power now, " + format_size(bytes) +
                    " in regions that were written lately would be compared with " + core_.peer +
                    "'s, and only blocks that differ would be copied.");
  if (!view.action.empty()) lines.push_back(sentence(view.action, core_.peer));
  return lines;
}

void Engine::why_with_peer(std::vector<std::string>& lines) const {
  if (core_.phase.being_resynced() || sync_.source().active()) {
    if (!sync_.log().reason().empty()) lines.push_back(sync_.log().reason());
    if (sync_.source().active() && sync_.source().pacer().paused())
      lines.push_back("The resync waits: it was paused by an operator (`twinblock resync " +
                      core_.config.volume + " resume`).");
    return;
  }
  if (sync_.log().last() && !sync_.log().last_reason().empty())
    lines.push_back("The last resync: " + sync_.log().last_reason() + " It brought " +
                    format_size(sync_.log().last()->bytes) + " up to date in " +
                    format_duration(sync_.log().last()->duration_ns) + ".");
}

void Engine::why_without_peer(std::vector<std::string>& lines) const {
  const std::string& peer = core_.peer;
  if (lost_wall_ns_ != 0)
    lines.push_back("The session with " + peer + " was lost at " +
                    format_time(lost_wall_ns_ / kSecond_ns) +
                    // `status`, with which `why` begins, has said it then.
                    (volume_state() == VolumeState::kSimplex ? "." : ": " + loss_reason_ + "."));
  else
    // A refusal is what `status` begins with.
    lines.push_back("There has been no session with " + peer + " since this process started" +
                    (session_.last_error().empty() || !session_.refusal().empty()
                         ? "."
                         : ": " + session_.last_error() + "."));
  if (!core_.dirty.empty())
    lines.push_back(peer + " may miss " + format_size(core_.dirty.set_bytes()) + " in blocks" +
                    (core_.coarse.empty() ? std::string()
                                          : ", " + format_size(core_.coarse.set_bytes()) +
                                                " of them known coarsely: they are compared "
                                                "before they are copied") +
                    ".");
  why_split_brain(lines);
}

std::string Engine::why_promote_here() const {
  if (roles_.role() != Role::kSecondary) return "This node is primary: clients write here.";
  if (const auto refusal = roles_.why_not_promote(true))
    return "This node can't be promoted now: " + refusal->what + ".";
  if (session_.up()) return "Promoting this node now would lose nothing.";
  if (session_.last_verdict() && is_split_brain(*session_.last_verdict()))
    return "Promoting this node now would serve its own side of the split brain, without what " +
           core_.peer + " wrote" +
           (session_.peer_facts()->primary ? ", and beside " + core_.peer + ", which is primary."
                                           : ".");
  if (core_.record.peer_primary || roles_.refused_peer_is_primary())
    return "Promoting this node now (--peer-is-dead) would lose nothing that both nodes "
           "acknowledged, but every write that " +
           core_.peer + " accepted alone since the session was lost" +
           (lost_wall_ns_ == 0 ? "" : " at " + format_time(lost_wall_ns_ / kSecond_ns)) +
           "; if it did accept any, that becomes a split brain when it returns.";
  if (forgot_what_the_peer_may_hold())
    return "Promoting this node now (--peer-is-dead) would lose what it had acknowledged as primary and "
           "not flushed, as its host was started anew since; " +
           core_.peer + " may still hold that.";
  if (core_.crashed)
    return "Promoting this node now would lose nothing that it knows of; but it ended while it was "
           "primary, and " +
           core_.peer +
           " may have been promoted since: if so, that becomes a split brain when it returns.";
  return "Promoting this node now would lose nothing that it knows of" +
         (lost_wall_ns_ == 0 ? std::string(".")
                             : ": " + core_.peer + " was secondary when it was last heard.");
}

}  // namespace twinblock
