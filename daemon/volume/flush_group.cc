#include "volume/flush_group.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "base/checks.h"

namespace twinblock {
namespace {

// The peer went on without this node, and has all that both acknowledged.
bool peer_has_all(const Core& core) {
  const Handshake& handshake = core.session.handshake();
  SyncFacts mine;
  mine.peer_instance = core.record().peer_instance;
  mine.peer_boot = core.record().peer_boot;
  return handshake.last_verdict() == Verdict::kOutdated && handshake.peer_facts() &&
         keeps_its_memory(*handshake.peer_facts(), mine);
}

}  // namespace

FlushGroup::FlushGroup(Core& core, SimplexGate& gate, DiskHealth& disks)
    : core_(core), gate_(gate), disks_(disks) {
  request_.op = DiskOp::kFlush;
  request_.done = [this](DiskRequest&) { local_done(); };
}

void FlushGroup::flush(Done done) { add({std::move(done), true}); }

void FlushGroup::flush_beside(Done done) { add({std::move(done), false}); }

void FlushGroup::add(Waiter waiter) {
  waiting_.push_back(std::move(waiter));
  if (!running_) begin();
}

void FlushGroup::begin() {
  TB_CHECK(!local_pending_ && !peer_pending_ && !held_ && !for_sole_copy_ && !(abandoned_ && disks_.local_ok()),
           "a flush begins when the one before has ended on both nodes, or on a disk that was left");
  running_ = true;
  running_for_ = std::exchange(waiting_, {});
  core_.differences().flush_began();
  local_error_ = 0;
  on_local_ = on_peer_ = false;
  covers_data_ = core_.written().any();
  local_pending_ = disks_.local_ok();
  peer_pending_ = core_.phase().attached();
  if (peer_pending_) core_.session.request_unordered(wire::FlushFrame{}, *this);
  if (local_pending_) {
    request_.error = 0;
    request_.flush_failed = false;
    core_.data.submit(request_);
  }
  if (!local_pending_ && !peer_pending_) settle();
}

void FlushGroup::local_done() {
  if (request_.error == 0 && covers_data_ && disks_.local_ok())
    core_.state().hold_data([this] { ended_here(); });
  else
    ended_here();
}

void FlushGroup::ended_here() {
  if (std::exchange(abandoned_, false)) {
    if (request_.error != 0) disks_.local_disk_failed(request_);
    return;
  }
  TB_CHECK(running_ && local_pending_, "the disk answers a flush once");
  local_pending_ = false;
  local_error_ = request_.error;
  on_local_ = local_error_ == 0;
  if (local_error_ != 0) disks_.local_disk_failed(request_);
  settle();
}

void FlushGroup::answered(const PeerAnswer& answer) {
  if (answer.error != 0) {
    disks_.peer().failed(answer.error, "flushing");
    return;
  }
  TB_CHECK(running_ && peer_pending_, "the peer answers a flush once");
  peer_pending_ = false;
  on_peer_ = true;
  settle();
}

void FlushGroup::sole_copy_recorded() {
  if (std::exchange(for_sole_copy_, false))
    finish(0);
  else if (local_pending_)
    settle();
}

void FlushGroup::peer_lost() {
  if (!running_) return;
  on_peer_ = false;
  const bool awaited = std::exchange(for_sole_copy_, false);
  if (!peer_pending_ && !awaited) return;
  peer_pending_ = false;
  settle();
}

void FlushGroup::settle() {
  // The peer stands in for this disk, which may never answer: no more flushes go to it.
  if (core_.phase().now() == Phase::kDiskless && std::exchange(local_pending_, false)) abandoned_ = true;
  if (local_pending_ || peer_pending_) return;
  // A disk that the peer stands in for counts no more, as the peer has on record: what that one has is all there is.
  if (on_peer_ && (on_local_ || core_.phase().now() == Phase::kDiskless)) core_.differences().flush_completed();
  if (on_peer_ && (on_local_ || core_.phase().diskless())) {
    // Until the peer knows that it holds the only copy, a crash here would forget that.
    for_sole_copy_ = !on_local_ && core_.phase().now() != Phase::kDiskless;
    if (!for_sole_copy_) finish(0);
    return;
  }
  // Begun without the peer, which takes part by now and has to do it, too: what is promised here alone
  // would need a generation of its own, which a peer that is just recording this one does not get.
  if (core_.phase().attached() && (on_local_ || core_.phase().diskless())) {
    begin_again();
    return;
  }
  if (!on_local_) {
    // No disk here has it, but the peer's may.
    if (promised() && disks_.peer_is_waited_for())
      held_ = true;
    else
      finish(local_error_ != 0 ? local_error_ : EIO);
    return;
  }
  // Alone. What is stable here and may not be at the peer must be on record first, or the peer
  // could pass for current after a crash. One that took over may hold, and have shown, what the peer
  // never acknowledged. On a replica that was given up nothing is promised alone.
  const bool nothing_missing = core_.differences().none_known() && core_.differences().valid();
  const bool demoting = core_.stance().demoting();
  // (A demotion leaves it on record that the two may differ: a generation would part it from a peer that it is to follow.)
  if (nothing_missing && (demoting || !core_.state().role().took_over()))
    finish(0);
  // What is here, and the peer misses, was never acknowledged, as it waits for the right to; or the peer's counts.
  else if (demoting && (core_.stance().waits_for_witness() || peer_has_all(core_)))
    finish(0);
  // Nobody was promised anything by it.
  else if (!promised())
    finish(0);
  else if (core_.stance().frozen())
    held_ = true;
  else if (!disks_.local_ok())
    finish(EIO);
  else
    gate_.pass_flush([this](int error) {
      if (error == EAGAIN)
        begin_again();
      else
        finish(error == 0 ? 0 : EIO);
    });
}

bool FlushGroup::promised() const {
  return std::any_of(running_for_.begin(), running_for_.end(), [](const Waiter& each) { return each.promised; });
}

// Once more, on both nodes if the peer takes part, for all who wait.
void FlushGroup::begin_again() {
  waiting_.insert(waiting_.begin(), std::make_move_iterator(running_for_.begin()),
                  std::make_move_iterator(running_for_.end()));
  begin();
}

void FlushGroup::release_held() {
  if (core_.stance().clients_wait() || !std::exchange(held_, false)) return;
  begin_again();
}

void FlushGroup::fail_held() {
  if (!std::exchange(held_, false)) return;
  // Those that wait for the next one would be held in their turn.
  std::vector<Waiter> waiting = std::exchange(waiting_, {});
  finish(ESHUTDOWN);
  for (const Waiter& each : waiting)
    if (each.done) each.done(ESHUTDOWN);
}

void FlushGroup::finish(int error) {
  TB_CHECK(running_ && !local_pending_ && !peer_pending_,
           "a flush is answered when each disk that it needs has answered");
  TB_CHECK(error != 0 || on_local_ || (on_peer_ && core_.phase().now() == Phase::kDiskless),
           "a flush has succeeded on this node's disk, or at a peer that knows itself as the only copy");
  running_ = false;
  for (const Waiter& each : std::exchange(running_for_, {}))
    if (each.done) each.done(error);
  if (!running_ && !waiting_.empty()) begin();
}

}  // namespace twinblock
