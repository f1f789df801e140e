// What `status` says of the witness.
#include "control/witness_words.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "words/witness_words.h"

namespace twinblock {
namespace {

StatusView view_of(WitnessStanding standing, bool waits) {
  StatusView view;
  view.volume = "r0";
  view.node = "alpha";
  view.role = Role::kPrimary;
  view.peer.name = "beta";
  view.state = waits ? VolumeState::kFrozen : VolumeState::kDuplex;
  view.peer.connected = !waits;
  view.frozen = waits;
  view.witness.kind = WitnessKind::kEtcd;
  view.witness.name = "etcd at http://10.0.0.3:2379";
  view.witness.standing = standing;
  view.witness.waits = waits;
  if (standing == WitnessStanding::kUnreachable) {
    view.witness.error = "connection refused";
    view.witness.action = "start etcd";
  }
  return view;
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

WitnessSaid said_by(const StatusView& view) { return {names_another(view.witness), view.witness.holder}; }

TEST(WitnessInStatus, WhoWaitsForItSaysSoAndUntilWhen) {
  const StatusWords words = status_words(view_of(WitnessStanding::kUnreachable, true));
  EXPECT_TRUE(has(words.status, "Reads and writes wait")) << words.status;
  EXPECT_TRUE(has(words.status, "etcd at http://10.0.0.3:2379")) << words.status;
  EXPECT_TRUE(has(words.status, "connection refused")) << words.status;
  EXPECT_TRUE(has(words.status, "when the witness agrees or beta is back")) << words.status;
  EXPECT_EQ(words.action,
            "Start etcd. Only where beta is dead for sure, and was not promoted: twinblock continue r0 --without-witness.");
  EXPECT_FALSE(has(words.status, "on_peer_loss")) << words.status;
}

TEST(WitnessInStatus, WhoWasOvertakenSaysByWhom) {
  StatusView view = view_of(WitnessStanding::kRefused, true);
  view.witness.holder = "beta";
  const StatusWords words = status_words(view);
  EXPECT_TRUE(has(words.status, "names beta as the one that may have gone on")) << words.status;
  EXPECT_TRUE(has(words.status, "When the two meet, and it did, this node becomes secondary")) << words.status;
  EXPECT_TRUE(has(words.action, "Only where beta's replica is lost for good, or beta is down and wrote nothing alone: "
                                "twinblock continue r0 --without-witness"))
      << "it was promoted; that it was not can't be the condition: " << words.action;
}

// The disk of before has been put back, say: neither does the peer have what is missing, nor is it to be waited for.
TEST(WitnessInStatus, WhoWasOvertakenByAnotherReplicaOfItsOwnIsToPutThatBack) {
  for (const bool met : {false, true}) {
    StatusView view = view_of(WitnessStanding::kRefused, true);
    view.peer.connected = view.witness.copy_waits = met;
    view.witness.holder = "alpha";
    view.witness.action = advise_on_replicas(said_by(view), "alpha", "beta", {met, met, true});
    const StatusWords words = status_words(view);
    EXPECT_TRUE(has(words.status, "It names another replica of this node's as the one that may have gone on: what is "
                                  "here may be older."))
        << words.status;
    EXPECT_FALSE(has(words.status, "When the two meet")) << words.status;
    EXPECT_TRUE(words.action.starts_with("Put the replica of this node's back, with its metadata, that the witness "
                                         "speaks of. Only where "))
        << words.action;
    EXPECT_TRUE(has(words.action, "the replica of this node's that the witness speaks of is lost for good, or wrote "
                                  "nothing alone: twinblock continue r0 --without-witness"))
        << words.action;
    EXPECT_EQ(has(words.action, "beta is dead for sure"), !met) << words.action;
  }
}

TEST(WitnessInStatus, WhoIsRefusedByItSaysByWhichReplica) {
  const auto said = [](const std::string& holder) { return overtaken_words(holder, 12, "alpha"); };
  EXPECT_EQ(said("beta"), "the witness says that beta may have gone on alone, in generation 000000000000000c, which "
                          "this node does not know");
  EXPECT_EQ(said("alpha"), "the witness says that another replica of this node's may have gone on alone, in generation "
                           "000000000000000c, which this one does not know");
  EXPECT_TRUE(has(said(""), "both nodes went on"));
  EXPECT_EQ(only_where_words("", "alpha", "beta"), "beta's replica is lost for good");
  EXPECT_TRUE(has(only_where_words("alpha", "alpha", "beta"), "beta is dead for sure, and the replica of this node's"));
}

// A primary whose peer is back with another replica, and a witness of which only `standing` is known. Its advice is the one
// that is told beside it.
StatusView met(WitnessStanding standing, bool copy_waits, bool waits) {
  StatusView view = view_of(standing, waits);
  view.state = VolumeState::kConnecting;
  view.peer.connected = view.peer.answers = true;
  view.witness.copy_waits = copy_waits;
  if (is_about_replicas(view.witness))
    view.witness.action = advise_on_replicas(said_by(view), "alpha", "beta", {true, copy_waits, true});
  return view;
}

TEST(WitnessInStatus, WhoIsConnectedIsNotToBeStarted) {
  for (const WitnessStanding standing : {WitnessStanding::kRefused, WitnessStanding::kLost, WitnessStanding::kAsking,
                                         WitnessStanding::kUnreachable})
    for (const bool copy_waits : {false, true})
      for (const bool waits : {false, true}) {
        if (!copy_waits && !waits) continue;
        const StatusWords words = status_words(met(standing, copy_waits, waits));
        for (const char* part : {"tart twinblockd on beta", "mend the link", "address of beta", "dead for sure"})
          EXPECT_FALSE(has(words.action, part)) << words.action;
        for (const char* part : {"When the two meet", "or beta is back", "without beta"})
          EXPECT_FALSE(has(words.status, part)) << words.status;
        EXPECT_EQ(has(words.status, "eads and writes wait"), waits) << words.status;
        EXPECT_TRUE(has(words.action, "twinblock continue r0 --without-witness")) << words.action;
      }
}

TEST(WitnessInStatus, AnotherReplicaThatIsRefusedCallsForTheFormerOne) {
  StatusView view = met(WitnessStanding::kRefused, true, false);
  view.witness.holder = "beta";
  const StatusWords words = status_words(view);
  EXPECT_TRUE(words.status.starts_with("beta's replica is another one than before")) << words.status;
  EXPECT_TRUE(has(words.status, "names beta as the one that may have gone on: what is here may be older.")) << words.status;
  EXPECT_TRUE(words.action.starts_with("Put the replica back, with its metadata, that the witness speaks of; ")) << words.action;
  EXPECT_TRUE(has(words.action, "Only where the replica that beta had before is lost for good, or wrote nothing "
                                "alone: "))
      << words.action;
}

TEST(WitnessAdvice, FollowsWhereThePeerIsNow) {
  const auto advise = [](WitnessStanding standing, const std::string& holder, const PeerAtHand& at_hand) {
    return advise_on_replicas({standing == WitnessStanding::kRefused, holder}, "alpha", "beta", at_hand);
  };
  const WitnessStanding refused = WitnessStanding::kRefused, lost = WitnessStanding::kLost;
  EXPECT_EQ(advise(refused, "beta", {false, false, false}),
            "start twinblockd on beta or mend the link; where beta went on, this node is then brought up to date");
  EXPECT_EQ(advise(refused, "", {false, false, false}),
            "start twinblockd on beta or mend the link; this node is then brought up to date");
  EXPECT_TRUE(advise(lost, "", {false, false, true}).starts_with("the address of beta answers"));
  EXPECT_TRUE(advise(lost, "", {true, true, true}).starts_with("put the replica back"));
  for (const std::string holder : {"alpha", "beta"})
    EXPECT_EQ(advise(refused, holder, {true, false, true}), "") << "it is told soon";
  EXPECT_EQ(advise(lost, "", {true, false, true}), "") << "it is told soon";
}

// What it would go on by there is the witness, too.
TEST(WitnessInStatus, WhoMayGoOnAsPrimaryByItselfSaysByWhoseConsent) {
  StatusView view = view_of(WitnessStanding::kUnreachable, false);
  view.state = VolumeState::kWaiting;
  view.role = Role::kSecondary;
  view.peer.connected = false;
  view.mine.resumes = true;
  const StatusWords words = status_words(view);
  EXPECT_TRUE(has(words.status, "or, without it, when the witness (etcd at http://10.0.0.3:2379) consents")) << words.status;
  EXPECT_TRUE(has(words.action, "start etcd")) << words.action;
  EXPECT_TRUE(has(words.action, "twinblock promote r0 --peer-is-dead --without-witness")) << words.action;
}

TEST(WitnessInStatus, OneThatOnlyOneNodeAsksCountsForNothing) {
  StatusView view = view_of(WitnessStanding::kOff, false);
  view.witness.error = "the files differ";
  view.witness.action = "make them alike";
  EXPECT_TRUE(has(status_words(view).status, "counts for nothing: the files differ")) << status_words(view).status;
  EXPECT_EQ(status_words(view).action, "make them alike.");
  EXPECT_EQ(render_witness(view.witness)["state"], "off");
}

TEST(WitnessInStatus, BesideThePeerItsAbsenceIsAWarning) {
  const StatusWords words = status_words(view_of(WitnessStanding::kUnreachable, false));
  EXPECT_TRUE(words.status.starts_with("Both replicas are current")) << words.status;
  EXPECT_TRUE(has(words.status, "connection refused")) << words.status;
  EXPECT_TRUE(has(words.status, "If beta is lost, too")) << words.status;
  EXPECT_EQ(words.action, "start etcd.");
  EXPECT_EQ(status_words(view_of(WitnessStanding::kAgreed, false)).status,
            status_words(view_of(WitnessStanding::kNone, false)).status);
}

TEST(WitnessInStatus, ItsObjectSaysWhatItIs) {
  const nlohmann::json object = render_witness(view_of(WitnessStanding::kUnreachable, false).witness);
  EXPECT_EQ(object["kind"], "etcd");
  EXPECT_EQ(object["state"], "unreachable");
  EXPECT_EQ(object["error"], "connection refused");
  EXPECT_TRUE(render_witness(WitnessView{}).is_null()) << "there is none";
}

}  // namespace
}  // namespace twinblock
