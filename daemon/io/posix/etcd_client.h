// Asks etcd, endpoint after endpoint, beginning with the one that answered last. For a thread that may
// wait; stop() is for any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "io/posix/etcd_access.h"
#include "io/posix/etcd_messages.h"
#include "io/posix/etcd_words.h"
#include "io/posix/http_client.h"
#include "io/witness.h"

namespace twinblock {

class EtcdClient {
 public:
  explicit EtcdClient(EtcdAccess access);

  // As of Witness, by `deadline_ns` (monotonic).
  Result<WitnessReading> read(const std::string& volume, const std::string& volume_uuid,
                              uint64_t deadline_ns);
  Result<bool> replace(const std::string& volume, int64_t revision, const WitnessEntry& entry,
                       uint64_t deadline_ns);

  // Of the entry that was read or written last (Witness::mark()).
  [[nodiscard]] uint64_t mark() const { return mark_; }

  // What is under way ends at once, with an error.
  void stop() { http_.stop(); }

 private:
  struct Question {
    std::string path;
    std::string body;
    // Takes what was answered; an error, as words, where that makes no sense.
    std::function<Status(const std::string& body)> accept;
    bool once = false;  // not to be put again where it may have been heard
  };
  struct Failure {
    Error words;
    bool final = false;  // it is of no use to ask another endpoint, or must not be done
  };

  Status ask(const Question& question, uint64_t deadline_ns);
  std::optional<Failure> ask_at(const std::string& endpoint, const Question& question,
                                uint64_t deadline_ns);
  [[nodiscard]] Error words_of(const HttpOutcome& failed) const;
  std::optional<Failure> authenticate(const std::string& endpoint, uint64_t deadline_ns);

  const EtcdAccess access_;
  HttpClient http_;
  size_t first_ = 0;                  // endpoint that answered last
  uint64_t mark_ = 0;
  std::optional<std::string> token_;  // none yet; empty: etcd wants none
};

}  // namespace twinblock
