#include "volume/operator_orders.h"

#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "base/units.h"
#include "mirror/generation.h"
#include "volume/wait_advice.h"
#include "words/peer_words.h"
#include "words/verdict_words.h"

namespace twinblock {
namespace {

// What waited is tried again, as things are now.
void release_held(const OperatorOrders::Parts& parts) {
  parts.owner.note_state();
  parts.writes.release_held();
  parts.flushes.release_held();
}

constexpr uint64_t kLookAgain_ns = 10 * kMillisecond_ns;

}  // namespace

void OperatorOrders::when_both_know(std::function<void()> order) {
  if (parts_.core.phase().now() != Phase::kConcluding) {
    order();
    return;
  }
  wait_for_both_.push_back(std::move(order));
  look_again_->arm(kLookAgain_ns);
}

void OperatorOrders::look_again() {
  for (auto& order : std::exchange(wait_for_both_, {})) when_both_know(std::move(order));
}

void OperatorOrders::go_on_alone(bool without_witness, const Reply& reply) {
  Core& core = parts_.core;
  const bool copy_waits = parts_.sync.waits_for_witness();
  if (!copy_waits && (parts_.roles.role() != Role::kPrimary || !core.stance().frozen())) {
    reply(Error{"no writes are held",
                "`twinblock continue` is for a primary that waits for its peer "
                "(on_peer_loss = \"freeze\"), or for its witness",
                EINVAL});
    return;
  }
  if (!copy_waits && !parts_.disks.local_ok()) {
    end_what_waits(reply);
    return;
  }
  // What it would acknowledge would be a second history of the volume.
  if (const auto verdict = core.session.handshake().last_verdict(); !copy_waits && verdict && is_overtaken(*verdict)) {
    const std::string& volume = core.config.volume;
    reply(Error{explain(*verdict, core.peer) + ": going on here, too, would make two histories of one volume",
                *verdict == Verdict::kOutdated ? vain_words(volume) + ", and run `twinblock demote " + volume +
                                                     "`; this node is then brought up to date"
                                               : advise(*verdict, volume, core.peer),
                EBUSY});
    return;
  }
  // Held for its peer (on_peer_loss = freeze), it asks from now on.
  const bool held = core.stance().waits_for_peer();
  const bool asks = copy_waits || core.stance().waits_for_witness();
  if (const int error = parts_.disks.metadata_error(); asks && !copy_waits && error != 0) {
    Error failed = parts_.disks.why_metadata_failed(error);
    failed.action = take_over_words(core.config.volume, core.peer, core.session.links().peer_answers());
    reply(failed);
    return;
  }
  if (asks && held && !without_witness) {
    core.stance().operator_lets_go_on();
    core.log.log(Severity::kWarning, "going on alone by the operator's order as soon as the witness agrees, until " +
                                         core.peer + " is back");
    goes_on_with_consent_ = true;
    parts_.consent.look();
    reply("this node goes on alone as soon as its witness consents; see: twinblock status " + core.config.volume);
    return;
  }
  if (asks && !without_witness) {
    const std::string& error = parts_.consent.view().error;
    reply(Error{std::string(copy_waits ? "a replica that is to join waits" : "reads and writes wait") +
                    " for the witness' consent" + (error.empty() ? "" : ": " + error),
                "they go on by themselves when the witness agrees, or the former replica of " + core.peer +
                    " is back; only where that is dead for sure and was not promoted: twinblock continue " +
                    core.config.volume + " --without-witness",
                EBUSY});
    return;
  }
  const auto go_on = [this, &core, reply](std::optional<Error> error) {
    if (error) {
      reply(*std::move(error));
      return;
    }
    const std::string& peer = core.peer;
    // Once, whether it is given twice or in the place of the consent that was waited for; and once more when the
    // peer has been there, even without taking part.
    const bool had_waited = std::exchange(goes_on_with_consent_, false);
    const bool was_there = std::exchange(last_let_go_after_, core.phase().session()) != core.phase().session();
    if (core.stance().operator_lets_go_on() || had_waited || was_there) {
      core.log.log(Severity::kWarning, "going on alone by the operator's order, until " + peer + " is back");
      core.events().tell("went-on-alone", {{"node", core.node}, {"reason", "the operator's order"}});
    }
    release_held(parts_);
    reply("this node goes on alone until " + peer + " is back; what " + peer + " misses is recorded");
  };
  if (asks)
    parts_.consent.take_word(go_on);
  else
    go_on(std::nullopt);
}

void OperatorOrders::right_changed() {
  const Core& core = parts_.core;
  if (!goes_on_with_consent_ || (core.stance().frozen() && !core.stance().waits_for_peer())) return;
  goes_on_with_consent_ = false;
  if (core.phase().attached() || core.stance().waits_for_peer()) return;  // the peer was back before
  parts_.core.events().tell("went-on-alone",
                            {{"node", core.node}, {"reason", "the operator's order, and the witness' consent"}});
}

// Without its disk it has nothing to go on with: clients get errors. What a witness were told of it would only keep the peer
// from going on.
void OperatorOrders::end_what_waits(const Reply& reply) {
  Core& core = parts_.core;
  if (core.stance().waits_for_witness()) {
    reply(Error{"this node's disk failed: it has nothing to go on with alone",
                "bring " + core.peer + " back, whose replica is good, or promote it: this node then becomes secondary by "
                "itself, and its clients are cut off",
                EBUSY});
    return;
  }
  core.stance().operator_lets_go_on();
  core.log.log(Severity::kWarning, "what waits for " + core.peer + " fails by the operator's order: this node's disk has failed");
  release_held(parts_);
  reply("nothing waits any more until " + core.peer + " is back: this node's disk failed, so that clients get errors");
}

std::string OperatorOrders::apply(ResyncPace pace, uint64_t bytes_per_s) {
  Pacer& pacer = parts_.resync.pacer();
  switch (pace) {
    case ResyncPace::kPause:
      pacer.pause();
      return "resync pauses until `twinblock resync " + parts_.core.config.volume + " resume`";
    case ResyncPace::kResume:
      pacer.resume();
      return pacer.rate_bytes_per_s() == 0
                 ? "resync goes on at the pace that clients leave"
                 : "resync goes on at " + format_size(pacer.rate_bytes_per_s()) + "/s";
    case ResyncPace::kAuto:
      pacer.set_rate(0);
      return "resync goes at the pace that clients leave";
    case ResyncPace::kRate:
      break;
  }
  pacer.set_rate(bytes_per_s);
  return "resync goes at up to " + format_size(bytes_per_s) + "/s";
}

void OperatorOrders::set_resync_pace(ResyncPace pace, uint64_t bytes_per_s, const Reply& reply) {
  Core& core = parts_.core;
  const bool target = core.phase().being_resynced();
  // It would hold up the next one of which this node is the source, which nobody has in mind.
  if (target && (pace == ResyncPace::kPause || pace == ResyncPace::kRate)) {
    reply(Error{core.peer + " is the source of this resync, and sets its pace", "give the order on " + core.peer, EBUSY});
    return;
  }
  std::string said = apply(pace, bytes_per_s);
  core.events().tell("resync-pace", {{"reason", said}});
  parts_.resync.pace_changed();
  if (target)
    said += "; but " + core.peer + " is the source of this resync: give the order there";
  else if (!parts_.resync.active())
    said += " (none is under way)";
  reply(said);
}

void OperatorOrders::verify(VerifyOrder order, const Reply& reply) {
  const Core& core = parts_.core;
  Verifier& verifier = parts_.verifier;
  if (order == VerifyOrder::kStop) {
    const bool active = verifier.active();
    verifier.stop("stopped by the operator");
    reply(std::string(active ? "the verification was stopped" : "no verification is under way"));
    return;
  }
  if (verifier.active() || verifier.ending()) {
    reply(Error{"a verification is under way",
                "watch it in `twinblock status " + core.config.volume + "`, or stop it", EBUSY});
    return;
  }
  // A node that was demoted may be in duplex still, until the other one is promoted.
  const bool primary = parts_.roles.role() == Role::kPrimary;
  if (core.state().blank()) {
    reply(Error{"this node is not initialised: there is nothing to compare",
                "see twinblock status " + core.config.volume, EINVAL});
    return;
  }
  if (!primary) {
    reply(Error{"verification runs on the primary",
                parts_.roles.peer() == PeerRole::kPrimary
                    ? "run it on " + core.peer
                    : "neither node is known to be that: first run `twinblock promote " + core.config.volume +
                          "` on the one that is to serve the volume",
                EINVAL});
    return;
  }
  if (core.phase().attachment() != Attachment::kDuplex) {
    reply(Error{"both replicas must be current to be compared", advise_wait_for_both(core, true), EINVAL});
    return;
  }
  if (core.stance().taking_snapshot() && order == VerifyOrder::kRepair) {
    reply(Error{"a snapshot is just being taken", "try again when it has been", EBUSY, Retry::kLater});
    return;
  }
  verifier.begin(order == VerifyOrder::kRepair);
  reply(std::string("verification began"));
}

}  // namespace twinblock
