// What `status` says of a disk that stands still.
#include "control/stalled_disk_words.h"

#include <gtest/gtest.h>

#include "status_view_support.h"

namespace twinblock {
namespace {

constexpr const char* kFine =
    "Both replicas are current; every write is on both before it is acknowledged.";

StatusView duplex() {
  StatusView view = alpha_in(VolumeState::kDuplex);
  view.peer.connected = true;
  return view;
}

TEST(StalledDisk, APrimarySaysWhoWaitsAndHowThePeerCanGoOn) {
  StatusView view = duplex();
  view.role = Role::kPrimary;
  view.stalled_file = "/srv/r0.img";
  EXPECT_EQ(said_beside(view), "");
  view.stalled_ns = 45 * kSecond_ns;
  EXPECT_EQ(status_words(view).status, "This node waits for /srv/r0.img: its disk has stood still for 45.00 s, and clients "
                                       "wait, too. " + std::string(kFine));
  EXPECT_NE(status_words(view).action.find("power alpha off or kill twinblockd there"), std::string::npos);
  EXPECT_NE(status_words(view).action.find("`twinblock promote r0 --peer-is-dead` on beta"), std::string::npos);
  view.witness.kind = WitnessKind::kEtcd;
  view.witness.standing = WitnessStanding::kAgreed;
  EXPECT_EQ(status_words(view).action.find("--peer-is-dead"), std::string::npos) << "nobody has to vouch for anything";
  EXPECT_NE(status_words(view).action.find("`twinblock promote r0` there"), std::string::npos);
  view.state = VolumeState::kFrozen;
  view.peer.connected = false;
  EXPECT_NE(status_words(view).action.find("`twinblock promote r0` there"), std::string::npos) << "nothing was promised";
  view.witness.standing = WitnessStanding::kUnasked;
  view.frozen = view.witness.waits = true;
  EXPECT_EQ(status_words(view).status.find("being asked"), std::string::npos) << "it could promise nothing";
  EXPECT_NE(status_words(view).status.find("not asked before that disk gets on"), std::string::npos) << status_words(view).status;
  for (const VolumeState state : {VolumeState::kSimplex, VolumeState::kResync}) {
    view.state = state;
    EXPECT_EQ(status_words(view).action.find("promote"), std::string::npos) << "beta lacks something";
  }
  view.witness = {};
  EXPECT_EQ(status_words(view).action.find("promote"), std::string::npos) << "beta lacks something";
}

TEST(StalledDisk, ASecondarySaysWhoItsPrimaryWaitsFor) {
  StatusView view = duplex();
  view.peer.stalled_ns = 45 * kSecond_ns;
  EXPECT_EQ(status_words(view).status, "beta's clients wait, as its disk has stood still for 45.00 s. " +
                                           std::string(kFine));
  EXPECT_NE(status_words(view).action.find("power beta off or kill twinblockd there"), std::string::npos);
  EXPECT_NE(status_words(view).action.find("`twinblock promote r0 --peer-is-dead` here"), std::string::npos);
  view.state = VolumeState::kResync;
  view.resync.target = view.mine.inconsistent = true;
  EXPECT_EQ(status_words(view).action, "Look at beta's disk; when it gets on, all does by itself.");  // it is half-copied
  view = duplex();
  view.peer.stalled_ns = 45 * kSecond_ns;
  view.peer.connected = false;
  EXPECT_EQ(said_beside(view).find(" When beta was last heard, its own disk stood still."), 0u) << said_beside(view);
}

}  // namespace
}  // namespace twinblock
