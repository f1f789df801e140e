// The story of a disk that goes bad without a word, and of the operator who looks.
#include <algorithm>

#include "report.h"
#include "world.h"

namespace twinblock::sim {

// One pass over the volume, on the primary; the session may not break meanwhile.
StatusView::Verify World::verify_pass(VerifyOrder order) {
  Engine& engine = node(primary_).engine();
  wait(
      kHealingMax_ns, [&] { return !engine.status().verify.active; }, "the last verification");
  engine.orders().verify(order, [this](const Result<std::string>& result) {
    if (!result) Report::violation("verify: " + result.error().what + describe());
  });
  wait(
      kHealingMax_ns, [&] { return !engine.status().verify.active; }, "the end of a verification");
  return engine.status().verify;
}

StatusView::Verify World::verify_all(VerifyOrder order) {
  const StatusView::Verify found = verify_pass(order);
  if (found.ended != "complete" || found.compared_bytes != options_.volume_bytes)
    Report::violation("a verification without faults ended early: " + found.ended + describe());
  return found;
}

// All that can be read is compared.
void World::verify_around_a_bad_place(const std::vector<uint64_t>& differing) {
  VirtualDisk& disk = node(primary_).data();
  const uint64_t block = check_random_.below(options_.volume_bytes / limits::kBlockBytes);
  const auto bytes = disk.contents().subspan(block * limits::kBlockBytes, limits::kBlockBytes);
  // A hole is not read.
  const bool zero = std::ranges::all_of(bytes, [](std::byte each) { return each == std::byte{0}; });
  if (zero || std::find(differing.begin(), differing.end(), block) != differing.end()) return;
  disk.spoil(block * limits::kBlockBytes, kSectorBytes);
  const StatusView::Verify found = verify_pass(VerifyOrder::kCompare);
  disk.unspoil();
  if (found.ended.find("1 place could not be compared") == std::string::npos ||
      found.compared_bytes != options_.volume_bytes - limits::kBlockBytes ||
      found.differing_bytes != differing.size() * limits::kBlockBytes)
    Report::violation("beside a place that can't be read, a verification compared " +
                      std::to_string(found.compared_bytes) + " bytes, of which " +
                      std::to_string(found.differing_bytes) + " differ: " + found.ended + describe());
}

void World::verification() {
  quiesce();
  workload().flush_all();
  wait(
      kAnswerMax_ns, [this] { return workload().idle(); }, "a flush");
  corrupted_ = true;
  std::vector<uint64_t> bad;
  VirtualDisk& disk = node(1 - primary_).data();
  const uint64_t blocks = options_.volume_bytes / limits::kBlockBytes;
  for (uint64_t i = random_.between(1, 5); i > 0; --i) {
    const uint64_t block = random_.below(blocks);
    if (std::find(bad.begin(), bad.end(), block) != bad.end()) continue;
    bad.push_back(block);
    disk.corrupt(block * limits::kBlockBytes + random_.below(limits::kBlockBytes), 1);
  }
  const uint64_t bad_bytes = bad.size() * limits::kBlockBytes;
  verify_around_a_bad_place(bad);
  const StatusView::Verify found = verify_all(VerifyOrder::kCompare);
  if (found.differing_bytes != bad_bytes || found.repaired_bytes != 0)
    Report::violation(std::to_string(bad_bytes) + " bytes of a disk went bad; the verification " +
                      "found " + std::to_string(found.differing_bytes) + ", repaired " +
                      std::to_string(found.repaired_bytes) + describe());
  for (const auto& [offset, length] : found.differences)
    if (std::find(bad.begin(), bad.end(), offset / limits::kBlockBytes) == bad.end())
      Report::violation("a verification found a difference where there is none, at offset " +
                        std::to_string(offset) + describe());
  const bool busy = random_.chance(0.5);
  if (busy) workload().go_on();
  const StatusView::Verify repaired = verify_all(VerifyOrder::kRepair);
  // Clients may have written over some.
  if (repaired.repaired_bytes > bad_bytes || (!busy && repaired.repaired_bytes != bad_bytes))
    Report::violation("a verification repaired " + std::to_string(repaired.repaired_bytes) +
                      " of " + std::to_string(bad_bytes) + " bytes" + describe());
  quiesce();
  check_identical("after a repair");
  workload().flush_all();
  wait(
      kAnswerMax_ns, [this] { return workload().idle(); }, "a flush");
  repair_is_cut_off();
  repair_loses_its_source();
  corrupted_ = false;
  verify_may_find_ = true;  // this process's last report
  workload().go_on();
}

// The peer loses power while it writes what a repair sends: what was found to differ is brought there when it is back.
void World::repair_is_cut_off() {
  quiesce();
  const int target = 1 - primary_;
  VirtualDisk& disk = node(target).data();
  disk.corrupt(check_random_.below(options_.volume_bytes), 1);
  disk.faults.extra_delay_ns = kSecond_ns;
  Engine& engine = node(primary_).engine();
  engine.orders().verify(VerifyOrder::kRepair, [this](const Result<std::string>& result) {
    if (!result) Report::violation("verify: " + result.error().what + describe());
  });
  scheduler_.run_until(scheduler_.now_ns() + kHealingMax_ns, [&] { return disk.writing(); });
  if (!disk.writing())
    Report::violation("a repair writes nothing: " + engine.status().verify.ended + describe());
  node(target).power_off();
  process_gone(target);
  disk.faults = DiskFaults{};
  scheduler_.run_until(scheduler_.now_ns() + options_.peer_timeout_ns);
  restart(target);
  wait(
      kHealingMax_ns, [this] { return both_duplex(); }, "duplex after a repair that was cut off");
  check_identical("after a repair that was cut off");
}

// The primary loses power at any moment of a repair. The operator has said that its blocks are the good ones: nothing
// brings the peer's bad one there.
void World::repair_loses_its_source() {
  quiesce();
  workload().flush_all();
  wait(
      kAnswerMax_ns, [this] { return workload().idle(); }, "a flush");
  const int source = primary_;
  // Where clients wrote just before, the survivor's blocks count, whichever they are.
  wait(
      kHealingMax_ns, [&] { return node(source).engine().status().intent_bytes == 0; }, "intents that are old enough");
  scheduler_.run_until(scheduler_.now_ns() + kSecond_ns);  // the disk hears of that last
  const uint64_t block = check_random_.below(options_.volume_bytes / limits::kBlockBytes);
  const auto block_of = [&](int host) {
    return node(host).data().contents().subspan(block * limits::kBlockBytes, limits::kBlockBytes);
  };
  const std::vector<std::byte> good(block_of(source).begin(), block_of(source).end());
  DiskFaults& faults = node(1 - source).data().faults;
  node(1 - source).data().corrupt(block * limits::kBlockBytes + check_random_.below(limits::kBlockBytes), 1);
  faults.extra_delay_ns = 100 * kMillisecond_ns;
  clients_rest_ = true;
  node(source).engine().orders().verify(VerifyOrder::kRepair, [this](const Result<std::string>& result) {
    if (!result) Report::violation("verify: " + result.error().what + describe());
  });
  scheduler_.run_until(scheduler_.now_ns() + check_random_.below(300 * kMillisecond_ns));
  const bool writes = node(1 - source).data().writing();
  node(source).power_off();
  process_gone(source);
  faults = DiskFaults{};
  scheduler_.run_until(scheduler_.now_ns() + options_.peer_timeout_ns);
  restart(source);
  wait(
      kHealingMax_ns, [this] { return primary_ >= 0 && procedure_ == Procedure::kNone && both_duplex(); },
      "duplex after a repair whose source was cut off");
  if (!std::ranges::equal(good, block_of(source)))
    Report::violation("a repair that was cut off brought the bad block to where the good one was" + describe());
  if (writes && !node(source).engine().status().repair_cut_off)
    Report::violation("nobody has on record that a repair was cut off" + describe());
  operator_rests_ = true;
  if (primary_ != source) {
    demote_primary();
    promote(source);
    wait(
        kHealingMax_ns, [&] { return primary_ == source && both_duplex(); }, "the source of a repair as primary");
  }
  (void)verify_all(VerifyOrder::kRepair);
  check_identical("after a repair that was ordered again");
  for (const auto& each : nodes_)
    if (each->data().unflushed())
      Report::violation("a repair is complete, and a loss of power of " + each->name() + " would take it back" + describe());
  if (node(source).engine().status().repair_cut_off)
    Report::violation("a repair that is complete counts as cut off" + describe());
  operator_rests_ = clients_rest_ = false;
}

}  // namespace twinblock::sim
