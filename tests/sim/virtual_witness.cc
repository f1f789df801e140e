#include "virtual_witness.h"

#include <utility>

#include "report.h"

namespace twinblock::sim {

class VirtualRegister::Port final : public Witness {
 public:
  Port(VirtualRegister& at, int host, ProcessPtr process)
      : at_(at), host_(host), process_(std::move(process)) {}

  void read(const std::string&, const std::string& volume_uuid,
            std::function<void(Result<WitnessReading>)> done) override {
    auto said = std::make_shared<WitnessReading>();
    at_.ask(
        host_, process_,
        [this_register = &at_, said] {
          said->entry = this_register->entry_;
          said->revision = this_register->revision_;
        },
        [said, volume_uuid, done] {
          if (said->entry && said->entry->volume_uuid != volume_uuid)
            done(Error{"the entry is of another volume", "", 0});
          else
            done(*said);
        },
        [done] { done(Error{"the witness does not answer", "start it", 0}); });
  }

  void replace(const std::string&, int64_t revision, const WitnessEntry& entry,
               std::function<void(Result<bool>)> done) override {
    auto replaced = std::make_shared<bool>(false);
    at_.ask(
        host_, process_,
        [this_register = &at_, revision, entry, replaced] {
          if (this_register->revision_ != revision) return;
          this_register->entry_ = entry;
          this_register->revision_ = ++this_register->last_revision_;
          *replaced = true;
          if (Report::verbose())
            Report::trace("witness", "names " + metadata_name(entry) + " now");
        },
        [replaced, done] { done(*replaced); },
        [done] { done(Error{"the witness does not answer", "start it", 0}); });
  }

  [[nodiscard]] std::string name() const override { return "the register"; }

 private:
  static std::string metadata_name(const WitnessEntry& entry) {
    return std::to_string(entry.generation) + " of " + (entry.holder.empty() ? "both" : entry.holder);
  }

  VirtualRegister& at_;
  const int host_;
  const ProcessPtr process_;
};

std::unique_ptr<Witness> VirtualRegister::port(int host, ProcessPtr process) {
  return std::make_unique<Port>(*this, host, std::move(process));
}

void VirtualRegister::forget() {
  entry_.reset();
  revision_ = 0;
  ++life_;
  if (Report::verbose()) Report::trace("witness", "-- has forgotten everything");
}

// The node has its answer, or none, at a moment that nothing that comes later changes; the request is
// carried out whenever it arrives.
void VirtualRegister::ask(int host, const ProcessPtr& process, std::function<void()> carry_out,
                          std::function<void()> answer, std::function<void()> no_answer) {
  const bool is_late = random_.chance(late);
  const uint64_t there_ns =
      is_late ? random_.spread(kTimeout_ns, 12 * kSecond_ns) : random_.spread(100 * kMicrosecond_ns, 60 * kMillisecond_ns);
  const uint64_t back_ns = random_.spread(100 * kMicrosecond_ns, 60 * kMillisecond_ns);
  const bool is_lost = random_.chance(lost);
  auto answered = std::make_shared<bool>(false);
  const auto at = static_cast<size_t>(host);
  // A request that left before a way was cut may arrive when it is mended.
  const bool leaves = reached[at] || is_late;
  scheduler_.after(there_ns, nullptr, [this, at, leaves, life = life_, is_lost, back_ns, process, answered, carry_out = std::move(carry_out), answer = std::move(answer)] {
    if (!leaves || !up || life != life_) return;
    carry_out();
    scheduler_.after(back_ns, process, [this, at, is_lost, answered, answer] {
      if (is_lost || !reached[at] || std::exchange(*answered, true)) return;
      answer();
    });
  });
  scheduler_.after(kTimeout_ns, process, [answered, no_answer = std::move(no_answer)] {
    if (!std::exchange(*answered, true)) no_answer();
  });
}

class VirtualFence::Port final : public FenceCommand {
 public:
  Port(VirtualFence& at, int host, ProcessPtr process)
      : at_(at), host_(host), process_(std::move(process)) {}

  void fence(const FenceCall&, std::function<void(Result<int>)> done) override {
    at_.asked_(host_);
    const auto answer = [this](uint64_t after_ns, std::function<void()> act) {
      at_.scheduler_.after(after_ns, process_, std::move(act));
    };
    if (at_.random_.chance(at_.useless)) {
      if (at_.random_.chance(0.4))
        answer(kDeadline_ns, [done] { done(Error{"it was ended at its deadline", "", 0}); });
      else
        answer(at_.random_.spread(kMillisecond_ns, 2 * kSecond_ns),
               [done, status = static_cast<int>(at_.random_.below(3))] { done(status); });
      return;
    }
    at_.scheduler_.after(at_.random_.spread(kMillisecond_ns, kSecond_ns), nullptr, [this_fence = &at_, host = host_, process = process_, done] {
      if (!process->alive) return;
      const bool agrees = this_fence->alone_ < 0 || this_fence->alone_ == host;
      if (agrees) {
        this_fence->alone_ = host;
        this_fence->end_process_(1 - host);
      }
      static constexpr std::array<int, 4> kConsents{3, 4, 5, 7};
      const int status = agrees ? kConsents.at(this_fence->random_.below(4)) : 6;
      this_fence->scheduler_.after(this_fence->random_.spread(kMillisecond_ns, 300 * kMillisecond_ns), process,
                                   [done, status] { done(status); });
    });
  }

  [[nodiscard]] std::string name() const override { return "/fence"; }

 private:
  static constexpr uint64_t kDeadline_ns = 5 * kSecond_ns;

  VirtualFence& at_;
  const int host_;
  const ProcessPtr process_;
};

std::unique_ptr<FenceCommand> VirtualFence::port(int host, ProcessPtr process) {
  return std::make_unique<Port>(*this, host, std::move(process));
}

}  // namespace twinblock::sim
