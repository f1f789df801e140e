// What `status` says in sentences.
#include "control/status_words.h"

#include <gtest/gtest.h>

#include "status_view_support.h"

namespace twinblock {
namespace {

constexpr const char* kFine = "Both replicas are current; every write is on both before it is acknowledged.";

StatusView duplex(const std::vector<std::pair<LinkState, std::string>>& links = {}) {
  StatusView view = alpha_in(VolumeState::kDuplex);
  view.peer.connected = true;
  for (const auto& [state, error] : links) {
    StatusView::Link link;
    link.name = "link" + std::to_string(view.links.size() + 1);
    link.state = state;
    link.last_error = error;
    view.links.push_back(link);
  }
  return view;
}

// Its clients wait for the peer.
StatusView frozen_primary(VolumeState state) {
  StatusView view = duplex();
  view.peer.connected = false;
  view.role = Role::kPrimary;
  view.state = state;
  view.frozen = true;
  return view;
}

StatusView waits_for_disk() {
  StatusView view = duplex();
  view.state = VolumeState::kResync;
  view.role = Role::kPrimary;
  view.backing = "/srv/r0.img";
  view.resync.source = view.resync.active = view.resync.waits_for_disk = true;
  view.resync.unreadable = {{8 * kKiB, 4 * kKiB}, {kMiB, 12 * kKiB}};
  view.resync.unreadable_bytes = 16 * kKiB;
  return view;
}

TEST(MetadataInStatus, ADiskOfMetadataIsLookedAtAndTheDataStay) {
  StatusView view = duplex();
  view.role = Role::kSecondary;
  view.disk_ok = true;
  view.disk_error = "the metadata disk failed: /m";
  view.metadata_failed = true;
  EXPECT_NE(status_words(view).action.find("metadata"), std::string::npos) << status_words(view).action;
  EXPECT_NE(status_words(view).action.find("Keep"), std::string::npos);
  view.role = Role::kPrimary;
  view.state = VolumeState::kSimplex;
  view.peer.connected = false;
  EXPECT_NE(status_words(view).action.find("metadata"), std::string::npos) << status_words(view).action;
  EXPECT_NE(status_words(view).action.find("Keep this disk"), std::string::npos);
  EXPECT_EQ(status_words(view).action.find("free space"), std::string::npos) << status_words(view).action;
}

// Whoever stops the other node to look at it reads the same as before.
TEST(DisksInStatus, TheOnlyGoodDiskIsKeptAlsoWhenThePeerIsOutOfReach) {
  StatusView view = duplex();
  view.peer.connected = false;
  view.state = VolumeState::kWaiting;
  view.disk_error = "the local disk failed: /d";
  view.verdict = Verdict::kDiskFailed;
  view.peer.facts.emplace();
  for (SyncFacts* each : {&view.mine, &*view.peer.facts}) {
    each->volume_uuid[0] = 1;
    each->map_valid = true;
    each->generations.current = each->generations.history[0] = 7;
  }
  view.mine.disk_failed = view.mine.dirty = true;
  EXPECT_NE(status_words(view).action.find("keep this disk"), std::string::npos) << status_words(view).action;
  view.mine.dirty = false;
  view.peer.facts->dirty = true;
  EXPECT_EQ(status_words(view).action.find("keep this disk"), std::string::npos) << status_words(view).action;
}

TEST(ResyncInStatus, ASourceThatCanNotBeReadSaysWhereAndWhatToDo) {
  StatusView view = waits_for_disk();
  const StatusWords words = status_words(view);
  EXPECT_NE(words.status.find("4 KiB at offset 8192, 12 KiB at offset 1048576)"), std::string::npos) << words.status;
  EXPECT_NE(words.status.find("half-copied"), std::string::npos) << words.status;
  EXPECT_TRUE(words.action.starts_with("Write these places anew (")) << words.action;
  EXPECT_NE(words.action.find("/srv/r0.img"), std::string::npos) << words.action;
  view.resync.unreadable_bytes += 4 * kKiB;
  EXPECT_NE(status_words(view).status.find("and others)"), std::string::npos) << status_words(view).status;
}

// Both were whole when this node's process ended, say.
TEST(ResyncInStatus, ASourceDoesNotSayThatTheTargetLacksWhatCanNotBeCompared) {
  StatusView view = waits_for_disk();
  EXPECT_NE(status_words(view).action.find("the only good copy"), std::string::npos);
  view.resync.target_may_have_unreadable = true;
  const std::string action = status_words(view).action;
  EXPECT_EQ(action.find("only good copy"), std::string::npos) << action;
  EXPECT_NE(action.find("until then: whether beta holds the same there can't be told"), std::string::npos) << action;
}

TEST(ResyncInStatus, WhoIsSecondaryIsToBePromotedBeforeAnythingIsWritten) {
  StatusView view = waits_for_disk();
  view.role = Role::kSecondary;
  EXPECT_NE(status_words(view).action.find("`twinblock promote r0`"), std::string::npos) << status_words(view).action;
}

// Nobody may be promoted beside what this disk may have lost.
TEST(ResyncInStatus, ASourceWhoseFlushFailedIsNotSaidToBePromotable) {
  StatusView view = duplex();  // two secondaries
  view.state = VolumeState::kResync;
  view.resync.active = view.resync.source = true;
  view.peer.role = PeerRole::kSecondary;
  view.promotable = true;
  EXPECT_NE(status_words(view).action.find("this node may be promoted meanwhile"), std::string::npos);
  view.promotable = false;
  view.mine.flush_failed = true;
  view.disk_error = "a flush of /d failed";
  EXPECT_EQ(status_words(view).action, "Nothing to do; beta may be promoted when it is whole.");
}

TEST(LinksInStatus, OneThatIsMissingIsNamedWithTheReason) {
  const StatusView view = duplex({{LinkState::kUp, ""}, {LinkState::kDown, "connection refused"}});
  EXPECT_EQ(status_words(view).status,
            kFine + std::string(" It goes on without link link2 (connection refused)."));
  EXPECT_NE(status_words(view).action, "");
  EXPECT_EQ(said_beside(duplex({{LinkState::kRefused, "no such session"}, {LinkState::kUp, ""}, {LinkState::kDamped, ""}})),
            " It goes on without link link1 (no such session); link3.");
}

TEST(LinksInStatus, AnotherActionIsNotReplaced) {
  StatusView view = duplex({{LinkState::kUp, ""}, {LinkState::kDown, ""}});
  view.state = VolumeState::kConnected;
  EXPECT_EQ(status_words(view).action, state_words(view).action);
  EXPECT_NE(status_words(view).action, "");
}

TEST(LinksInStatus, NothingIsSaidOfLinksThatAreAsTheyShouldBe) {
  EXPECT_EQ(said_beside(duplex({{LinkState::kUp, "an old error"}, {LinkState::kDisabled, "disabled by an operator"}})), "");
  EXPECT_EQ(said_beside(duplex({{LinkState::kUp, ""}, {LinkState::kConnecting, ""}})), "") << "give it a moment";
  StatusView alone = duplex({{LinkState::kDown, "connection refused"}});
  alone.state = VolumeState::kSimplex;
  alone.peer.connected = false;
  EXPECT_EQ(said_beside(alone), "") << "the loss of the peer is told by itself";
}

TEST(LinksInStatus, AnOrderThatThePeerRefusesIsTold) {
  StatusView view = duplex();
  view.refused_link_orders = {{"backup", LinkOrder::kDisable, "it is the last one"}};
  EXPECT_EQ(said_beside(view), " beta refuses that link backup is disabled: it is the last one.");
}

TEST(FilesInStatus, WhereTheyDifferIsTold) {
  StatusView view = duplex();
  view.settings_differ = "link backup (only here)";
  EXPECT_EQ(said_beside(view),
            " The configuration files of this node (here) and beta (there) differ: link backup "
            "(only here).");
}

TEST(BringBack, APeerThatAnswersNeedNotBeStarted) {
  StatusView view = duplex();
  view.state = VolumeState::kWaiting;
  EXPECT_EQ(status_words(view).action,
            "Start twinblockd on beta or mend the link; it connects by itself.");
  view.peer.answers = true;
  EXPECT_EQ(status_words(view).action.find("Start"), std::string::npos);
  EXPECT_TRUE(status_words(view).action.starts_with("The address of beta answers"));
}

TEST(Resumption, WhoWaitsBesideANewcomerIsToldHowToGoOn) {
  StatusView view = duplex();
  view.state = VolumeState::kResync;
  view.role = Role::kSecondary;
  view.peer.facts = SyncFacts{};
  const std::string before = status_words(view).action;
  view.mine.resumes = true;
  EXPECT_EQ(status_words(view).action, before) << "it has confirmed that";
  view.peer.facts->blank = true;
  EXPECT_NE(status_words(view).status.find("beta, which came without data, can't confirm"), std::string::npos);
  EXPECT_EQ(status_words(view).action,
            "If nobody was, run `twinblock promote r0` here: a device that is attached goes on. " + before);
}

TEST(Resumption, WhoWaitsForThePeerSSayIsToldHowToGoOn) {
  StatusView view = duplex();
  view.state = VolumeState::kWaiting;
  view.mine.resumes = true;
  EXPECT_TRUE(status_words(view).status.starts_with("This node was primary when its process ended."));
  EXPECT_NE(status_words(view).action.find(
                "only if beta was not promoted, and this node did not work on beta's replica when its process "
                "ended, run `twinblock promote r0` here"),
            std::string::npos)
      << status_words(view).action;
  view.promotion.forgot = true;
  view.witness.kind = WitnessKind::kEtcd;
  view.witness.standing = WitnessStanding::kAgreed;
  EXPECT_NE(status_words(view).status.find("holds no more than this host, which was started anew"),
            std::string::npos)
      << status_words(view).status;
  EXPECT_NE(status_words(view).action.find("`twinblock promote r0 --peer-is-dead`"), std::string::npos)
      << status_words(view).action;
}

TEST(Resumption, WhereClientsWaitForThePeerTheWitnessIsNotSaidToBeAsked) {
  StatusView view = duplex();
  view.state = VolumeState::kWaiting;
  view.mine.resumes = true;
  view.witness.kind = WitnessKind::kEtcd;
  view.witness.standing = WitnessStanding::kAgreed;
  EXPECT_NE(status_words(view).status.find("consents"), std::string::npos) << status_words(view).status;
  view.resumes_with_peer = true;
  EXPECT_EQ(status_words(view).status.find("consents"), std::string::npos) << status_words(view).status;
  EXPECT_NE(status_words(view).status.find("is not asked in its place"), std::string::npos) << status_words(view).status;
  EXPECT_NE(status_words(view).action.find("`twinblock promote r0`, and then `twinblock continue r0`"), std::string::npos)
      << status_words(view).action;
}

// The power of both hosts was cut, and one of them is back: it is not promoted without a word.
TEST(PowerCutInStatus, WhoMayLackWhatThePeerHoldsSaysSoAndWhatTheWordIs) {
  StatusView view = duplex();
  view.state = VolumeState::kWaiting;
  view.role = Role::kSecondary;
  view.peer.connected = false;
  view.witness.kind = WitnessKind::kEtcd;
  view.witness.standing = WitnessStanding::kUnasked;
  EXPECT_EQ(status_words(view).status, "Secondary, without a session with beta.");
  view.promotion.forgot = true;
  StatusWords words = status_words(view);
  EXPECT_EQ(words.status, "Secondary, without a session with beta. This node's host was started anew since it was in "
                          "duplex with beta: what was acknowledged and not flushed may be at beta only.");
  EXPECT_EQ(words.action, "Start twinblockd on beta or mend the link; it connects by itself. Only where beta's replica "
                          "is lost for good, run `twinblock promote r0 --peer-is-dead` here.");
  view.mine.crashed = true;
  EXPECT_NE(status_words(view).status.find("since it was primary:"), std::string::npos) << status_words(view).status;
  // The word for the peer's death was tried, and the witness knows that the peer went on.
  view.witness.standing = WitnessStanding::kRefused;
  words = status_words(view);
  EXPECT_TRUE(words.action.ends_with("run `twinblock promote r0 --peer-is-dead --without-witness` here.")) << words.action;
  // What no word helps against.
  view.promotion.refusal = "this replica is half-copied";
  EXPECT_EQ(status_words(view).action.find("promote"), std::string::npos) << status_words(view).action;
  view.promotion.refusal.clear();
  view.unvouched = true;
  EXPECT_EQ(status_words(view).action.find("promote"), std::string::npos) << "which would serve what was found";
}

// Whoever does what the other node's words say to its operator would destroy the last copy.
TEST(DisksInStatus, WhoHoldsTheOnlyGoodCopyIsNotToldToReplaceItsDisk) {
  StatusView view = duplex();
  view.state = VolumeState::kDiskless;
  view.role = Role::kSecondary;
  view.peer.whole_on_this_node = true;
  const StatusWords words = status_words(view);
  EXPECT_TRUE(words.status.starts_with("beta's disk failed")) << words.status;
  EXPECT_TRUE(words.action.starts_with("Keep this node up.")) << words.action;
  EXPECT_EQ(words.action.find("metadata"), std::string::npos) << words.action;
}

// The peer is there, and will never stand in: what the refusal says to do counts, and not that it is to be brought back.
TEST(DisksInStatus, WhatFailedWithoutAPeerThatMayStandInSaysSo) {
  StatusView view = frozen_primary(VolumeState::kFailed);
  const StatusWords away = status_words(view);
  EXPECT_TRUE(away.action.starts_with("Start twinblockd on beta")) << away.action;
  EXPECT_NE(away.action.find("`twinblock continue r0` ends with an error what waits"), std::string::npos) << away.action;
  view.reads_wait = true;  // it waits for a witness
  EXPECT_EQ(status_words(view).action.find("continue"), std::string::npos) << status_words(view).action;
  view.verdict = Verdict::kCantGoOn;
  view.refusal = "refused: beta has forgotten";
  const StatusWords refused = status_words(view);
  EXPECT_NE(refused.status.find("refused: beta has forgotten."), std::string::npos) << refused.status;
  EXPECT_EQ(refused.action.find("Start twinblockd on beta"), std::string::npos) << refused.action;
}

TEST(DisksInStatus, AFrozenPrimarySaysWhatWaitsAndWhatItsDiskRefused) {
  StatusView view = frozen_primary(VolumeState::kFrozen);
  EXPECT_TRUE(status_words(view).status.starts_with("Writes wait for beta")) << status_words(view).status;
  view.reads_wait = true;
  EXPECT_TRUE(status_words(view).status.starts_with("Reads and writes wait for beta")) << status_words(view).status;
  view.disk_error = "the local disk failed: /srv/r0.img";
  view.unreadable_places = 1;
  view.read_error = "read /srv/r0.img at offset 0";
  const std::string status = status_words(view).status;
  EXPECT_TRUE(status.starts_with("the local disk failed: /srv/r0.img. Reads and writes wait")) << status;
  EXPECT_NE(status.find("can't read wait, too (read /srv/r0.img at offset 0)"), std::string::npos) << status;
}

// A primary in use refuses to be demoted.
TEST(DisksInStatus, APrimaryIsDetachedBeforeItsDiskIsReplaced) {
  StatusView view = duplex();
  view.role = Role::kPrimary;
  view.state = VolumeState::kDegraded;
  const std::string action = status_words(view).action;
  EXPECT_NE(action.find("after you have detached, run `twinblock demote r0` here"), std::string::npos) << action;
}

// It can't be demoted: that would have to be recorded.
TEST(DisksInStatus, AStaleNodeThatCanTRecordItIsNotToBePromotedAgain) {
  StatusView view = duplex();
  view.role = Role::kPrimary;
  view.state = VolumeState::kDiskless;
  EXPECT_NE(status_words(view).action.find("run `twinblock demote r0` here"), std::string::npos);
  view.metadata_failed = true;
  EXPECT_NE(status_words(view).status.find("copy. This node's own record may not say so."), std::string::npos);
  EXPECT_TRUE(status_words(view).action.starts_with(
      "Detach, stop twinblockd here, and run `twinblock promote r0 --peer-is-dead` on beta"))
      << status_words(view).action;
  EXPECT_NE(status_words(view).action.find("Do not promote this node before it has met beta"), std::string::npos);
}

// A node whose process began anew after a failed flush, since when its disk's cache could not be dropped.
StatusView after_failed_flush() {
  StatusView view = duplex();
  view.state = VolumeState::kWaiting;
  view.peer.connected = false;
  view.disk_error = "a flush had failed";
  view.mine.flush_failed = true;
  return view;
}

TEST(DisksInStatus, WhoMayHaveLostWritesIsBroughtUpToDateByThePeer) {
  StatusView view = after_failed_flush();
  EXPECT_TRUE(status_words(view).action.starts_with("Start twinblockd on beta")) << status_words(view).action;
  EXPECT_NE(status_words(view).action.find("restart this host"), std::string::npos) << status_words(view).action;
  view.peer.answers = true;
  EXPECT_TRUE(status_words(view).action.starts_with("The address of beta answers")) << status_words(view).action;
}

TEST(DisksInStatus, NobodyIsToldToStartAPeerThatCopiesBackAlready) {
  StatusView view = after_failed_flush();
  view.peer.connected = view.peer.answers = true;
  view.state = VolumeState::kConnecting;
  EXPECT_EQ(status_words(view).action, "Nothing to do: beta copies anew what this disk may have lost.");
  view.state = VolumeState::kResync;
  view.resync.target = view.resync.active = true;
  EXPECT_TRUE(status_words(view).action.starts_with("Nothing to do; ")) << status_words(view).action;
  view.resync.paused = true;
  EXPECT_NE(status_words(view).action.find("`twinblock resync r0 resume`"), std::string::npos)
      << "that is what it waits for: " << status_words(view).action;
  EXPECT_TRUE(status_words(view).status.starts_with("a flush had failed. ")) << status_words(view).status;
}

TEST(OrdersInStatus, AnOrderIsVoidWhenWhatItNamedHasMovedOn) {
  StatusView view = duplex();
  view.state = VolumeState::kRefused;
  view.peer.connected = false;
  view.mine.blank = false;
  view.mine.discard = true;
  view.mine.state_id = 7;
  view.given_up.state_id = 7;
  EXPECT_NE(status_words(view).status.find("By order here, alpha's "), std::string::npos);
  EXPECT_EQ(status_words(view).status.find("void"), std::string::npos);
  view.mine.state_id = 8;
  EXPECT_NE(status_words(view).status.find("the order is void, as alpha has moved on since"),
            std::string::npos);
}

TEST(OrdersInStatus, ThePeerSOneIsToldUntilTheTwoHaveAgreed) {
  StatusView view = duplex();
  view.state = VolumeState::kWaiting;
  view.peer.connected = false;
  view.mine.generations = {.current = 2, .base = 1};
  view.peer.facts.emplace();
  view.peer.facts->generations = {.current = 3, .base = 1};
  view.peer.facts->keep = true;
  view.verdict = Verdict::kOrdersContradict;
  EXPECT_NE(status_words(view).status.find("By order at beta"), std::string::npos);
  view.verdict = Verdict::kTargetOfMap;
  EXPECT_EQ(status_words(view).status.find("By order"), std::string::npos) << status_words(view).status;
}

// A target whose source is gone, as `why` and `status` tell it.
StatusView half_copied() {
  StatusView view = duplex();
  view.state = VolumeState::kWaiting;
  view.data = DataState::kInconsistent;
  view.peer.connected = false;
  view.way_back.kept = true;
  view.way_back.since_s = 1'795'637'463;
  return view;
}

TEST(WayBackInStatus, OfAHalfCopiedNodeWithoutItsSourceIsAdvised) {
  const StatusWords words = status_words(half_copied());
  EXPECT_NE(words.status.find("is kept"), std::string::npos) << words.status;
  EXPECT_NE(words.action.find("`twinblock rollback r0`"), std::string::npos) << words.action;
  EXPECT_NE(words.action.find("Start twinblockd on beta"), std::string::npos) << "which loses nothing";
  StatusView view = half_copied();
  view.peer.answers = true;
  EXPECT_TRUE(status_words(view).action.starts_with("The address of beta answers")) << status_words(view).action;
  EXPECT_NE(status_words(view).action.find("`twinblock rollback r0`"), std::string::npos) << status_words(view).action;
}

TEST(WayBackInStatus, WhileTheSourceIsThereNobodyIsToldToGoBack) {
  StatusView view = half_copied();
  view.state = VolumeState::kResync;
  view.resync.target = view.peer.connected = true;
  const StatusWords words = status_words(view);
  EXPECT_NE(words.status.find("is kept"), std::string::npos) << words.status;
  EXPECT_EQ(words.action.find("rollback"), std::string::npos) << words.action;
}

TEST(WayBackInStatus, WhoWasRolledBackIsNotSaidToBringThePeerUpToDate) {
  StatusView view = half_copied();
  view.way_back = {};
  view.way_back.rolled_back_to_s = 1'795'637'463;
  EXPECT_NE(status_words(view).action.find("`twinblock promote r0 --peer-is-dead`"), std::string::npos);
  // It knows of a history that this node left.
  view.witness.kind = WitnessKind::kEtcd;
  view.witness.standing = WitnessStanding::kUnasked;
  EXPECT_NE(status_words(view).action.find("`twinblock promote r0 --peer-is-dead --without-witness`"), std::string::npos)
      << status_words(view).action;
  view.state = VolumeState::kSimplex;
  const StatusWords words = status_words(view);
  EXPECT_NE(words.status.find("was rolled back"), std::string::npos) << words.status;
  EXPECT_NE(words.action.find("have diverged: `twinblock resolve r0`"), std::string::npos) << words.action;
  EXPECT_EQ(words.action.find("by itself"), std::string::npos) << words.action;
}

TEST(WayBackInStatus, WhatIsUnderWayAndWhatFailedIsSaid) {
  StatusView view = half_copied();
  view.way_back.rolling_back = true;
  EXPECT_NE(status_words(view).status.find("is being rolled back"), std::string::npos);
  view = duplex();
  view.way_back.taking = true;
  EXPECT_NE(status_words(view).status.find("is taken first"), std::string::npos);
  view.way_back = {};
  view.way_back.failure = "no room; make some";
  EXPECT_NE(status_words(view).status.find("could not be taken: no room; make some."), std::string::npos);
}

TEST(RepairInStatus, OneThatWasCutOffIsToBeOrderedAgain) {
  StatusView view = duplex();
  view.repair_cut_off = true;
  EXPECT_EQ(said_beside(view),
            " A repair of beta's blocks was not completed: where the two differ, beta's may be the bad ones still.");
  EXPECT_NE(status_words(view).action.find("`twinblock verify r0` on alpha"), std::string::npos);
  view.repair_cut_off = false;
  EXPECT_EQ(said_beside(view), "");
}

// Its peer has gone on: an order to go on here, too, would be refused, also when the peer is away again.
TEST(OvertakenInStatus, ItIsSaidWhatBecomesOfWhatWaits) {
  for (const VolumeState state : {VolumeState::kRefused, VolumeState::kFrozen}) {
    StatusView view = frozen_primary(state);
    view.verdict = Verdict::kOutdated;
    const StatusWords words = status_words(view);
    EXPECT_EQ((words.status + words.action).find("twinblock continue"), std::string::npos) << words.status;
    EXPECT_NE((words.status + words.action).find("--force --in-use"), std::string::npos) << words.action;
    EXPECT_NE(words.action.find("twinblock demote r0"), std::string::npos) << words.action;
  }
}

// What waits here is done when the other one is demoted.
TEST(OvertakenInStatus, BothArePrimaryAndNothingIsGivenUp) {
  StatusView view = frozen_primary(VolumeState::kRefused);
  view.verdict = Verdict::kBothPrimary;
  const StatusWords words = status_words(view);
  EXPECT_NE(words.status.find("wait until one of the two is demoted"), std::string::npos) << words.status;
  EXPECT_EQ((words.status + words.action).find("--force"), std::string::npos) << words.action;
}

TEST(OvertakenInStatus, WhoCanRecordNothingIsNotSaidToAskItsWitness) {
  StatusView view = frozen_primary(VolumeState::kFrozen);
  view.witness.waits = view.metadata_failed = true;
  const StatusWords words = status_words(view);
  EXPECT_EQ(words.status.find("being asked"), std::string::npos) << words.status;
  EXPECT_NE(words.action.find("`twinblock promote r0` there"), std::string::npos) << words.action;
  EXPECT_EQ(words.action.find("--without-witness"), std::string::npos) << words.action;
}

}  // namespace
}  // namespace twinblock
