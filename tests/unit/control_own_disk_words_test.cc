// What `status` says where a disk of this node's own has refused something.
#include <gtest/gtest.h>

#include "control/status_words.h"
#include "status_view_support.h"

namespace twinblock {
namespace {

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// Its disk has refused a write, for want of room or otherwise, and is in use.
StatusView refused_here(VolumeState state, Role role, bool lacks_room) {
  StatusView view = alpha_in(state);
  view.role = role;
  view.backing = "/srv/r0";
  view.disk_error = "the local disk failed: /srv/r0";
  view.disk_lacks_room = lacks_room;
  return view;
}

TEST(OwnDiskInStatus, WhatItRefusedAPrimaryWithoutAPeerComesFirst) {
  for (const bool lacks_room : {true, false}) {
    const StatusWords words = status_words(refused_here(VolumeState::kSimplex, Role::kPrimary, lacks_room));
    EXPECT_TRUE(words.status.starts_with("the local disk failed: /srv/r0; clients get errors")) << words.status;
    EXPECT_TRUE(words.action.starts_with("Start twinblockd on beta")) << words.action;
    EXPECT_EQ(has(words.action, "Free space for /srv/r0."), lacks_room) << words.action;
    EXPECT_EQ(has(words.action, "Look at the disk that holds /srv/r0 (dmesg, smartctl)."), !lacks_room) << words.action;
    EXPECT_TRUE(words.action.ends_with("Keep this disk: it may hold what beta lacks.")) << words.action;
  }
}

// It was primary, say, and its disk took what was written after that.
TEST(OwnDiskInStatus, ASecondaryWithoutAPeerIsToldHowThatComesBack) {
  for (const bool lacks_room : {true, false}) {
    const StatusWords words = status_words(refused_here(VolumeState::kWaiting, Role::kSecondary, lacks_room));
    EXPECT_TRUE(words.status.starts_with("the local disk failed: /srv/r0. Secondary, without")) << words.status;
    EXPECT_TRUE(words.action.starts_with("Start twinblockd on beta")) << words.action;
    EXPECT_EQ(has(words.action, "Free space for /srv/r0."), lacks_room) << words.action;
    EXPECT_FALSE(has(words.action, "the copy is then resumed")) << "there is none: " << words.action;
    EXPECT_TRUE(words.action.ends_with("Keep this disk: it may hold what beta lacks.")) << words.action;
  }
}

TEST(OwnDiskInStatus, WhoCopiesToThePeerIsNotSaidToBeCopiedTo) {
  StatusView view = refused_here(VolumeState::kResync, Role::kSecondary, true);
  view.peer.connected = view.peer.answers = true;
  view.resync.source = view.resync.active = true;
  const StatusWords words = status_words(view);
  EXPECT_TRUE(words.action.starts_with("Nothing to do; ")) << words.action;
  EXPECT_TRUE(words.action.ends_with(" Free space for /srv/r0.")) << words.action;
}

TEST(OwnDiskInStatus, AFullOneThatIsCopiedToIsNotToBeReplaced) {
  StatusView view = refused_here(VolumeState::kWaiting, Role::kSecondary, true);
  view.peer.answers = true;  // which tries again from time to time
  for (const Verdict verdict : {Verdict::kTargetOfMap, Verdict::kInSync}) {
    view.verdict = verdict;
    EXPECT_EQ(status_words(view).action, "Free space for /srv/r0; the copy is then resumed by itself.");
  }
  view.mine.dirty = true;  // it went on alone later
  EXPECT_FALSE(has(status_words(view).action, "the copy is then resumed")) << status_words(view).action;
  view.mine.dirty = false;
  view.peer.connected = true;
  for (const bool copied : {true, false}) {
    view.resync.target = copied;
    EXPECT_EQ(has(status_words(view).action, "the copy is then resumed"), copied) << status_words(view).action;
  }
}

TEST(OwnDiskInStatus, AFullOneThatWasLeftIsNotToBeReplaced) {
  StatusView view = refused_here(VolumeState::kDuplex, Role::kSecondary, true);
  view.peer.connected = true;
  view.disk_ok = false;
  EXPECT_EQ(status_words(view).action, "Free space for /srv/r0, then restart twinblockd here.");
  view.disk_lacks_room = false;
  EXPECT_EQ(status_words(view).action,
            "Replace the disk that holds /srv/r0, then restart twinblockd here; if it was replaced, move the metadata file "
            "away before the start.");
  view.role = Role::kPrimary;
  view.state = VolumeState::kDiskless;
  view.peer.error_file = "/srv/r1";
  view.peer.error = "beta's disk refused a write";
  view.peer.lacks_room = true;
  EXPECT_TRUE(status_words(view).action.starts_with("On beta, free space on the disk that holds /srv/r1, and keep it."));
}

}  // namespace
}  // namespace twinblock
