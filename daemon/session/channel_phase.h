// How far a connection has come, from its first byte to its end: which side may be in which phase, and what
// may follow. Pure; any thread.
//
//   dialled:   kConnecting ─▶ kAwaitChallenge ─▶ kAwaitHello ─▶ kAwaitVerdict ─▶ kUp
//                                             ─▶ kReplacing ─▶ kAwaitJoin ─▶ kUp
//                                             ─▶ kMeasuring
//   accepted:  kAwaitHello ─▶ kProbing ─▶ kDraining ─▶ kAwaitVerdict ─▶ kUp
//                          ─▶ kParked ─▶ kUp
//                          ─▶ kMeasuring
//   Steps may be left out where there is nothing to wait for. kClosing is for who was refused, and kClosed may
//   follow each.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/steps.h"

namespace twinblock {

enum class ChannelPhase : uint8_t {
  kConnecting,      // dialled, not connected yet
  kAwaitChallenge,  // dialled and connected; the acceptor speaks first
  kReplacing,       // … and has spoken; the connection that this one replaces may yet be heard
  kAwaitJoin,       // dialled to join the session; the peer's consent is to come
  kParked,          // accepted, and wants to join a session that is about to stand here
  kAwaitHello,      // the peer's hello is to come (a dialler has sent its own)
  kMeasuring,       // probes a link, and will never be part of a session
  kProbing,         // accepted, hello is good; does the session that stands still answer?
  kDraining,        // accepted, hello is good; an earlier session's disk work ends first
  kAwaitVerdict,    // hellos are exchanged
  kClosing,         // refused: only what we have said has still to reach the peer
  kUp,
  kClosed,
};
constexpr size_t kChannelPhases = 13;
const char* channel_phase_name(ChannelPhase phase);

struct ChannelPhaseRules {
  ChannelPhase phase;
  bool dialled;   // a dialled connection may be in it
  bool accepted;  // … an accepted one
  bool begins;    // an accepted connection in it begins a session, or has begun one or was refused it
  uint16_t next;  // the phases that may follow, by bits; kClosed always may
};
const ChannelPhaseRules& rules_of(ChannelPhase phase);
bool may_follow(ChannelPhase from, ChannelPhase to);

using ChannelSteps = Steps<ChannelPhase, kChannelPhases>;

}  // namespace twinblock
