// How etcd is reached, as the file says it: [witness]. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace twinblock {

struct EtcdAccess {
  std::vector<std::string> endpoints;  // "http://HOST:PORT" or "https://HOST:PORT"; at least one
  std::string user;                    // empty: without authentication
  std::string password_file;           // absolute paths; empty: none
  std::string ca_file;
  std::string certificate_file;
  std::string certificate_key_file;
  uint64_t timeout_ns = 0;  // of one question, with all endpoints
};

}  // namespace twinblock
