// The story of a source whose disk can't be read in some places, and will not be until they are written
// anew, or for long. All else is brought to the other node, and stays there: the session goes on, what
// clients write goes to both, and the target counts as half-copied until it has these places, too.
#include <algorithm>
#include <cstring>
#include <vector>

#include "report.h"
#include "world.h"

namespace twinblock::sim {
namespace {

bool differs(const VirtualDisk& a, const VirtualDisk& b, uint64_t at) {
  const uint64_t length = std::min<uint64_t>(limits::kBlockBytes, a.size_bytes() - at);
  return std::memcmp(a.contents().data() + at, b.contents().data() + at, length) != 0;
}

}  // namespace

// Whether a read met a block that can't be read here, and that the peer does not have for sure. What this node's disk
// did not give a worker, and a write has mended since, the engine reads once more.
bool World::place_is_bad(SimNode& at, const Workload::Request& request) {
  const ClientRequest& client = request.client;
  if (client.op != ClientOp::kRead) return false;
  const auto met = [&](int host, const ByteRange& part) {
    const VirtualDisk& disk = node(host).data();
    const bool by_itself = disk.unspoiled_ns() >= request.began_ns;
    return disk.was_spoiled(part.begin_bytes, part.length(), by_itself ? request.began_ns : request.asked_ns);
  };
  const VolumeState state = at.engine().volume_state();
  const bool stands_in = state == VolumeState::kDiskless;
  const bool whole = stands_in || state == VolumeState::kDuplex || state == VolumeState::kDegraded;
  const bool copying = at.engine().inside().phase() == Phase::kCopying;
  const BlockMap missed = at.engine().inside().without_peer().dirty;
  const uint64_t end = client.offset_bytes + client.length_bytes;
  for (uint64_t from = client.offset_bytes, to = 0; from < end; from = to) {
    to = std::min(end, (from / limits::kBlockBytes + 1) * limits::kBlockBytes);
    const ByteRange block{from, to};
    if (!stands_in && !met(at.host(), block)) continue;
    const bool lacking = !whole && (!copying || missed.any(from, to - from));
    if (lacking || met(1 - at.host(), block)) return true;
  }
  return false;
}

// Of blocks that one request is for, the target has some, and the source's disk gives others.
void World::read_beside_paused_resync() {
  wait(
      kHealingMax_ns,
      [this] { return both_duplex() || node(primary_).engine().inside().phase() == Phase::kCopying; },
      "a resync that does not begin to copy");
  workload().read_all();
  wait(
      kAnswerMax_ns, [this] { return workload().idle(); }, "a read of the whole volume");
}

// False: nothing was missed.
bool World::begin_spoiled_resync() {
  const int target = 1 - primary_;
  begin_paused_resync(target);
  workload().stop();
  wait(
      kAnswerMax_ns, [this] { return workload().idle(); }, "answers to all requests");
  VirtualDisk &from = node(primary_).data(), &to = node(target).data();
  std::vector<uint64_t> missed;
  for (uint64_t at = 0; at < from.size_bytes(); at += limits::kBlockBytes)
    if (differs(from, to, at)) missed.push_back(at);
  const bool many = check_random_.chance(0.25);
  for (const uint64_t at : missed) {
    if (!many && !check_random_.chance(3.0 / static_cast<double>(missed.size()))) continue;
    const uint64_t length = check_random_.chance(0.5) ? kSectorBytes : limits::kBlockBytes;
    from.spoil(at, std::min(length, from.size_bytes() - at));
  }
  // What the peer has, and what it compares with. (Long reads find both kinds of blocks next to each other.)
  for (VirtualDisk* disk : {&from, &to})
    disk->spoil(check_random_.below(disk->size_bytes() / kSectorBytes) * kSectorBytes, kSectorBytes);
  if (Random(check_random_).chance(0.5)) read_beside_paused_resync();
  node(primary_).engine().orders().set_resync_pace(ResyncPace::kResume, 0, [](const Result<std::string>&) {});
  return !missed.empty() && !both_duplex();
}

// All is copied but what can't be read, and it stays so, without a loss of the session.
void World::check_waits_for_disk() {
  SimNode &source = node(primary_), &target = node(1 - primary_);
  const StatusView before = source.engine().status();
  for (uint64_t at = 0; at < source.data().size_bytes(); at += limits::kBlockBytes)
    if (differs(source.data(), target.data(), at) && !source.data().is_spoiled(at, limits::kBlockBytes))
      Report::violation("a resync waits for its source's disk, and offset " + std::to_string(at) +
                        ", which can be read, is not copied" + describe());
  workload().read_all();
  wait(
      kAnswerMax_ns, [this] { return workload().idle(); }, "a read of the whole volume");
  const uint64_t read_errors = source.engine().status().read_errors;
  scheduler_.run_until(scheduler_.now_ns() + limits::kUnreadableRetry_ns + 20 * kSecond_ns);
  const StatusView after = source.engine().status();
  if (!after.resync.waits_for_disk || after.peer_losses != before.peer_losses)
    Report::violation("a resync does not wait for its source's disk" + describe());
  const uint64_t tries = after.read_errors - read_errors;
  const uint64_t places = after.resync.unreadable_bytes / limits::kBlockBytes;
  if (tries == 0 || tries > 2 * places)
    Report::violation(std::to_string(places) + " places were tried " + std::to_string(tries) + " times in a minute" +
                      describe());
  const StatusView half = target.engine().status();
  if (half.promotable || half.data != DataState::kInconsistent)
    Report::violation("a target that lacks something passes for current" + describe());
}

void World::mend_source(uint64_t how) {
  const int source = primary_;
  VirtualDisk& disk = node(source).data();
  switch (how) {
    case 0:  // by a client, who need not wait for the next try
      for (uint64_t at = 0; at < disk.size_bytes(); at += limits::kBlockBytes)
        if (disk.is_spoiled(at, limits::kBlockBytes))
          workload().write_over(at, std::min(limits::kBlockBytes, disk.size_bytes() - at));
      wait(
          limits::kUnreadableRetry_ns / 2,
          [&] { return both_duplex() || counts_bad_places(source) || counts_bad_places(1 - source); },
          "duplex after the bad places were written");
      break;
    case 1:  // by a client who has other things to do
      workload().go_on();
      scheduler_.run_until(scheduler_.now_ns() + kSecond_ns);
      break;
    case 2:
      begin_procedure(Procedure::kDemote);
      wait(
          kHealingMax_ns, [this] { return procedure_ == Procedure::kNone; }, "a demotion in a resync");
      scheduler_.run_until(scheduler_.now_ns() + check_random_.below(kSecond_ns));
      break;
    case 3:
      workload().go_on();
      kill(source);
      scheduler_.run_until(scheduler_.now_ns() + check_random_.below(10 * kSecond_ns));
      break;
    case 4:
      workload().go_on();
      power_off(1 - source);
      scheduler_.run_until(scheduler_.now_ns() + check_random_.below(10 * kSecond_ns));
      break;
    default:
      break;
  }
  for (const auto& each : nodes_) each->data().unspoil();
}

// Where a client's long read failed, the node does not know which place it was, and which write mends it.
bool World::counts_bad_places(int host) {
  if (!node(host).running() || node(host).paused()) return false;
  const VolumeState state = node(host).engine().volume_state();
  return state == VolumeState::kDegraded || state == VolumeState::kDiskless;
}

void World::unreadable_source() {
  Engine& engine = node(primary_).engine();
  if (begin_spoiled_resync() && node(primary_).data().any_spoiled()) {
    wait(
        kHealingMax_ns,
        [&] { return both_duplex() || engine.status().resync.waits_for_disk || counts_bad_places(primary_); },
        "a resync from a disk that can't be read everywhere");
    if (engine.status().resync.waits_for_disk) {
      check_waits_for_disk();
      mend_source(check_random_.below(6));
    }
  }
  for (const auto& each : nodes_) each->data().unspoil();
  if (workload().is_open()) workload().go_on();
  wait(
      limits::kUnreadableRetry_ns + kHealingMax_ns,
      [this] { return settled() || counts_bad_places(0) || counts_bad_places(1); },
      "the end of a resync whose source's disk can be read again");
  // As `status` says; once more where it says so of the other one only now.
  const auto follow_status = [this] {
    for (const int host : {0, 1})
      if (counts_bad_places(host)) kill(host);
  };
  follow_status();
  scheduler_.run_until(scheduler_.now_ns() + kHealingMax_ns / 2, [this] { return settled(); });
  follow_status();
  wait(
      kHealingMax_ns, [this] { return settled(); }, "duplex after a disk could be read again");
  quiesce();
  check_identical("after a resync from a disk that could not be read everywhere");
  workload().go_on();
}

}  // namespace twinblock::sim
