// The story of a primary whose disk fails at a moment when it writes nothing any more: while its demotion,
// which has flushed on both nodes, is recorded. Only what an earlier session had asked of that disk can fail
// then. That session was to bring the peer up to date, as a flush had failed there, and this node's own flush
// before it has hung since. The next session finds nothing to send, as the peer's cache is gone by now.
#include "report.h"
#include "world.h"

namespace twinblock::sim {

// The flush of a secondary fails, and covered nothing that it had not covered before.
void World::fail_a_flush_of_nothing(int host) {
  workload().stop();
  wait(
      kAnswerMax_ns, [this] { return workload().idle(); }, "answers to all requests");
  workload().flush_all();
  wait(
      kHealingMax_ns, [this] { return workload().idle() && both_duplex(); }, "a flush of all");
  fail_flush(host);
  intact_[static_cast<size_t>(host)] = false;
  end_process(host);
}

// A session is to bring the other node up to date, and this node's own flush before it hangs. The session ends
// before what the other one tells of its set has come. False: it had come with the handshake, and there is
// something to send from now on.
bool World::leave_a_flush_behind(int host) {
  SimNode& stays = node(host);
  const int other = 1 - host;
  stays.data().hold_next_flush();
  restart(other);  // its disk fails still, so that the kernel can't be rid of its cache
  node(other).data().faults = DiskFaults{};
  wait_for_moment([&] { return stays.engine().status().peer.connected; }, "a session");
  if (stays.engine().status().dirty_bytes > 0) {
    stays.data().let_flushes_go();
    return false;
  }
  network_.set_silent({other == 0, other == 1});
  wait_for_moment([&] { return stays.data().holds_flush(); }, "a flush before a resync");
  wait_for_moment([&] { return !stays.engine().status().peer.connected; }, "the end of a session");
  end_process(other);
  network_.set_silent({false, false});
  restart(other);  // … and now it is rid of its cache
  return true;
}

void World::demoted_too_late() {
  const int host = primary_;
  const int other = 1 - host;
  SimNode& demotes = node(host);
  const Engine& engine = demotes.engine();
  fail_a_flush_of_nothing(other);
  if (!leave_a_flush_behind(host)) {
    workload().go_on();
    return;
  }
  wait_for_moment([this] { return both_duplex(); }, "a session with nothing to send");
  wait_for_moment([&] { return demotes.metadata().idle(); }, "a record");

  workload().close();
  const uint64_t began_ns = scheduler_.now_ns();
  demotes.metadata().faults.hung_until_ns = began_ns + 300 * kMillisecond_ns;
  node(other).metadata().faults.hung_until_ns = began_ns + kSecond_ns;
  bool ended = false;
  demotes.engine().orders().demote([&](const Result<std::string>& result) {
    if (!result) Report::violation("a demotion that had flushed fails" + describe());
    history().flush_acknowledged(began_ns);
    ended = true;
  });
  wait_for_moment([&] { return !demotes.metadata().idle(); }, "the record of a demotion");
  demotes.data().fail_held_flush();
  wait_for_moment([&] { return ended; }, "the end of a demotion");
  if (engine.status().data == DataState::kCurrent)
    Report::violation(demotes.name() + " counts on a disk that has failed" + describe());
  demoted(host);
  demotes.metadata().faults = node(other).metadata().faults = DiskFaults{};
  scheduler_.run_until(scheduler_.now_ns() + kSecond_ns);
  end_node(host);
  demotes.data().faults = DiskFaults{};
  restart(host);
}

}  // namespace twinblock::sim
