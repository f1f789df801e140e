// What is said to etcd, and what it answers: the JSON of its v3 gateway, in which keys and values are
// base64, and numbers of 64 bits texts; and the entry of a volume that is kept there (WITNESS.md). What
// comes from outside may be anything. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "io/witness.h"

namespace twinblock::etcd {

// "/twinblock/r0/6f9619ff-8b86-d011-b42d-00cf4fc964ff".
std::string key_of(const std::string& volume, const std::string& volume_uuid);

// The value at a key, and what it says. An error's text follows "etcd at …": "holds …".
struct Marked {
  WitnessEntry entry;
  uint64_t mark = 0;  // Witness::mark(); 0: none stands there
};
std::string entry_text(const Marked& marked);
Result<Marked> parse_entry(const std::string& text, const std::string& volume_uuid);

// Bodies of requests to /v3/kv/txn (the first two) and /v3/auth/authenticate. What is read is read as the
// part of a transaction that would write, if its condition, which never holds, did: an etcd that takes no
// writes any more, as it is full, or as the user may only read, says so when it is read, and not when it
// counts.
std::string read_request(const std::string& key);
std::string replace_request(const std::string& key, int64_t revision, const Marked& marked);
std::string authenticate_request(const std::string& user, const std::string& password);

// What stands at a key.
struct ReadAnswer {
  std::optional<std::string> value;
  int64_t revision = 0;  // of its last change; 0 without a value
};

// Of answers with status 200. An error's text follows "etcd at …": "answers …".
Result<ReadAnswer> parse_read_answer(const std::string& text, const std::string& key);
Result<bool> parse_replace_answer(const std::string& text);
Result<std::string> parse_token(const std::string& text);

enum class FaultKind {
  kOther,
  kToken,        // the token is not taken, or there was none
  kCredentials,  // no such user, or another password
  kPermission,   // the user may not
  kNoUsers,      // authentication is off
  kNoLeader,     // most of its members are away, or just electing one
  kFull,         // takes no writes any more
  kWantsTls,     // plain HTTP where certificates are expected
  kNotEtcd,      // something else answers, or an etcd without the gateway
};
struct Fault {
  FaultKind kind = FaultKind::kOther;
  std::string text;  // what it said itself: one line, not too long
};
// Of any other answer, by its HTTP status.
Fault parse_fault(int status, const std::string& text);

// Foreign text for a sentence: without control characters, and cut where it is long.
std::string quotable(const std::string& text);

}  // namespace twinblock::etcd
