// What the tests of words share: a node of volume r0, and what is said beside its state.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "control/status_words.h"

namespace twinblock {

inline StatusView alpha_in(VolumeState state) {
  StatusView view;
  view.volume = "r0";
  view.node = "alpha";
  view.peer.name = "beta";
  view.state = state;
  return view;
}

inline std::string said_beside(const StatusView& view) {
  const std::string all = status_words(view).status, state = state_words(view).status;
  EXPECT_TRUE(all.starts_with(state));
  return all.substr(state.size());
}

}  // namespace twinblock
