#include "volume/simplex_gate.h"

#include <cerrno>
#include <utility>

#include "base/checks.h"

namespace twinblock {

void SimplexGate::pass(std::function<void(int)> then) {
  TB_CHECK(!open_ || !recording_, "nothing passes while what allows it is being recorded");
  TB_CHECK(core_.stance().may_promise_alone(), "who goes on alone has the right to");
  if (open_ && !told_) {
    then(0);
    return;
  }
  moves_on_ = moves_on_ || told_;
  wait(std::move(then));
}

void SimplexGate::pass_flush(std::function<void(int)> then) {
  TB_CHECK(core_.stance().may_promise_alone(), "who goes on alone has the right to");
  if (open_)
    then(0);
  else
    wait(std::move(then));
}

void SimplexGate::wait(std::function<void(int)> then) {
  waiting_.push_back(std::move(then));
  if (!recording_) record();
}

void SimplexGate::record() {
  TB_CHECK(!recording_, "one record at a time, which all who come meanwhile wait for");
  TB_CHECK(!core_.record().inconsistent,
           "what a node promises alone is on a replica that others may be brought up to date from");
  recording_ = true;
  open_ = false;  // what comes while the record is written waits for it
  closed_meanwhile_ = false;
  // A history that the peer can't have is continued. One that it was told to record may be the
  // peer's, too, whether it confirmed that or not.
  if (core_.record().shares_generation()) {
    core_.state().history().begin_generation(core_.stance().alone_right().by_witness());
    core_.stance().alone_right().withdraw();  // it is spent
  }
  if (std::exchange(moves_on_, false)) {
    core_.state().history().move_on();
    told_ = false;
  }
  core_.state().hold_more();
  TB_CHECK(!core_.record().shares_generation(),
           "who goes on alone does so in a generation that the peer can't have");
  core_.state().persist([this](int error) {
    recording_ = false;
    const bool again = error == 0 && (closed_meanwhile_ || moves_on_);
    if (again && core_.stance().may_promise_alone()) {
      record();
      return;
    }
    if (again) error = EAGAIN;
    open_ = error == 0;
    for (auto& waiter : std::exchange(waiting_, {})) waiter(error);
  });
}

}  // namespace twinblock
