#include "config/witness_table.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>

#include "base/limits.h"
#include "config/address.h"
#include "config/value_readers.h"

namespace twinblock {
namespace {

constexpr uint64_t kEtcdTimeoutDefault_ns = 3 * kSecond_ns;
constexpr uint64_t kCommandTimeoutDefault_ns = 30 * kSecond_ns;
// Less would take a busy etcd for a dead one; writes wait as long as the question does.
constexpr TimeoutRange kEtcdTimeouts{200 * kMillisecond_ns, 60 * kSecond_ns, "200ms to 60s"};
// A host that is switched off by its management board may take minutes.
constexpr TimeoutRange kCommandTimeouts{1 * kSecond_ns, 600 * kSecond_ns, "1s to 10min"};

constexpr std::array<const char*, 2> kKinds{witness_kind_name(WitnessKind::kEtcd),
                                            witness_kind_name(WitnessKind::kCommand)};
constexpr std::array<const char*, 6> kEtcdKeys{"endpoints",        "user",
                                               "password_file",    "ca_file",
                                               "certificate_file", "certificate_key_file"};
constexpr const char* kEndpointsExample = "endpoints = [\"http://10.0.0.3:2379\"]";
constexpr size_t kHostNameMax = 253;
constexpr size_t kUserMax = 64;

struct Endpoint {
  std::string url;  // canonical: equal text means the same
  bool https = false;
};

Error bad_endpoint(const std::string& text, const std::string& what) {
  return Error{"'" + text + "' " + what, "write it like \"http://10.0.0.3:2379\""};
}

bool is_port(const std::string& text) {
  unsigned port = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, port);
  return error == std::errc{} && end == last && port >= 1 && port <= 65535 && text[0] != '0';
}

// "etcd1.example:2379": a name is looked up by the thread that asks, each time anew.
Result<std::string> named_host(const std::string& text, const std::string& host_and_port) {
  const size_t colon = host_and_port.rfind(':');
  if (colon == std::string::npos || !is_port(host_and_port.substr(colon + 1)))
    return bad_endpoint(text, "does not end with a port from 1 to 65535");
  std::string host = host_and_port.substr(0, colon);
  std::transform(host.begin(), host.end(), host.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const bool good = !host.empty() && host.size() <= kHostNameMax && host[0] != '-' && host[0] != '.' &&
                    host.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-._") == host.npos;
  if (!good) return bad_endpoint(text, "has no host's name or address between scheme and port");
  return host + host_and_port.substr(colon);
}

// "http://HOST:PORT" or "https://HOST:PORT", as clients of etcd have it.
Result<Endpoint> parse_endpoint(const std::string& text) {
  Endpoint endpoint;
  endpoint.https = text.starts_with("https://");
  if (!endpoint.https && !text.starts_with("http://"))
    return bad_endpoint(text, "is not a URL with http:// or https://");
  const std::string scheme = endpoint.https ? "https://" : "http://";
  std::string rest = text.substr(scheme.size());
  if (rest.ends_with('/')) rest.pop_back();
  if (rest.find_first_of("/?#@\\") != std::string::npos)
    return bad_endpoint(text, "says more than a host and a port");
  const bool numeric = rest.starts_with('[') || rest.find_first_not_of("0123456789.:") == rest.npos;
  if (!numeric) {
    const Result<std::string> named = named_host(text, rest);
    if (!named) return named.error();
    endpoint.url = scheme + named.value();
    return endpoint;
  }
  const Result<Address> address = parse_address(rest);
  if (!address) return bad_endpoint(text, "has no host and port: " + address.error().what);
  endpoint.url = scheme + address.value().text();
  return endpoint;
}

// Whether the endpoints are https; nullopt where they are wrong.
std::optional<bool> read_endpoints(const ConfigTable& table, WitnessConfig& witness) {
  const std::string add = std::string("add ") + kEndpointsExample;
  bool https = false;
  if (!table.has("endpoints")) {
    table.fail("endpoints", "'endpoints' is missing in " + table.where(), add);
    return std::nullopt;
  }
  for (const std::string& text : table.texts("endpoints", kEndpointsExample)) {
    const Result<Endpoint> endpoint = parse_endpoint(text);
    if (!endpoint) {
      table.fail("endpoints", endpoint.error().what, endpoint.error().action);
      return std::nullopt;
    }
    const auto& [url, secure] = endpoint.value();
    if (std::find(witness.endpoints.begin(), witness.endpoints.end(), url) != witness.endpoints.end())
      table.fail("endpoints", "the endpoint " + url + " is there twice", "remove one of them");
    if (!witness.endpoints.empty() && secure != https)
      table.fail("endpoints", "some endpoints are http, and some https", "use one of them for all");
    https = secure;
    witness.endpoints.push_back(url);
  }
  if (witness.endpoints.empty()) {
    table.fail("endpoints", "there is none in 'endpoints'", std::string("write ") + kEndpointsExample);
    return std::nullopt;
  }
  if (witness.endpoints.size() > limits::kWitnessEndpointsMax)
    table.fail("endpoints",
               "there are more than " + std::to_string(limits::kWitnessEndpointsMax) + " endpoints",
               "name some members of etcd only, they know of the others");
  return https;
}

void read_user(const ConfigTable& table, const std::string& volume, WitnessConfig& witness) {
  const std::string password_example = "/etc/twinblock/" + volume + ".etcd";
  const std::string add = "add password_file = \"" + password_example + "\", which only root can read";
  witness.password_file = read_path(table, "password_file", password_example, false);
  const auto user = table.text("user", "user = \"twinblock\"", false);
  if (user) {
    const bool printable = std::all_of(user->begin(), user->end(), [](unsigned char c) {
      return c >= 0x20 && c != 0x7f;
    });
    if (user->empty() || user->size() > kUserMax || !printable)
      table.fail("user", "'" + *user + "' is not the name of a user of etcd", "write user = \"twinblock\"");
    witness.user = *user;
    if (!table.has("password_file")) table.fail("user", "'user' needs a password_file", add);
    return;
  }
  if (table.has("password_file"))
    table.fail("password_file", "'password_file' needs a user", "add user = \"twinblock\", or remove it");
}

void read_tls(const ConfigTable& table, bool https, WitnessConfig& witness) {
  const std::string folder = "/etc/twinblock/";
  witness.ca_file = read_path(table, "ca_file", folder + "etcd-ca.pem", false);
  witness.certificate_file = read_path(table, "certificate_file", folder + "etcd-client.pem", false);
  witness.certificate_key_file = read_path(table, "certificate_key_file", folder + "etcd-client.key", false);
  for (const char* key : {"ca_file", "certificate_file", "certificate_key_file"})
    if (table.has(key) && !https)
      table.fail(key, std::string("'") + key + "' is for https, and the endpoints are http",
                 "write https:// where etcd has certificates, or remove '" + std::string(key) + "'");
  const bool certificate = table.has("certificate_file");
  if (certificate != table.has("certificate_key_file"))
    table.fail(certificate ? "certificate_file" : "certificate_key_file",
               "certificate_file and certificate_key_file belong together",
               std::string("add ") + (certificate ? "certificate_key_file" : "certificate_file"));
}

void read_etcd(const ConfigTable& table, const std::string& volume, WitnessConfig& witness) {
  if (const std::optional<bool> https = read_endpoints(table, witness)) read_tls(table, *https, witness);
  read_user(table, volume, witness);
  witness.timeout_ns = read_timeout(table, "timeout", kEtcdTimeoutDefault_ns, kEtcdTimeouts);
}

void read_command(const ConfigTable& table, const std::string& volume, WitnessConfig& witness) {
  witness.command = read_path(table, "command", "/etc/twinblock/" + volume + ".fence", true);
  witness.timeout_ns = read_timeout(table, "timeout", kCommandTimeoutDefault_ns, kCommandTimeouts);
}

// What would do nothing is a misunderstanding.
void refuse_key(const ConfigTable& table, const char* key, const std::string& its_kind) {
  if (table.has(key))
    table.fail(key, std::string("'") + key + "' belongs to a witness of kind \"" + its_kind + "\"",
               "remove it, or write kind = \"" + its_kind + "\"");
}

}  // namespace

WitnessConfig read_witness(const ConfigTable& top, const std::string& volume) {
  WitnessConfig witness;
  const std::optional<ConfigTable> table = top.child("witness");
  if (!table) return witness;
  table->allow_only({"kind", "endpoints", "user", "password_file", "ca_file", "certificate_file",
                     "certificate_key_file", "command", "timeout"});
  const auto kind = table->text("kind", "kind = \"etcd\", or \"command\"", true);
  if (!kind) return witness;
  if (*kind == kKinds[0]) {
    witness.kind = WitnessKind::kEtcd;
    refuse_key(*table, "command", kKinds[1]);
    read_etcd(*table, volume, witness);
  } else if (*kind == kKinds[1]) {
    witness.kind = WitnessKind::kCommand;
    for (const char* key : kEtcdKeys) refuse_key(*table, key, kKinds[0]);
    read_command(*table, volume, witness);
  } else {
    table->fail("kind", "'" + *kind + "' is not a kind of witness", "choose " + list_choices(kKinds));
  }
  return witness;
}

}  // namespace twinblock
