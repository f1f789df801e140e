#include "io/posix/etcd_messages.h"

#include <gnutls/gnutls.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace twinblock::etcd {
namespace {

using Json = nlohmann::json;

constexpr int64_t kVersion = 1;
constexpr size_t kGenerationDigits = 16;
constexpr size_t kQuotedMax = 200;
constexpr size_t kTokenMax = 4096;
constexpr int kStatusUnauthorized = 401;
constexpr int kStatusForbidden = 403;

std::string base64(const std::string& text) {
  gnutls_datum_t from{reinterpret_cast<unsigned char*>(const_cast<char*>(text.data())),
                      static_cast<unsigned>(text.size())};
  gnutls_datum_t to{};
  TB_CHECK(gnutls_base64_encode2(&from, &to) == 0, "GnuTLS encodes base64");
  std::string encoded(reinterpret_cast<char*>(to.data), to.size);
  gnutls_free(to.data);
  return encoded;
}

std::optional<std::string> from_base64(const std::string& text) {
  if (text.empty()) return std::string();
  gnutls_datum_t from{reinterpret_cast<unsigned char*>(const_cast<char*>(text.data())),
                      static_cast<unsigned>(text.size())};
  gnutls_datum_t to{};
  if (gnutls_base64_decode2(&from, &to) != 0) return std::nullopt;
  std::string decoded(reinterpret_cast<char*>(to.data), to.size);
  gnutls_free(to.data);
  return decoded;
}

std::optional<int64_t> parse_integer(const std::string& text) {
  int64_t number = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error != std::errc{} || end != last) return std::nullopt;
  return number;
}

// The field `name`; nullopt where it is missing, or something else.
std::optional<int64_t> integer_at(const Json& object, const char* name) {
  const auto at = object.find(name);
  if (at == object.end()) return std::nullopt;
  if (at->is_string()) return parse_integer(at->get<std::string>());
  if (at->is_number_unsigned() && at->get<uint64_t>() <= INT64_MAX) return at->get<int64_t>();
  return std::nullopt;
}

std::optional<std::string> text_at(const Json& object, const char* name) {
  const auto at = object.find(name);
  if (at == object.end() || !at->is_string()) return std::nullopt;
  return at->get<std::string>();
}

// What every answer of etcd's begins with; nobody else's does. The revision is at least 1.
bool has_header(const Json& answer) {
  if (!answer.is_object()) return false;
  const auto header = answer.find("header");
  return header != answer.end() && header->is_object() && integer_at(*header, "revision").value_or(0) > 0;
}

Error no_answer(const std::string& why) {
  return Error{"answers what etcd would not (" + why + ")",
               "is that the port for etcd's clients (2379), and is etcd 3.4 or newer?"};
}

// An object with etcd's header.
Result<Json> parse_answer(const std::string& text) {
  Json answer = Json::parse(text, nullptr, false);
  if (answer.is_discarded()) return no_answer("no JSON");
  if (!has_header(answer)) return no_answer("no header with a revision");
  return answer;
}

Error no_entry(const std::string& why) {
  return Error{"holds what is no entry of twinblock's (" + why + ")", ""};
}

std::string generation_text(uint64_t generation) {
  std::array<char, kGenerationDigits + 1> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(generation));
  return text.data();
}

std::optional<uint64_t> parse_generation(const std::string& text) {
  uint64_t generation = 0;
  if (text.size() != kGenerationDigits || text.find_first_not_of("0123456789abcdef") != text.npos)
    return std::nullopt;
  (void)std::from_chars(text.data(), text.data() + text.size(), generation, 16);
  return generation == 0 ? std::nullopt : std::optional(generation);
}

// As the file lets nodes be called: what stands there reaches logs.
bool is_name(const std::string& text) {
  return text.size() <= 63 &&
         text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") == text.npos;
}

struct KnownFault {
  const char* words;  // part of what etcd says (etcd 3.4 and 3.5, etcdserver/api/v3rpc/rpctypes/error.go)
  FaultKind kind;
};
constexpr KnownFault kKnownFaults[] = {
    {"invalid auth token", FaultKind::kToken},
    {"revision of auth store is old", FaultKind::kToken},
    {"user name is empty", FaultKind::kToken},
    {"authentication failed", FaultKind::kCredentials},
    {"permission denied", FaultKind::kPermission},
    {"authentication is not enabled", FaultKind::kNoUsers},
    {"no leader", FaultKind::kNoLeader},
    {"leader changed", FaultKind::kNoLeader},
    {"request timed out", FaultKind::kNoLeader},
    {"not capable", FaultKind::kNoLeader},
    {"database space exceeded", FaultKind::kFull},
    {"HTTP request to an HTTPS server", FaultKind::kWantsTls},
};

}  // namespace

std::string key_of(const std::string& volume, const std::string& volume_uuid) {
  return "/twinblock/" + volume + "/" + volume_uuid;
}

std::string entry_text(const Marked& marked) {
  nlohmann::ordered_json value{{"version", kVersion},
                               {"volume", marked.entry.volume_uuid},
                               {"generation", generation_text(marked.entry.generation)},
                               {"holder", marked.entry.holder}};
  if (marked.mark != 0) value["register"] = generation_text(marked.mark);
  return value.dump();
}

Result<Marked> parse_entry(const std::string& text, const std::string& volume_uuid) {
  const Json value = Json::parse(text, nullptr, false);
  if (!value.is_object()) return no_entry("no object of JSON");
  const std::optional<int64_t> version = integer_at(value, "version");
  if (!version) return no_entry("no version");
  if (*version != kVersion)
    return Error{"holds an entry of version " + std::to_string(*version) + ", which this twinblock does not know",
                 "install the newer twinblock of the other host here, too"};
  const std::optional<std::string> volume = text_at(value, "volume");
  const std::optional<uint64_t> generation = parse_generation(text_at(value, "generation").value_or(""));
  const std::optional<std::string> holder = text_at(value, "holder");
  if (!volume) return no_entry("no volume");
  if (*volume != volume_uuid)
    return Error{"holds an entry of another volume (" + quotable(*volume) + ")", ""};
  if (!generation) return no_entry("no generation of 16 hexadecimal digits");
  if (!holder || !is_name(*holder)) return no_entry("no name of its holder");
  // Nothing depends on it but a sentence: what is none is left alone.
  return Marked{{*volume, *generation, *holder}, parse_generation(text_at(value, "register").value_or("")).value_or(0)};
}

std::string read_request(const std::string& key) {
  const std::string at = base64(key);
  // Versions begin at 0. A transaction goes through a majority, as any write does.
  const Json never{{"key", at}, {"target", "VERSION"}, {"result", "LESS"}, {"version", "0"}};
  const Json put{{"request_put", {{"key", at}, {"value", ""}}}};
  const Json range{{"request_range", {{"key", at}}}};
  return Json{{"compare", Json::array({never})}, {"success", Json::array({put})}, {"failure", Json::array({range})}}
      .dump();
}

std::string replace_request(const std::string& key, int64_t revision, const Marked& marked) {
  const std::string at = base64(key);
  Json compare{{"key", at}, {"result", "EQUAL"}};
  if (revision == 0) {
    compare["target"] = "CREATE";
    compare["create_revision"] = "0";
  } else {
    compare["target"] = "MOD";
    compare["mod_revision"] = std::to_string(revision);
  }
  const Json put{{"request_put", {{"key", at}, {"value", base64(entry_text(marked))}}}};
  return Json{{"compare", Json::array({compare})}, {"success", Json::array({put})}}.dump();
}

std::string authenticate_request(const std::string& user, const std::string& password) {
  // A password need not be UTF-8; etcd's can't be anything else.
  return Json{{"name", user}, {"password", password}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<ReadAnswer> parse_read_answer(const std::string& text, const std::string& key) {
  const Result<Json> answer = parse_answer(text);
  if (!answer) return answer.error();
  const auto responses = answer.value().find("responses");
  if (responses == answer.value().end() || !responses->is_array() || responses->size() != 1 ||
      !responses->front().is_object() || !responses->front().contains("response_range") ||
      !responses->front()["response_range"].is_object())
    return no_answer("not what was read");
  const Json& range = responses->front()["response_range"];
  const auto found = range.find("kvs");
  const bool counted = range.contains("count") && integer_at(range, "count") != 0;
  if (found == range.end()) {
    if (counted) return no_answer("a count, and no keys");
    return ReadAnswer{};
  }
  if (!found->is_array() || found->size() > 1) return no_answer("more than one key");
  if (found->empty()) return ReadAnswer{};
  const Json& pair = found->front();
  if (!pair.is_object()) return no_answer("no key");
  if (from_base64(text_at(pair, "key").value_or("")) != key) return no_answer("another key");
  ReadAnswer read;
  read.revision = integer_at(pair, "mod_revision").value_or(0);
  if (read.revision <= 0) return no_answer("a key without its revision");
  // An empty value is left out.
  if (pair.contains("value") && !pair["value"].is_string()) return no_answer("a value that is none");
  read.value = from_base64(text_at(pair, "value").value_or(""));
  if (!read.value) return no_answer("a value that is not base64");
  return read;
}

Result<bool> parse_replace_answer(const std::string& text) {
  const Result<Json> answer = parse_answer(text);
  if (!answer) return answer.error();
  const auto at = answer.value().find("succeeded");
  if (at == answer.value().end()) return false;  // left out like all that is false
  if (!at->is_boolean()) return no_answer("neither success nor failure");
  return at->get<bool>();
}

Result<std::string> parse_token(const std::string& text) {
  const Result<Json> answer = parse_answer(text);
  if (!answer) return answer.error();
  const std::string token = text_at(answer.value(), "token").value_or("");
  // It becomes a line of HTTP.
  const bool plain = std::all_of(token.begin(), token.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f; });
  if (token.empty() || token.size() > kTokenMax || !plain) return no_answer("no token");
  return token;
}

Fault parse_fault(int status, const std::string& text) {
  const Json answer = Json::parse(text, nullptr, false);
  std::string said = text;
  if (answer.is_object()) said = text_at(answer, "error").value_or(text_at(answer, "message").value_or(""));
  Fault fault{FaultKind::kOther, "HTTP status " + std::to_string(status)};
  if (!said.empty()) fault.text += ": " + quotable(said);
  for (const KnownFault& known : kKnownFaults) {
    if (said.find(known.words) == said.npos) continue;
    fault.kind = known.kind;
    return fault;
  }
  if (status == kStatusUnauthorized) fault.kind = FaultKind::kToken;
  else if (status == kStatusForbidden) fault.kind = FaultKind::kPermission;
  else if (!answer.is_object()) fault.kind = FaultKind::kNotEtcd;
  return fault;
}

std::string quotable(const std::string& text) {
  std::string line = text.substr(0, kQuotedMax);
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r' || line.back() == ' ')) line.pop_back();
  // Bytes above ASCII stay out, too: a text that was cut may end within a character.
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return text.size() > kQuotedMax ? line + "..." : line;
}

}  // namespace twinblock::etcd
