#include "io/posix/etcd_client.h"

#include <span>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "io/posix/files.h"
#include "io/posix/monotonic.h"
#include "io/posix/witness_files.h"

namespace twinblock {
namespace {

constexpr int kStatusOk = 200;

}  // namespace

EtcdClient::EtcdClient(EtcdAccess access)
    : access_(std::move(access)),
      http_({access_.ca_file, access_.certificate_file, access_.certificate_key_file},
            limits::kWitnessAnswerBytesMax) {}

Result<WitnessReading> EtcdClient::read(const std::string& volume, const std::string& volume_uuid,
                                        uint64_t deadline_ns) {
  const std::string key = etcd::key_of(volume, volume_uuid);
  etcd::ReadAnswer answer;
  Question question{"/v3/kv/txn", etcd::read_request(key), {}};
  question.accept = [&](const std::string& body) -> Status {
    Result<etcd::ReadAnswer> parsed = etcd::parse_read_answer(body, key);
    if (!parsed) return parsed.error();
    answer = std::move(parsed.value());
    return ok_status();
  };
  if (Status asked = ask(question, deadline_ns); !asked) return asked.error();
  mark_ = 0;
  if (!answer.value) return WitnessReading{};
  Result<etcd::Marked> found = etcd::parse_entry(*answer.value, volume_uuid);
  if (!found)
    return etcd::sentence_of({{access_.endpoints[first_], etcd::words_of_entry(access_, key, found.error())}});
  mark_ = found.value().mark;
  return WitnessReading{std::move(found.value().entry), answer.revision, mark_ == 0};
}

Result<bool> EtcdClient::replace(const std::string& volume, int64_t revision, const WitnessEntry& entry,
                                 uint64_t deadline_ns) {
  bool replaced = false;
  uint64_t mark = mark_;  // what stands there was read before
  while (mark == 0) random_bytes(std::as_writable_bytes(std::span(&mark, 1)));
  Question question{"/v3/kv/txn",
                    etcd::replace_request(etcd::key_of(volume, entry.volume_uuid), revision, {entry, mark}), {}};
  // The second one would find the first one's work, and say that nothing was replaced.
  question.once = true;
  question.accept = [&](const std::string& body) -> Status {
    const Result<bool> parsed = etcd::parse_replace_answer(body);
    if (!parsed) return parsed.error();
    replaced = parsed.value();
    return ok_status();
  };
  if (Status asked = ask(question, deadline_ns); !asked) return asked.error();
  if (replaced) mark_ = mark;
  return replaced;
}

// One that hangs leaves the others their share of the time.
Status EtcdClient::ask(const Question& question, uint64_t deadline_ns) {
  std::vector<etcd::FailedEndpoint> failed;
  const size_t count = access_.endpoints.size();
  const size_t first = first_;
  for (size_t tried = 0; tried < count; ++tried) {
    const size_t at = (first + tried) % count;
    const uint64_t now_ns = monotonic_ns();
    const uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    const std::string& endpoint = access_.endpoints[at];
    std::optional<Failure> failure = ask_at(endpoint, question, now_ns + left_ns / (count - tried));
    if (!failure) {
      first_ = at;
      return ok_status();
    }
    if (failure->final) failed.clear();
    failed.push_back({endpoint, std::move(failure->words)});
    if (failure->final) break;
  }
  return etcd::sentence_of(failed);
}

std::optional<EtcdClient::Failure> EtcdClient::ask_at(const std::string& endpoint, const Question& question,
                                                      uint64_t deadline_ns) {
  const bool known = token_.has_value();
  if (!access_.user.empty() && !known)
    if (auto failure = authenticate(endpoint, deadline_ns)) return failure;
  const HttpOutcome outcome =
      http_.post({endpoint + question.path, question.body, token_.value_or("")}, deadline_ns);
  if (outcome.failure != HttpFailure::kNone)
    return Failure{words_of(outcome),
                   outcome.failure == HttpFailure::kStopped || (question.once && outcome.sent)};
  if (outcome.status == kStatusOk) {
    const Status accepted = question.accept(outcome.body);
    return accepted ? std::nullopt : std::optional(Failure{accepted.error(), question.once});
  }
  const etcd::Fault fault = etcd::parse_fault(outcome.status, outcome.body);
  // Of an old token, or one that a member forgot when it was started anew. What was asked for was not done.
  if (fault.kind == etcd::FaultKind::kToken && known) {
    token_.reset();
    return ask_at(endpoint, question, deadline_ns);
  }
  const bool of_all = fault.kind == etcd::FaultKind::kToken || fault.kind == etcd::FaultKind::kPermission ||
                      fault.kind == etcd::FaultKind::kFull;
  return Failure{etcd::words_of(access_, fault), question.once || of_all};
}

// libcurl does not say which file it is.
Error EtcdClient::words_of(const HttpOutcome& failed) const {
  const bool tls = failed.failure == HttpFailure::kOwnFile || failed.failure == HttpFailure::kTls ||
                   failed.failure == HttpFailure::kUntrusted;
  if (tls)
    if (Status own = check_tls_files(access_.ca_file, access_.certificate_file, access_.certificate_key_file); !own)
      return {"can't be asked: " + own.error().what, own.error().action};
  return etcd::words_of(access_, failed);
}

std::optional<EtcdClient::Failure> EtcdClient::authenticate(const std::string& endpoint, uint64_t deadline_ns) {
  // Read each time: who changes the password need not restart the node.
  const Result<std::string> password = read_etcd_password(access_.password_file);
  if (!password) return Failure{{"can't be asked: " + password.error().what, password.error().action}, true};
  const HttpOutcome outcome = http_.post(
      {endpoint + "/v3/auth/authenticate", etcd::authenticate_request(access_.user, password.value()), ""},
      deadline_ns);
  if (outcome.failure != HttpFailure::kNone)
    return Failure{words_of(outcome), outcome.failure == HttpFailure::kStopped};
  if (outcome.status == kStatusOk) {
    Result<std::string> token = etcd::parse_token(outcome.body);
    if (!token) return Failure{token.error()};
    token_ = std::move(token.value());
    return std::nullopt;
  }
  const etcd::Fault fault = etcd::parse_fault(outcome.status, outcome.body);
  if (fault.kind == etcd::FaultKind::kNoUsers) {
    token_ = "";  // until it asks for one
    return std::nullopt;
  }
  return Failure{etcd::words_of(access_, fault), fault.kind == etcd::FaultKind::kCredentials};
}

}  // namespace twinblock
