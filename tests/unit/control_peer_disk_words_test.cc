// What `status` says where the peer's disk fails.
#include <gtest/gtest.h>

#include "control/status_words.h"
#include "status_view_support.h"

namespace twinblock {
namespace {

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// A primary that has lost its peer by what that one's disk answered.
StatusView lost_by_its_disk(VolumeState state) {
  StatusView view = alpha_in(state);
  view.role = Role::kPrimary;
  view.peer.answers = true;
  view.peer.error = "beta's disk failed while writing (/dev/vg0/r0): Input/output error";
  view.peer.error_file = "/dev/vg0/r0";
  return view;
}

// … and whose clients wait for an etcd that can't be asked.
StatusView waits_for_witness(VolumeState state) {
  StatusView view = lost_by_its_disk(state);
  view.frozen = view.witness.waits = true;
  view.witness.kind = WitnessKind::kEtcd;
  view.witness.name = "etcd at http://10.0.0.3:2379";
  view.witness.standing = WitnessStanding::kUnreachable;
  view.witness.error = "connection refused";
  view.witness.action = "start etcd";
  return view;
}

StatusView is_refused(StatusView view, Verdict verdict) {
  view.verdict = verdict;
  view.refusal = "beta is refused";
  return view;
}

TEST(PeerDiskInStatus, ItIsToBeMendedWhereThisNodeGoesOnAlone) {
  const StatusWords words = status_words(lost_by_its_disk(VolumeState::kSimplex));
  EXPECT_TRUE(words.status.starts_with("beta's disk failed while writing (/dev/vg0/r0)")) << words.status;
  EXPECT_TRUE(words.action.starts_with("On beta, look at the disk that holds /dev/vg0/r0 (dmesg, smartctl), and replace it "
                                       "where it fails;"))
      << words.action;
  EXPECT_TRUE(words.action.ends_with("It is tried again every 10.00 s.")) << words.action;
}

// No room helps a disk that can't be written, and whoever makes some there looks in the wrong place.
TEST(PeerDiskInStatus, RoomIsToBeMadeWhereItWasWanting) {
  for (const VolumeState state : {VolumeState::kSimplex, VolumeState::kFrozen, VolumeState::kDiskless, VolumeState::kFailed})
    for (const bool lacks_room : {true, false}) {
      StatusView view = lost_by_its_disk(state);
      view.peer.lacks_room = view.disk_lacks_room = lacks_room;
      const std::string action = status_words(view).action;
      EXPECT_EQ(has(action, "free space"), lacks_room) << action;
      EXPECT_EQ(action.starts_with("On beta, look at the disk that holds /dev/vg0/r0 (dmesg, smartctl), and "), !lacks_room)
          << action;
    }
}

TEST(PeerDiskInStatus, NeitherOfTwoWithBadPlacesIsToBeReplacedAtOnce) {
  StatusView view = alpha_in(VolumeState::kDegraded);
  view.role = Role::kPrimary;
  view.unreadable_places = 20;
  view.read_error = "read /dev/vg0/r0 at offset 4096: Input/output error";
  EXPECT_TRUE(has(status_words(view).status, "After 16 places the disk counts as failed."));
  view.peer_reads_fail = true;
  const StatusWords words = status_words(view);
  EXPECT_TRUE(has(words.status, "neither disk is given up")) << words.status;
  EXPECT_FALSE(has(words.status, "counts as failed")) << words.status;
  EXPECT_TRUE(words.action.starts_with("Copy what the device holds elsewhere")) << words.action;
  EXPECT_FALSE(has(words.action, "promote")) << words.action;
}

TEST(PeerDiskInStatus, WhoseClientsWaitIsStillToldHowToGoOn) {
  const StatusWords words = status_words(waits_for_witness(VolumeState::kFrozen));
  EXPECT_TRUE(words.action.starts_with("On beta, look at the disk that holds /dev/vg0/r0 (dmesg, smartctl), and replace it "
                                       "where it fails;"))
      << words.action;
  EXPECT_TRUE(has(words.action, "Start etcd. Only where beta is dead for sure, and was not promoted: "
                                "twinblock continue r0 --without-witness."))
      << words.action;
  StatusView freezes = lost_by_its_disk(VolumeState::kFrozen);  // on_peer_loss = "freeze"
  freezes.frozen = true;
  EXPECT_TRUE(has(status_words(freezes).action, "`twinblock continue r0`")) << status_words(freezes).action;
}

TEST(PeerDiskInStatus, WhoseClientsWaitBesideARefusedPeerIsToldHowToGoOn) {
  StatusView view = is_refused(waits_for_witness(VolumeState::kRefused), Verdict::kPeerDiskFailed);
  EXPECT_TRUE(status_words(view).action.ends_with(
      "Start etcd. Only where beta's replica is lost for good, or was not promoted: "
      "twinblock continue r0 --without-witness."))
      << status_words(view).action;
  view.witness.standing = WitnessStanding::kRefused;  // it has been promoted
  EXPECT_TRUE(status_words(view).action.ends_with(
      " Only where beta's replica is lost for good: twinblock continue r0 --without-witness."))
      << status_words(view).action;
  EXPECT_FALSE(has(status_words(view).action, "tart etcd")) << status_words(view).action;
  for (const bool overtaken : {true, false}) {  // the order is refused
    StatusView other = is_refused(view, overtaken ? Verdict::kBothPrimary : Verdict::kPeerDiskFailed);
    other.metadata_failed = !overtaken;
    EXPECT_FALSE(has(status_words(other).action, "continue")) << status_words(other).action;
  }
}

// The disk has been replaced already, or holds what nobody else has.
TEST(PeerDiskInStatus, WhatARefusalSaysToDoStays) {
  StatusView view = is_refused(lost_by_its_disk(VolumeState::kRefused), Verdict::kPeerNotJoinable);
  EXPECT_TRUE(status_words(view).action.starts_with("on beta run `twinblock init r0 --join`"))
      << status_words(view).action;
  view.verdict.reset();  // of another version, say
  EXPECT_TRUE(has(status_words(view).action, "and replace it where it fails")) << status_words(view).action;
}

// It goes on serving clients; whoever stopped it, or went back here, would part from what they write.
TEST(PeerDiskInStatus, AHalfCopiedNodeIsToKeepTheDiskThatItIsCopiedFrom) {
  StatusView view = is_refused(alpha_in(VolumeState::kRefused), Verdict::kPeerDiskFailed);
  view.peer.answers = true;
  view.way_back.kept = true;
  view.peer.facts.emplace();
  for (SyncFacts* each : {&view.mine, &*view.peer.facts}) {
    each->volume_uuid[0] = 1;
    each->generations.current = each->generations.history[0] = 7;
  }
  view.mine.inconsistent = view.peer.facts->primary = view.peer.facts->disk_failed = true;
  for (const VolumeState state : {VolumeState::kRefused, VolumeState::kWaiting}) {  // it is looked at, say
    view.state = state;
    const StatusWords words = status_words(view);
    EXPECT_EQ(has(words.status, "beta was lost in the middle"), state == VolumeState::kWaiting) << words.status;
    EXPECT_TRUE(has(words.status, "This replica is half-copied")) << words.status;
    EXPECT_TRUE(words.action.starts_with("keep the disk of beta and its metadata file")) << words.action;
    EXPECT_TRUE(has(words.action, "Stop nothing that beta still serves.")) << words.action;
    EXPECT_TRUE(has(words.action, " Or, where beta's replica is lost for good: `twinblock rollback r0`"))
      << words.action;
  }
}

// What this node worked on since its own disk failed.
TEST(PeerDiskInStatus, TheOnlyGoodCopyIsNotToBeReplaced) {
  const StatusWords words = status_words(lost_by_its_disk(VolumeState::kFailed));
  EXPECT_TRUE(words.status.starts_with("beta's disk failed while writing (/dev/vg0/r0)")) << words.status;
  EXPECT_FALSE(has(words.action, "replace")) << words.action;
  EXPECT_TRUE(words.action.starts_with("On beta, look at the disk that holds /dev/vg0/r0 (dmesg, smartctl), and keep it. "))
      << words.action;
  const StatusView refused = is_refused(lost_by_its_disk(VolumeState::kFailed), Verdict::kPeerNotJoinable);
  EXPECT_TRUE(status_words(refused).action.starts_with("on beta run")) << "it tells of what beta has by now";
}

}  // namespace
}  // namespace twinblock
