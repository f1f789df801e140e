// What the peer makes this node put on record: a generation that it takes over, or the peer's right
// to be primary. The peer's operator may promote it while it makes this node record a generation,
// and the other way round: one after the other. A good peer has one of each under way; its role
// takes back what it asked.
//
// Owned by EngineSession; loop thread only.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "base/checks.h"
#include "wire/frame_reader.h"

namespace twinblock {

class AskedRecord {
 public:
  // `take_up` is called with a frame that was held, when its turn has come.
  explicit AskedRecord(std::function<void(wire::Frame&)> take_up) : take_up_(std::move(take_up)) {}

  void session_up() {
    under_way_ = false;
    held_.reset();
  }
  [[nodiscard]] bool under_way() const { return under_way_; }
  // Whether the frame has to wait, and is kept until then: while something else is recorded, or
  // because another one has to come first. Of two that would wait the second is not kept.
  [[nodiscard]] bool hold(wire::Frame& frame, bool another_comes_first) {
    if ((!under_way_ && !another_comes_first) || held_) return false;
    held_ = std::move(frame);
    return true;
  }
  void begin() {
    TB_CHECK(!under_way_, "what the peer asks for is recorded one after the other");
    under_way_ = true;
  }
  // It was recorded, or could not be, and the peer has its answer.
  void end() {
    TB_CHECK(under_way_, "only what has begun to be recorded has an answer");
    under_way_ = false;
    if (auto frame = std::exchange(held_, std::nullopt)) take_up_(*frame);
  }
  // A peer that asked to be primary and did not wait any longer: it must not be told yes now.
  void forget_promotion() {
    if (held_ && wire::FrameType{held_->header.type} == wire::FrameType::kPromoteAsk) held_.reset();
  }

 private:
  std::function<void(wire::Frame&)> take_up_;
  bool under_way_ = false;
  std::optional<wire::Frame> held_;
};

}  // namespace twinblock
