#include "io/posix/etcd_witness.h"

#include <system_error>
#include <utility>

#include "io/posix/monotonic.h"
#include "io/posix/thread.h"

namespace twinblock {
namespace {

std::string name_of(const EtcdAccess& access) {
  std::string all;
  for (const std::string& endpoint : access.endpoints) all += (all.empty() ? "" : ", ") + endpoint;
  return etcd::named(all);
}

}  // namespace

EtcdWitness::EtcdWitness(Loop& loop, EtcdAccess access)
    : loop_(loop), timeout_ns_(access.timeout_ns), name_(name_of(access)), client_(std::move(access)) {}

EtcdWitness::~EtcdWitness() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  client_.stop();
  filled_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void EtcdWitness::read(const std::string& volume, const std::string& volume_uuid,
                       std::function<void(Result<WitnessReading>)> done) {
  const uint64_t deadline_ns = monotonic_ns() + timeout_ns_;
  put([this, volume, volume_uuid, deadline_ns, done]() -> Answer {
        return answer_of(done, client_.read(volume, volume_uuid, deadline_ns));
      },
      done);
}

void EtcdWitness::replace(const std::string& volume, int64_t revision, const WitnessEntry& entry,
                          std::function<void(Result<bool>)> done) {
  const uint64_t deadline_ns = monotonic_ns() + timeout_ns_;
  put([this, volume, revision, entry, deadline_ns, done]() -> Answer {
        return answer_of(done, client_.replace(volume, revision, entry, deadline_ns));
      },
      done);
}

// Called on the thread.
template <typename Said>
EtcdWitness::Answer EtcdWitness::answer_of(const std::function<void(Said)>& done, Said said) {
  return [this, done, said = std::move(said), mark = client_.mark()] {
    mark_ = mark;
    done(said);
  };
}

void EtcdWitness::put(Question question, const std::function<void(Error)>& failed) {
  try {
    if (!thread_.joinable()) thread_ = start_thread("tb-witness", [this] { work(); });
  } catch (const std::system_error& error) {
    answer([failed, code = error.code().value()] {
      failed(system_error(code, "no thread can be started to ask etcd", "see the limits of tasks of this host"));
    });
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    questions_.push_back(std::move(question));
  }
  filled_.notify_one();
}

void EtcdWitness::answer(Answer answer) {
  loop_.post([alive = std::weak_ptr(alive_), answer = std::move(answer)] {
    if (!alive.expired()) answer();
  });
}

void EtcdWitness::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    filled_.wait(lock, [this] { return stopping_ || !questions_.empty(); });
    if (stopping_) return;
    const Question question = std::move(questions_.front());
    questions_.pop_front();
    lock.unlock();
    answer(question());
    lock.lock();
  }
}

}  // namespace twinblock
