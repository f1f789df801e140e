#include "volume/upkeep.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/limits.h"
#include "base/strict_checks.h"

namespace twinblock {
namespace {

BlockMap on_record(const Core& core) {
  BlockMap blocks(core.volume_bytes());
  core.intents().for_each_set([&blocks](uint64_t offset_bytes, uint64_t length_bytes) {
    blocks.set(offset_bytes, length_bytes);
  });
  return blocks;
}

// What may differ stays in the intents where it was in them. (It need not be there: what a source was told of the
// target's own set is on the target's record, and where every block may differ, this node's record says that instead, as it does of a repair.)
void check_still_on_record(const Core& core, const BlockMap& before) {
  const BlockMap missed = core.differences().without_peer(core.volume_bytes());
  const uint64_t region_bytes = core.intents().region_bytes();
  for (uint64_t at = 0; at < core.volume_bytes(); at += region_bytes) {
    const uint64_t length = std::min(region_bytes, core.volume_bytes() - at);
    TB_CHECK(!missed.any(at, length) || !before.any(at, length) || core.intents().any(at, length),
             "what the peer may miss stays on record, however old it is (invariant 3)");
  }
}

}  // namespace

Upkeep::Upkeep(Core& core, const Parts& parts, std::function<void()> look)
    : core_(core), parts_(parts), look_(std::move(look)) {
  age_timer_ = core_.clock.make_timer([this] { age_intents(); });
  tick_timer_ = core_.clock.make_timer([this] { tick(); });
}

void Upkeep::start() {
  tick_timer_->arm(limits::kEpochIdle_ns / 2);
  age_timer_->arm(limits::kIntentAge_ns);
}

void Upkeep::tick() {
  tick_timer_->arm(limits::kEpochIdle_ns / 2);
  parts_.replica.resume_if_drained();
  parts_.replica.watch_disk();
  parts_.disks.flush_record().look();
  if (parts_.roles.role() == Role::kPrimary) parts_.disks.forget_what_passed();
  parts_.disks.look();
  look_();
  close_epoch();
}

// So that the loss of the peer costs little.
void Upkeep::close_epoch() {
  const uint64_t now = core_.clock.now_ns();
  if (!core_.phase().attached() || core_.differences().epochs().empty() || parts_.flushes.busy()) {
    epoch_opened_ns_ = now;
    return;
  }
  const bool idle = now - parts_.writes.last_write_ns() > limits::kEpochIdle_ns;
  if (idle || now - epoch_opened_ns_ > limits::kEpochOpenMax_ns) {
    epoch_opened_ns_ = now;
    parts_.flushes.flush_beside(nullptr);
  }
}

void Upkeep::age_intents() {
  age_timer_->arm(limits::kIntentAge_ns);
  if (core_.state().blank()) return;
  parts_.writes.touch_intents();
  const auto before = strict_checks ? std::optional(on_record(core_)) : std::nullopt;
  core_.intents().age([this](uint64_t offset_bytes, uint64_t length_bytes) {
    return core_.differences().any(offset_bytes, length_bytes);
  });
  if (before) check_still_on_record(core_, *before);
}

}  // namespace twinblock
