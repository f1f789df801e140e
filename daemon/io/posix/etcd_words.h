// What users are told of an etcd that did not do as it was asked: what it is, and what to do. Pure; any
// thread.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "io/posix/etcd_access.h"
#include "io/posix/etcd_messages.h"
#include "io/posix/http_client.h"

namespace twinblock::etcd {

// "etcd at http://10.0.0.3:2379".
std::string named(const std::string& endpoint);

// The words in the errors of this file that follow a name: "refused the connection".
Error words_of(const EtcdAccess& access, const HttpOutcome& failed);
Error words_of(const EtcdAccess& access, const Fault& fault);
// … and what to do about what stands at `key`.
Error words_of_entry(const EtcdAccess& access, const std::string& key, const Error& what);

// One endpoint that failed: its words become a sentence.
struct FailedEndpoint {
  std::string endpoint;
  Error words;
};
// At least one. Of several: each one's words, and the first one's advice.
Error sentence_of(const std::vector<FailedEndpoint>& failed);

}  // namespace twinblock::etcd
