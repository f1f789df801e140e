#include "volume/upkeep.h"

#include <utility>

#include "base/limits.h"

namespace twinblock {

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
  if (parts_.roles.role() == Role::kPrimary) parts_.disks.forget_what_passed();
  look_();
  note_held_data();
  close_epoch();
}

// From now on a backing without any data is one that was lost.
void Upkeep::note_held_data() {
  if (!core_.written().stable() || core_.record().held_data || core_.state().blank()) return;
  core_.state().hold_data();
  core_.state().persist([](int) {});
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
    parts_.flushes.flush([](int) {});
  }
}

void Upkeep::age_intents() {
  age_timer_->arm(limits::kIntentAge_ns);
  if (core_.state().blank()) return;
  parts_.writes.touch_intents();
  parts_.verifier.touch_intents();
  core_.intents().age([this](uint64_t offset_bytes, uint64_t length_bytes) {
    return core_.differences().any(offset_bytes, length_bytes);
  });
}

}  // namespace twinblock
