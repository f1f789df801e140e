// Who has the export open, whether it may be opened, and what clients ask of the volume. Owned by the
// engine; loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "base/limits.h"
#include "volume/client_request.h"
#include "volume/core.h"
#include "volume/flush_group.h"
#include "volume/roles.h"
#include "volume/slow_reads.h"
#include "volume/write_path.h"

namespace twinblock {

class Clients {
 public:
  // `cut_off`: Engine::Parts.
  Clients(Core& core, const Roles& roles, WritePath& writes, SlowReads& reads, FlushGroup& flushes,
          std::function<void()> cut_off)
      : core_(core),
        roles_(roles),
        writes_(writes),
        reads_(reads),
        flushes_(flushes),
        cut_off_(std::move(cut_off)) {}

  // A client opens the export: an error says why it can't. `term`: it goes on with what it knows of the
  // volume since that promotion, and may be served by no other one; 0: it knows nothing yet.
  Status opened(uint64_t term = 0);
  void closed();
  void submit(ClientRequest& request);
  // Whether any wait for the peer (on_peer_loss = freeze), or for the witness.
  [[nodiscard]] bool any_held() const {
    return writes_.any_held() || flushes_.any_held() || reads_.any_held();
  }
  // Whether all do that are under way.
  [[nodiscard]] bool all_held() const {
    return writes_.all_held() && (flushes_.any_held() || !flushes_.busy()) && reads_.all_held();
  }
  // The process is asked to stop while clients may still wait: what is held fails, so that the clients
  // can go. May be called again.
  void let_go() {
    writes_.fail_held();
    flushes_.fail_held();
    reads_.fail_held();
  }
  // Their connections end without an answer: what they know of the volume is old.
  void cut_off() {
    if (cut_off_) cut_off_();
  }
  // The connections of some were ended by order, so that they make others. (They may be taken away instead, of which
  // nobody tells.)
  void hung_up_on() {
    hung_up_in_ = core_.record().term;
    hung_up_ns_ = core_.clock.now_ns();
  }
  [[nodiscard]] uint64_t count() const { return count_; }
  // Whether clients of this promotion are still waited for: those of the last process, until one of them is back, and
  // who was hung up on. Who neither names the promotion nor writes need not be one of them: a monitor looks, and goes.
  [[nodiscard]] bool any_awaited() const {
    return (hung_up_in_ == core_.record().term && core_.clock.now_ns() - hung_up_ns_ < limits::kHungUpAwaited_ns) ||
           (roles_.went_on() && !any_back_);
  }

 private:
  Core& core_;
  const Roles& roles_;
  WritePath& writes_;
  SlowReads& reads_;
  FlushGroup& flushes_;
  const std::function<void()> cut_off_;
  uint64_t count_ = 0;
  bool any_back_ = false;
  std::optional<uint64_t> hung_up_in_;  // the promotion; nullopt: nobody was, or they are back
  uint64_t hung_up_ns_ = 0;             // when
};

}  // namespace twinblock
