#include "volume/volume_state.h"

namespace twinblock {
namespace {

VolumeState in_session(const Standing& node) {
  const VolumeState duplex = node.unreadable ? VolumeState::kDegraded : VolumeState::kDuplex;
  if (node.resyncing) return VolumeState::kResync;
  if (node.sole_copy) return VolumeState::kDiskless;
  if (node.peer_whole) return duplex;
  const bool secondary = node.role == Role::kSecondary;
  if (secondary && node.peer == PeerRole::kPrimary) return duplex;
  if (secondary && node.in_sync) return VolumeState::kConnected;
  return node.blank ? VolumeState::kBlank : VolumeState::kConnecting;
}

VolumeState alone(const Standing& node) {
  if (is_primary(node.role)) {
    if (!node.disk_ok) return VolumeState::kFailed;
    if (node.refused) return VolumeState::kRefused;
    return node.frozen ? VolumeState::kFrozen : VolumeState::kSimplex;
  }
  // Two blank nodes do not refuse each other: they wait for `init`.
  if (node.refused && !node.both_blank) return VolumeState::kRefused;
  return node.blank ? VolumeState::kBlank : VolumeState::kWaiting;
}

}  // namespace

VolumeState state_of(const Standing& node) {
  return node.connected ? in_session(node) : alone(node);
}

const char* state_name(VolumeState state) {
  switch (state) {
    case VolumeState::kBlank:
      return "blank";
    case VolumeState::kWaiting:
      return "waiting";
    case VolumeState::kConnecting:
      return "connecting";
    case VolumeState::kConnected:
      return "connected";
    case VolumeState::kDuplex:
      return "duplex";
    case VolumeState::kDegraded:
      return "degraded";
    case VolumeState::kDiskless:
      return "diskless";
    case VolumeState::kResync:
      return "resync";
    case VolumeState::kSimplex:
      return "simplex";
    case VolumeState::kFrozen:
      return "frozen";
    case VolumeState::kRefused:
      return "refused";
    case VolumeState::kFailed:
      return "failed";
  }
  return "unknown";
}

const char* data_state_name(DataState state) {
  switch (state) {
    case DataState::kBlank:
      return "blank";
    case DataState::kCurrent:
      return "current";
    case DataState::kInconsistent:
      return "inconsistent";
    case DataState::kFailed:
      return "failed";
  }
  return "unknown";
}

}  // namespace twinblock
