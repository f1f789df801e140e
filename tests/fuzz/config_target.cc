// The configuration file, and what is parsed within it. What passes keeps every promise of
// config/config.h, and means the same when it is written down anew; what does not pass is refused
// with one printable line that names a line of the file.
//
// Input: the text of a file. A short one is also taken for a size, a duration, a rate and an
// address.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/limits.h"
#include "base/units.h"
#include "config/address.h"
#include "config/config.h"
#include "input.h"
#include "line_mutator.h"

namespace twinblock::fuzz {
namespace {

constexpr size_t kUnitTextMax = 64;

void check_name(const std::string& name) {
  require(!name.empty() && name.size() <= 63, "a name of a forbidden length passed");
  require(name[0] != '-' && name[0] != '.',
          "a name that begins like an option or a dot file passed");
  require(std::all_of(name.begin(), name.end(),
                      [](char c) {
                        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                               (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
                      }),
          "a name with a forbidden character passed", name);
}

void check_path(const std::string& path) {
  require(path.starts_with('/') && printable_line(path), "a path that is not absolute passed",
          path);
  require(path.find("//") == std::string::npos && path.find("/../") == std::string::npos,
          "a path with two spellings passed", path);
}

void check_links(const Config& config) {
  require(!config.links.empty() && config.links.size() <= 8, "a forbidden number of links passed");
  std::set<std::string> names, addresses;
  for (const LinkConfig& link : config.links) {
    check_name(link.name);
    require(names.insert(link.name).second, "two links of one name passed");
    require(link.address.size() == 2, "a link without both addresses passed");
    for (const NodeConfig& node : config.nodes) {
      const auto found = link.address.find(node.name);
      require(found != link.address.end(), "a link without a node's address passed");
      const Result<Address> parsed = parse_address(found->second);
      require(parsed.ok() && parsed.value().text() == found->second,
              "an address that is not canonical");
      require(addresses.insert(found->second).second, "one address twice passed");
    }
    require(link.rate_bits_per_s <= 10'000'000'000'000, "an absurd rate passed");
  }
}

void check_witness(const WitnessConfig& witness) {
  const bool etcd = witness.kind == WitnessKind::kEtcd;
  const bool command = witness.kind == WitnessKind::kCommand;
  require(witness.endpoints.empty() != etcd && witness.endpoints.size() <= limits::kWitnessEndpointsMax,
          "a forbidden number of endpoints passed");
  for (const std::string& url : witness.endpoints)
    require((url.starts_with("http://") || url.starts_with("https://")) && printable_line(url) &&
                url.find_first_of(" @?#\"'`$;&|<>\\") == std::string::npos,
            "an endpoint passed that is none", url);
  require(witness.user.empty() == witness.password_file.empty(), "half of a user passed");
  require(witness.certificate_file.empty() == witness.certificate_key_file.empty(),
          "half of a certificate passed");
  require(witness.command.empty() != command, "a command that is none, or of another kind, passed");
  for (const std::string& path : {witness.password_file, witness.ca_file, witness.certificate_file,
                                  witness.certificate_key_file, witness.command})
    if (!path.empty()) check_path(path);
  const uint64_t least_ns = command ? kSecond_ns : 200 * kMillisecond_ns;
  const uint64_t most_ns = (command ? 600 : 60) * kSecond_ns;
  require(witness.kind == WitnessKind::kNone ||
              (witness.timeout_ns >= least_ns && witness.timeout_ns <= most_ns),
          "a forbidden timeout of a witness passed");
}

void check(const Config& config) {
  check_name(config.volume);
  require(config.size_bytes >= limits::kVolumeBytesMin &&
              config.size_bytes <= limits::kVolumeBytesMax &&
              config.size_bytes % limits::kBlockBytes == 0,
          "a forbidden size passed");
  require(config.nodes.size() == 2 && config.nodes[0].name < config.nodes[1].name,
          "not two nodes in order");
  for (const NodeConfig& node : config.nodes) {
    check_name(node.name);
    check_path(node.backing);
    check_path(node.metadata);
    check_path(node.runtime);
    require(control_socket_path(config, node).size() <= 107, "too long a socket path passed");
    require(config.has_node(node.name) && &config.node(node.name) == &node,
            "a node that is not found");
  }
  check_links(config);
  require(config.compression_level >= 1 && config.compression_level <= 19,
          "a forbidden level passed");
  for (const uint64_t timeout_ns : {config.peer_timeout_ns, config.disk_timeout_ns})
    require(timeout_ns >= 200 * kMillisecond_ns && timeout_ns <= 600 * kSecond_ns,
            "a forbidden timeout passed");
  check_witness(config.witness);
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

std::string duration(uint64_t ns) {
  // In the one unit that can say every duration that passes; halves of a nanosecond do not.
  std::string text = std::to_string(ns / 1000);
  if (ns % 1000 != 0) {
    const std::string fraction = std::to_string(ns % 1000);
    text += "." + std::string(3 - fraction.size(), '0') + fraction;
  }
  return quoted(text + "us");
}

std::string rendered(const WitnessConfig& witness) {
  if (witness.kind == WitnessKind::kNone) return {};
  std::string text = std::string("[witness]\nkind = ") +
                     (witness.kind == WitnessKind::kEtcd ? "\"etcd\"" : "\"command\"") +
                     "\ntimeout = " + duration(witness.timeout_ns) + "\n";
  if (!witness.endpoints.empty()) text += "endpoints = [";
  for (const std::string& url : witness.endpoints) text += quoted(url) + ", ";
  if (!witness.endpoints.empty()) text += "]\n";
  const std::pair<const char*, const std::string*> keys[] = {
      {"user", &witness.user},
      {"password_file", &witness.password_file},
      {"ca_file", &witness.ca_file},
      {"certificate_file", &witness.certificate_file},
      {"certificate_key_file", &witness.certificate_key_file},
      {"command", &witness.command}};
  for (const auto& [key, value] : keys)
    if (!value->empty()) text += std::string(key) + " = " + quoted(*value) + "\n";
  return text;
}

// A file that says the same.
std::string rendered(const Config& config) {
  static constexpr const char* kCompressions[] = {"off", "on", "auto"};
  static constexpr const char* kLosses[] = {"continue", "freeze"};
  std::string text = "volume = " + quoted(config.volume) + "\nsize = \"" +
                     std::to_string(config.size_bytes) + "\"\n";
  if (!config.key.empty()) text += "key = " + quoted(config.key) + "\n";
  if (config.encryption == Encryption::kOff) text += "encryption = \"off\"\n";
  for (const NodeConfig& node : config.nodes)
    text += "[node." + quoted(node.name) + "]\nbacking = " + quoted(node.backing) +
            "\nmetadata = " + quoted(node.metadata) + "\nruntime = " + quoted(node.runtime) + "\n";
  for (const LinkConfig& link : config.links) {
    text += "[link." + quoted(link.name) + "]\n";
    for (const auto& [node, address] : link.address)
      text += quoted(node) + " = " + quoted(address) + "\n";
    if (link.rate_bits_per_s != 0)
      text += "rate = \"" + std::to_string(link.rate_bits_per_s) + "bit\"\n";
  }
  return text + rendered(config.witness) + "[replication]\ncompression = \"" +
         kCompressions[static_cast<size_t>(config.compression)] +
         "\"\nlevel = " + std::to_string(config.compression_level) +
         "\npeer_timeout = " + duration(config.peer_timeout_ns) +
         "\ndisk_timeout = " + duration(config.disk_timeout_ns) + "\non_peer_loss = \"" +
         kLosses[static_cast<size_t>(config.on_peer_loss)] + "\"\n" +
         (config.congestion.empty() ? "" : "congestion = " + quoted(config.congestion) + "\n");
}

void check_same(const Config& a, const Config& b) {
  require(a.volume == b.volume && a.size_bytes == b.size_bytes && a.compression == b.compression &&
              a.compression_level == b.compression_level &&
              a.peer_timeout_ns == b.peer_timeout_ns && a.disk_timeout_ns == b.disk_timeout_ns &&
              a.on_peer_loss == b.on_peer_loss && a.congestion == b.congestion &&
              a.key == b.key && a.encryption == b.encryption &&
              a.witness == b.witness && a.links.size() == b.links.size(),
          "written down anew, the file means something else", rendered(a));
  for (size_t i = 0; i < 2; ++i)
    require(a.nodes[i].name == b.nodes[i].name && a.nodes[i].backing == b.nodes[i].backing &&
                a.nodes[i].metadata == b.nodes[i].metadata &&
                a.nodes[i].runtime == b.nodes[i].runtime,
            "written down anew, a node means something else", rendered(a));
  for (size_t i = 0; i < a.links.size(); ++i)
    require(a.links[i].name == b.links[i].name && a.links[i].address == b.links[i].address &&
                a.links[i].rate_bits_per_s == b.links[i].rate_bits_per_s,
            "written down anew, a link means something else", rendered(a));
}

void check_file(const std::string& text) {
  const Result<Config> config = parse_config(text, "r0.toml");
  if (!config.ok()) {
    const std::string& what = config.error().what;
    require(printable_line(what), "an error that is no line", what);
    require(what.starts_with("r0.toml:"), "an error that does not name the file", what);
    const size_t line = std::strtoull(what.c_str() + std::string("r0.toml:").size(), nullptr, 10);
    const auto lines = 1 + static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
    require(line >= 1 && line <= lines + 1, "an error in a line that is not there", what);
    return;
  }
  check(config.value());
  const Result<Config> again = parse_config(rendered(config.value()), "r0.toml");
  require(again.ok(), "what passed is refused when it is written down anew",
          again.ok() ? "" : again.error().what + "\n" + rendered(config.value()));
  check_same(config.value(), again.value());
}

// The product of a number and its unit, in another arithmetic.
std::optional<long double> scaled(const std::string& text, const std::string& unit,
                                  long double factor) {
  if (!text.ends_with(unit)) return std::nullopt;
  const std::string number = text.substr(0, text.size() - unit.size());
  if (number.empty() || number.find_first_not_of("0123456789.") != std::string::npos ||
      std::count(number.begin(), number.end(), '.') > 1 || number == ".")
    return std::nullopt;
  return std::strtold(number.c_str(), nullptr) * factor;
}

void check_scaled(const std::string& text, const std::string& unit, long double factor,
                  const std::optional<uint64_t>& parsed) {
  const std::optional<long double> right = scaled(text, unit, factor);
  if (!right || !parsed) return;
  const long double off = std::fabs(static_cast<long double>(*parsed) - *right);
  require(off <= 0.5L + *right * 1e-15L, "a number that is read as another one",
          text + " is read as " + std::to_string(*parsed));
}

void check_units(const std::string& text) {
  check_scaled(text, "KiB", kKiB, parse_size_bytes(text));
  check_scaled(text, "TiB", kTiB, parse_size_bytes(text));
  check_scaled(text, "us", kMicrosecond_ns, parse_duration_ns(text));
  check_scaled(text, "min", 60 * kSecond_ns, parse_duration_ns(text));
  check_scaled(text, "Mbit", 1e6L, parse_rate_bits_per_s(text));
  check_scaled(text, "Gbit", 1e9L, parse_rate_bits_per_s(text));
  const Result<Address> address = parse_address(text);
  if (!address.ok()) return;
  require(address.value().port != 0, "port 0 passed");
  const Result<Address> again = parse_address(address.value().text());
  require(again.ok() && again.value().text() == address.value().text() &&
              again.value().loopback() == address.value().loopback(),
          "an address whose text is another address", text);
}

// Lines that a mutation puts in: whole ones, so that it need not find the syntax letter by letter.
constexpr const char* kLines[] = {
    "volume = \"r0\"",
    "size = \"10GiB\"",
    "size = \"65536\"",
    "key = \"/etc/twinblock/r0.key\"",
    "encryption = \"off\"",
    "encryption = \"tls\"",
    "[node.alpha]",
    "[node.beta]",
    "[node.\"a b\"]",
    "backing = \"/srv/r0.img\"",
    "metadata = \"/var/lib/twinblock/r0.meta\"",
    "runtime = \"/run/b\"",
    "[link.main]",
    "[link.backup]",
    "alpha = \"10.0.0.1:7700\"",
    "beta = \"10.0.0.2:7700\"",
    "alpha = \"[fd00::1]:7700\"",
    "beta = \"[fd00::2]:7700\"",
    "beta = \"127.0.0.1:1\"",
    "rate = \"1.5Gbit\"",
    "[replication]",
    "compression = \"auto\"",
    "level = 19",
    "peer_timeout = \"500ms\"",
    "disk_timeout = \"10min\"",
    "link_timeout = \"50ms\"",
    "on_peer_loss = \"freeze\"",
    "congestion = \"bbr\"",
    "allow_links = [\"10.0.0.0/8\", \"fd00::/64\"]",
    "[witness]",
    "kind = \"etcd\"",
    "kind = \"command\"",
    "endpoints = [\"http://10.0.0.3:2379\", \"http://[fd00::3]:2379\"]",
    "endpoints = [\"https://etcd1:2379\"]",
    "user = \"twinblock\"",
    "password_file = \"/etc/twinblock/r0.etcd\"",
    "ca_file = \"/etc/ssl/ca.pem\"",
    "certificate_file = \"/c\"",
    "certificate_key_file = \"/k\"",
    "command = \"/etc/twinblock/r0.fence\"",
    "timeout = \"2s\"",
    "node.alpha.backing = \"/x\"",
    "link = {main = {alpha = \"10.0.0.1:1\", beta = \"10.0.0.2:1\"}}",
    "\"\\u001b\" = 1979-05-27T07:32:00Z",
    "x = \"\"\"",
    "'''",
    "[[link]]",
};

}  // namespace
}  // namespace twinblock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace twinblock::fuzz;
  const std::string text(reinterpret_cast<const char*>(data), size);
  check_file(text);
  if (size <= kUnitTextMax) check_units(text);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  using namespace twinblock::fuzz;
  return mutate_lines(data, size, max_size, seed, kLines);
}
