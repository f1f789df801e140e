// What the tests of the witness in etcd share: one on a loop of its own, whose answers are waited for.
#pragma once

#include <future>
#include <memory>
#include <string>
#include <utility>

#include "etcd_server.h"
#include "io/posix/etcd_witness.h"
#include "io_posix_support.h"

namespace twinblock {

inline const std::string kUuid = "6f9619ff-8b86-d011-b42d-00cf4fc964ff";
inline const std::string kOtherUuid = "11111111-8b86-d011-b42d-00cf4fc964ff";
inline constexpr uint64_t kLong_ns = 600 * kSecond_ns;  // longer than any test may take

class AskedEtcd {
 public:
  explicit AskedEtcd(EtcdAccess access, uint64_t timeout_ns = kLong_ns) {
    loop_.start();
    access.timeout_ns = timeout_ns;
    loop_.call([&] { witness_ = std::make_unique<EtcdWitness>(*loop_, std::move(access)); });
  }
  ~AskedEtcd() { end(); }
  AskedEtcd(const AskedEtcd&) = delete;
  AskedEtcd& operator=(const AskedEtcd&) = delete;

  void end() {
    loop_.call([&] { witness_.reset(); });
  }
  Result<WitnessReading> read(const std::string& volume, const std::string& uuid = kUuid) {
    std::promise<Result<WitnessReading>> said;
    loop_->post([&] {
      witness_->read(volume, uuid, [&](Result<WitnessReading> reading) { said.set_value(std::move(reading)); });
    });
    return said.get_future().get();
  }
  Result<bool> replace(const std::string& volume, int64_t revision, const WitnessEntry& entry) {
    std::promise<Result<bool>> said;
    loop_->post([&] {
      witness_->replace(volume, revision, entry, [&](Result<bool> replaced) { said.set_value(std::move(replaced)); });
    });
    return said.get_future().get();
  }
  uint64_t mark() {
    uint64_t mark = 0;
    loop_.call([&] { mark = witness_->mark(); });
    return mark;
  }
  RunningLoop& loop() { return loop_; }
  EtcdWitness& witness() { return *witness_; }

 private:
  RunningLoop loop_;
  std::unique_ptr<EtcdWitness> witness_;
};

inline EtcdAccess access_to(const std::string& url) {
  EtcdAccess access;
  access.endpoints = {url};
  return access;
}

template <typename T>
::testing::AssertionResult fails_with(const Result<T>& result, const std::vector<std::string>& parts) {
  if (result.ok()) return ::testing::AssertionFailure() << "no error";
  const std::string said = result.error().what + "; " + result.error().action;
  for (const std::string& part : parts)
    if (said.find(part) == std::string::npos)
      return ::testing::AssertionFailure() << "'" << said << "' does not have '" << part << "'";
  if (said.find('\n') != std::string::npos) return ::testing::AssertionFailure() << "not one line: " << said;
  return ::testing::AssertionSuccess();
}

}  // namespace twinblock
