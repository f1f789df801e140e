#include "twinblock/device_fate.h"

#include <gtest/gtest.h>

#include "twinblock/json_fields.h"

namespace twinblock {
namespace {

using nlohmann::json;

constexpr uint64_t kTerm = 7;
constexpr pid_t kPid = 4711;

Attachment attached(uint64_t term = kTerm) {
  Attachment attachment;
  attachment.volume = "r0";
  attachment.node = "alpha";
  attachment.method = kMethodNbd;
  attachment.volume_uuid = "u";
  attachment.term = term;
  attachment.server = ProcessId{kPid, 1};
  return attachment;
}

json status_of(const std::string& role, uint64_t term, pid_t pid,
               const std::string& peer_role = "") {
  return {{"node", "alpha"},
          {"volume_uuid", "u"},
          {"role", role},
          {"term", term},
          {"pid", pid},
          {"peer", {{"name", "beta"}, {"connected", !peer_role.empty()}, {"role", peer_role}}}};
}

struct Row {
  uint64_t attached_term;
  const char* role;  // of the node; nullptr: it does not answer
  uint64_t term;     // that it tells; 0: none
  bool same_process;
  const char* peer_role;  // "": it is not connected
  Fate fate;
};

constexpr const char* kAway = nullptr;
constexpr const char* kPrimary = "primary";
constexpr const char* kSecondary = "secondary";

TEST(DeviceFate, FollowsFromWhoWasPromoted) {
  const Row rows[] = {
      // The node does not answer: its process may be busy, or another one may come.
      {kTerm, kAway, 0, true, "", Fate::kKeep},
      {kTerm, kAway, 0, false, "", Fate::kWait},
      {0, kAway, 0, true, "", Fate::kKeep},
      {0, kAway, 0, false, "", Fate::kWait},
      // It is primary. What the peer is then is its own affair, as after a split brain.
      {kTerm, kPrimary, kTerm, true, "", Fate::kKeep},
      {kTerm, kPrimary, kTerm, true, kSecondary, Fate::kKeep},
      {kTerm, kPrimary, kTerm, true, kPrimary, Fate::kKeep},
      {kTerm, kPrimary, kTerm, false, "", Fate::kReconnect},
      {kTerm, kPrimary, kTerm, false, kSecondary, Fate::kReconnect},
      {kTerm, kPrimary, kTerm, false, kPrimary, Fate::kReconnect},
      // … by another promotion, also of the same process, which was demoted in between.
      {kTerm, kPrimary, kTerm + 1, true, "", Fate::kEnd},
      {kTerm, kPrimary, kTerm + 1, false, "", Fate::kEnd},
      {kTerm, kPrimary, kTerm - 1, true, "", Fate::kEnd},
      {kTerm, kPrimary, kTerm - 1, false, "", Fate::kEnd},
      // … and does not say by which.
      {kTerm, kPrimary, 0, true, "", Fate::kEnd},
      {kTerm, kPrimary, 0, false, "", Fate::kEnd},
      {0, kPrimary, kTerm, true, "", Fate::kEnd},
      {0, kPrimary, kTerm, false, "", Fate::kEnd},
      {0, kPrimary, 0, true, "", Fate::kKeep},
      {0, kPrimary, 0, false, "", Fate::kEnd},
      // It is secondary, and may be primary again, unless the other one is.
      {kTerm, kSecondary, kTerm, true, "", Fate::kWait},
      {kTerm, kSecondary, kTerm, false, "", Fate::kWait},
      {kTerm, kSecondary, kTerm, false, kSecondary, Fate::kWait},
      {kTerm, kSecondary, kTerm, false, kPrimary, Fate::kEnd},
      {kTerm, kSecondary, kTerm, true, kPrimary, Fate::kEnd},
      {kTerm, kSecondary, 0, false, "", Fate::kWait},
      {0, kSecondary, 0, false, "", Fate::kWait},
      {0, kSecondary, 0, false, kPrimary, Fate::kEnd},
  };
  for (const Row& row : rows) {
    const json status =
        row.role == kAway
            ? json()
            : status_of(row.role, row.term, row.same_process ? kPid : kPid + 1, row.peer_role);
    const FateVerdict verdict = device_fate(attached(row.attached_term), status, row.same_process);
    EXPECT_EQ(verdict.fate, row.fate) << row.attached_term << " " << status << " " << verdict.why;
    EXPECT_EQ(verdict.why.empty(), row.fate == Fate::kKeep) << status;
  }
}

// Else whoever follows the advice ends the device.
TEST(DeviceFate, OnlyWhoGoesOnByTheSamePromotionTakesItBack) {
  json status = status_of(kSecondary, kTerm, kPid + 1);
  const FateVerdict lost = device_fate(attached(), status, false);
  EXPECT_EQ(lost.fate, Fate::kWait);
  EXPECT_EQ(lost.action, "");
  EXPECT_NE(lost.why.find("a new promotion can't serve"), std::string::npos) << lost.why;
  status["resumes"] = true;
  EXPECT_NE(device_fate(attached(), status, false).action.find("promote it"), std::string::npos);
  EXPECT_EQ(device_fate(attached(), json(), false).action, "start twinblockd there");
}

// The links were cut, this node's process was killed, and the peer was promoted by the witness' consent: nobody goes on by
// the promotion that the device is of, also while the two have not met.
TEST(DeviceFate, ADeviceWhosePeerWentOnByTheWitnessIsEnded) {
  json status = status_of(kSecondary, kTerm, kPid + 1);
  status["resumes"] = false;
  status["witness"] = {{"kind", "etcd"}, {"state", "refused"}, {"holder", "beta"}};
  const FateVerdict over = device_fate(attached(), status, false);
  EXPECT_EQ(over.fate, Fate::kEnd);
  EXPECT_EQ(over.why, "the witness says that beta may have gone on without alpha");
  // One that asks still, or is told something else, knows nothing of that yet.
  for (const char* const state : {"asking", "agreed", "lost", "unreachable", "off"}) {
    status["witness"]["state"] = state;
    EXPECT_EQ(device_fate(attached(), status, false).fate, Fate::kWait) << state;
  }
  status["witness"]["state"] = "refused";
  // Another generation that both share; and a fence command, which names nobody.
  for (const char* const holder : {"", "alpha"}) {
    status["witness"]["holder"] = holder;
    EXPECT_EQ(device_fate(attached(), status, false).fate, Fate::kWait) << holder;
  }
  status["witness"]["holder"] = "beta";
  status["resumes"] = true;
  EXPECT_EQ(device_fate(attached(), status, false).fate, Fate::kWait);
  // Who is primary by the same promotion serves what waits, whatever the witness said.
  status["resumes"] = false;
  status["role"] = kPrimary;
  EXPECT_EQ(device_fate(attached(), status, false).fate, Fate::kReconnect);
}

// Numbers of processes come again.
TEST(DeviceFate, AnotherProcessWithTheNumberIsAnotherOne) {
  EXPECT_EQ(device_fate(attached(), status_of(kPrimary, kTerm, kPid), false).fate,
            Fate::kReconnect);
}

// The server runs still, but it is not this node that answers at the control socket.
TEST(DeviceFate, AProcessThatStillRunsIsNotTheOneThatAnswers) {
  EXPECT_EQ(device_fate(attached(), status_of(kPrimary, kTerm, kPid + 1), true).fate,
            Fate::kReconnect);
}

TEST(DeviceFate, AnotherVolumeOrNodeIsNotServedFromThisOnesPages) {
  json status = status_of(kPrimary, kTerm, kPid + 1);
  status["volume_uuid"] = "v";
  EXPECT_EQ(device_fate(attached(), status, false).fate, Fate::kEnd);
  status = status_of(kSecondary, 0, kPid + 1);
  status["volume_uuid"] = "v";
  EXPECT_EQ(device_fate(attached(), status, false).fate, Fate::kEnd);
  status = status_of(kPrimary, kTerm, kPid + 1);
  status["node"] = "beta";
  EXPECT_EQ(device_fate(attached(), status, false).fate, Fate::kEnd);
}

TEST(DeviceFate, AnEndSaysWhoWasPromoted) {
  const FateVerdict by_peer = device_fate(attached(), status_of(kSecondary, 0, 1, kPrimary), false);
  EXPECT_EQ(by_peer.why, "beta was promoted meanwhile");
  const FateVerdict anew = device_fate(attached(), status_of(kPrimary, 9, 1), false);
  EXPECT_EQ(anew.why,
            "since it was attached, a node has been promoted anew (alpha is primary by promotion "
            "9, the device is of promotion 7)");
}

}  // namespace
}  // namespace twinblock
