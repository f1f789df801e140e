// A witness that is a register in etcd (WITNESS.md), asked by a thread of its own, which begins with the
// first question: no name service and no network holds the loop up. Created after nbdkit has forked;
// used and destroyed on the loop, or before and after it runs.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "io/posix/etcd_client.h"
#include "io/posix/loop.h"
#include "io/witness.h"

namespace twinblock {

class EtcdWitness final : public Witness {
 public:
  // Each question is answered within its time limit, whether etcd does or not.
  EtcdWitness(Loop& loop, EtcdAccess access);
  // At once, whatever is under way.
  ~EtcdWitness() override;
  EtcdWitness(const EtcdWitness&) = delete;
  EtcdWitness& operator=(const EtcdWitness&) = delete;

  void read(const std::string& volume, const std::string& volume_uuid,
            std::function<void(Result<WitnessReading>)> done) override;
  void replace(const std::string& volume, int64_t revision, const WitnessEntry& entry,
               std::function<void(Result<bool>)> done) override;
  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] uint64_t mark() const override { return mark_; }

 private:
  using Answer = std::function<void()>;        // on the loop
  using Question = std::function<Answer()>;  // on the thread

  void put(Question question, const std::function<void(Error)>& failed);
  template <typename Said>
  Answer answer_of(const std::function<void(Said)>& done, Said said);
  void answer(Answer answer);
  void work();

  Loop& loop_;
  const uint64_t timeout_ns_;
  const std::string name_;
  EtcdClient client_;  // the thread's
  uint64_t mark_ = 0;  // the loop's
  // Goes with this: an answer that comes later finds nobody.
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
  // Held for queueing and unqueueing only.
  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<Question> questions_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace twinblock
