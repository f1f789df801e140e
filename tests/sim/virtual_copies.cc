#include "virtual_copies.h"

#include <cerrno>
#include <utility>

#include "base/units.h"

namespace twinblock::sim {

class CopyShelf::Port final : public Copies {
 public:
  Port(CopyShelf& shelf, ProcessPtr process, VirtualDisk& disk)
      : shelf_(shelf), process_(std::move(process)), disk_(disk) {}

  [[nodiscard]] bool can(CopyStep step) const override {
    return shelf_.can_keep_a_way_back || step >= CopyStep::kTakeSnapshot;
  }
  [[nodiscard]] std::string place(CopyStep, const std::string& name) const override {
    return name.empty() ? "/copy" : "/snapshot." + name;
  }

  void begin(CopyStep step, const std::string& name, std::function<void(Status)> done) override {
    Random& random = shelf_.random_;
    if (busy_) {
      shelf_.scheduler_.after(0, process_, [done] { done(Error{"a copy is under way", "", EBUSY}); });
      return;
    }
    busy_ = true;
    const bool failing = random.chance(shelf_.fails);
    const bool hangs = failing && step != CopyStep::kRollback && random.chance(0.4);
    if (failing && step == CopyStep::kDropSnapshot) shelf_.not_dropped_.insert(name);
    // One that answers nobody, against its promise.
    const bool silent = hangs && (step == CopyStep::kBeforeResync || step == CopyStep::kAfterResync) && random.chance(0.2);
    const uint64_t takes_ns = silent  ? 8 * kTimeout_ns
                              : hangs ? kTimeout_ns
                                      : random.spread(kMillisecond_ns, kSecond_ns);
    // Of what it holds: at some moment until it has ended.
    if (step == CopyStep::kTakeSnapshot && !failing && !shelf_.snapshots_.contains(name))
      shelf_.scheduler_.after(random.between(0, takes_ns), process_, [this, name] { shelf_.parts_[name] = held(); });
    // A part of what is brought back lands before the rest, or alone.
    if (step == CopyStep::kRollback && shelf_.before_resync_)
      shelf_.scheduler_.after(random.between(0, takes_ns), process_, [this, end = random.between(0, disk_.size_bytes())] {
        disk_.restore(*shelf_.before_resync_, end);
      });
    shelf_.scheduler_.after(takes_ns, process_, [this, step, name, done = std::move(done), failing, hangs, silent] {
      busy_ = false;
      if (silent) return;
      if (hangs)
        done(Error{"it did not end in time", "", ETIMEDOUT});
      else if (failing)
        done(Error{"it failed", "", EIO});
      else
        done(carry_out(step, name));
    });
  }

 private:
  [[nodiscard]] Bytes held() const { return {disk_.contents().begin(), disk_.contents().end()}; }
  Status carry_out(CopyStep step, const std::string& name) {
    switch (step) {
      case CopyStep::kBeforeResync:
        shelf_.before_resync_ = held();
        break;
      case CopyStep::kAfterResync:
        shelf_.before_resync_.reset();
        break;
      case CopyStep::kRollback:
        if (!shelf_.before_resync_) return Error{"there is no copy", "", ENOENT};
        disk_.restore(*shelf_.before_resync_, disk_.size_bytes());
        break;
      case CopyStep::kTakeSnapshot:
        if (shelf_.snapshots_.contains(name)) return Error{"there is a snapshot of that name", "", EEXIST};
        kept_.clear();
        break;
      case CopyStep::kKeepSnapshot:
        if (!shelf_.parts_.contains(name)) return Error{"there is no such part", "", ENOENT};
        shelf_.snapshots_[name] = std::move(shelf_.parts_[name]);
        shelf_.parts_.erase(name);
        kept_ = name;
        break;
      case CopyStep::kDropSnapshot:
        shelf_.parts_.erase(name);
        if (std::exchange(kept_, {}) == name) shelf_.snapshots_.erase(name);
        break;
    }
    return ok_status();
  }

  CopyShelf& shelf_;
  const ProcessPtr process_;
  VirtualDisk& disk_;
  bool busy_ = false;
  std::string kept_;  // the last one that got its name from this process
};

std::unique_ptr<Copies> CopyShelf::port(ProcessPtr process, VirtualDisk& disk) {
  return std::make_unique<Port>(*this, std::move(process), disk);
}

}  // namespace twinblock::sim
