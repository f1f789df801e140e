// What `status` says of the witness.
#include "control/witness_words.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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
  EXPECT_TRUE(has(words.status, "names beta as the one that went on")) << words.status;
  EXPECT_TRUE(has(words.status, "becomes secondary")) << words.status;
  EXPECT_TRUE(has(words.action, "Only where beta's replica is lost for good: twinblock continue r0 --without-witness"))
      << "it was promoted; that it was not can't be the condition: " << words.action;
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
