#include "config/config.h"

#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "base/limits.h"
#include "base/units.h"
#include "config/address.h"
#include "config/cache_table.h"
#include "config/copies_table.h"
#include "config/link_rules.h"
#include "config/toml_reader.h"
#include "config/value_readers.h"
#include "config/witness_table.h"

namespace twinblock {
namespace {

constexpr size_t kFileBytesMax = kMiB;
constexpr uint64_t kPeerTimeoutDefault_ns = 5 * kSecond_ns;
constexpr uint64_t kDiskTimeoutDefault_ns = 30 * kSecond_ns;
constexpr uint64_t kLinkTimeoutDefault_ns = 500 * kMillisecond_ns;
// The key of [link.X] that is not a node's name.
constexpr const char* kRateKey = "rate";
// In the order of the enumeration.
constexpr std::array<const char*, 3> kCompressions{"off", "on", "auto"};

constexpr TimeoutRange kLinkTimeouts{limits::kLinkTimeoutMin_ns, limits::kLinkTimeoutMax_ns, "100ms to 60s"};

void read_name(const ConfigTable& table, const std::string& key, const std::string& what,
               const std::string& name) {
  if (const Status good = check_name(what, name); !good)
    table.fail(key, good.error().what, good.error().action);
}

void read_size(const ConfigTable& top, Config& config) {
  const std::optional<std::string> text = top.text("size", "size = \"10GiB\"", true);
  if (!text) return;
  const std::optional<uint64_t> size = parse_size_bytes(*text);
  if (!size)
    return top.fail("size", "size '" + *text + "' is not a size", "write it like \"10GiB\"");
  if (*size < limits::kVolumeBytesMin || *size > limits::kVolumeBytesMax)
    return top.fail("size", "size '" + *text + "' is out of range",
                    "choose from " + format_size(limits::kVolumeBytesMin) + " to " +
                        format_size(limits::kVolumeBytesMax));
  if (*size % limits::kBlockBytes != 0)
    return top.fail(
        "size", "size '" + *text + "' is not a multiple of 4096 bytes",
        "the next smaller one is \"" + std::to_string(*size - *size % limits::kBlockBytes) + "\"");
  config.size_bytes = *size;
}

void check_socket_length(const ConfigTable& table, const Config& config, const NodeConfig& node) {
  const size_t limit = sizeof(sockaddr_un{}.sun_path) - 1;
  const std::string socket = control_socket_path(config, node);
  if (socket.size() <= limit) return;
  table.fail("runtime",
             "the socket '" + socket + "' has a longer path than the " + std::to_string(limit) +
                 " bytes that the system allows",
             "choose a shorter runtime directory");
}

// Earlier versions served metrics themselves. A host that is upgraded must not lose its node over that line.
void warn_of_metrics(const ConfigTable& table) {
  if (table.has("metrics"))
    table.warn("metrics", "'metrics' in " + table.where() + " has no effect: `twinblock web` serves the metrics now",
               "enable twinblock-web.service, let Prometheus ask that, and remove this line");
}

BackingIo read_backing_io(const ConfigTable& table) {
  constexpr std::array<const char*, 2> kWays{"buffered", "direct"};
  return static_cast<BackingIo>(read_choice(table, "backing_io", kWays, 0));
}

void read_nodes(const ConfigTable& top, Config& config) {
  const std::vector<ConfigTable> tables = top.children("node");
  for (const ConfigTable& table : tables) {
    NodeConfig node;
    node.name = table.last_name();
    table.allow_only({"backing", "backing_io", "metadata", "runtime"}, {"metrics"});
    read_name(table, {}, "node", node.name);
    if (node.name == kRateKey)
      table.fail({}, "a node can't be called 'rate'", "that is a key of [link.NAME]; rename it");
    node.backing = read_path(table, "backing", "/srv/" + config.volume + ".img", true);
    node.metadata =
        read_path(table, "metadata", "/var/lib/twinblock/" + config.volume + ".meta", true);
    node.runtime = read_path(table, "runtime", "/run/twinblock", false);
    if (node.runtime.empty()) node.runtime = default_runtime_dir();
    node.backing_io = read_backing_io(table);
    warn_of_metrics(table);
    if (!node.backing.empty() && node.backing == node.metadata)
      table.fail("metadata", "metadata and backing of node '" + node.name + "' are one path",
                 "metadata needs a file or device of its own");
    check_socket_length(table, config, node);
    config.nodes.push_back(node);
  }
  if (tables.size() != 2) {
    const int64_t line = tables.empty() ? 1 : tables[std::min<size_t>(tables.size() - 1, 2)].line();
    top.errors().add(
        line,
        "there are " + std::to_string(tables.size()) +
            " [node.NAME] tables, a volume has two nodes",
        tables.size() < 2 ? "add [node.NAME] with backing and metadata" : "remove this one");
  }
  std::sort(config.nodes.begin(), config.nodes.end(),
            [](const NodeConfig& a, const NodeConfig& b) { return a.name < b.name; });
}

// What is known of all links while they are read.
struct Addresses {
  std::map<std::string, int64_t> seen;  // "IP:port" -> its line
  bool one_host = false;                // some link has the same host at both ends
};

void read_link_addresses(const ConfigTable& table, const Config& config, LinkConfig& link,
                         Addresses& all) {
  std::vector<Address> ends;
  for (const NodeConfig& node : config.nodes) {
    const std::optional<std::string> text =
        table.text(node.name, node.name + " = \"10.0.0.1:7700\"", true);
    if (!text) return;
    const Result<Address> address = parse_address(*text);
    if (!address) return table.fail(node.name, address.error().what, address.error().action);
    const std::string canonical = address.value().text();
    const auto [other, fresh] = all.seen.emplace(canonical, table.line(node.name));
    if (!fresh)
      return table.fail(node.name,
                        "the address " + canonical + " is used twice, first in line " +
                            std::to_string(other->second),
                        "give each node its own address or port in each link");
    link.address[node.name] = canonical;
    ends.push_back(address.value());
  }
  if (ends[0].v6 != ends[1].v6)
    return table.fail(config.nodes[1].name,
                      "link '" + link.name + "' has an IPv4 and an IPv6 address",
                      "use the same kind at both ends");
  if (ends[0].ip == ends[1].ip || (ends[0].loopback() && ends[1].loopback())) all.one_host = true;
}

void read_links(const ConfigTable& top, Config& config, Addresses& all) {
  const std::vector<ConfigTable> tables = top.children("link");
  for (const ConfigTable& table : tables) {
    LinkConfig link;
    link.name = table.last_name();
    read_name(table, {}, "link", link.name);
    table.allow_only({config.nodes[0].name, config.nodes[1].name, kRateKey});
    read_link_addresses(table, config, link, all);
    if (const auto rate = table.text(kRateKey, "rate = \"10Gbit\"", false)) {
      if (const Result<uint64_t> parsed = parse_link_rate(*rate); parsed.ok())
        link.rate_bits_per_s = parsed.value();
      else
        table.fail(kRateKey, parsed.error().what, parsed.error().action);
    }
    config.links.push_back(link);
  }
  if (tables.empty())
    top.errors().add(1, "there is no link between the nodes",
                     "add [link.main] with " + config.nodes[0].name + " = \"IP:port\" and " +
                         config.nodes[1].name + " = \"IP:port\"");
  if (tables.size() > limits::kLinksMax)
    tables[limits::kLinksMax].fail({}, "there are more than 8 links", "remove this one");
}

// A link has to be given up while there is time to send over another one what it carried.
void read_link_timeout(const ConfigTable& table, Config& config) {
  const bool given = table.text("link_timeout", "link_timeout = \"500ms\"", false).has_value();
  config.link_timeout_ns =
      read_timeout(table, "link_timeout",
                   std::min(kLinkTimeoutDefault_ns, config.peer_timeout_ns / 2), kLinkTimeouts);
  if (given && config.link_timeout_ns >= config.peer_timeout_ns)
    table.fail("link_timeout",
               "link_timeout is not less than peer_timeout, which is " +
                   format_duration(config.peer_timeout_ns),
               "choose a quarter of it, or less, so that other links can take over in time");
}

// Which ones there are only the kernel of the host knows.
void read_congestion(const ConfigTable& table, Config& config) {
  constexpr size_t kLengthMax = 15;  // TCP_CA_NAME_MAX
  const auto name = table.text("congestion", "congestion = \"cubic\"", false);
  if (!name) return;
  const bool good = !name->empty() && name->size() <= kLengthMax &&
                    name->find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == name->npos;
  if (!good)
    return table.fail(
        "congestion", "'" + *name + "' is not the name of a congestion control",
        "choose one that `sysctl net.ipv4.tcp_available_congestion_control` lists, or "
        "\"system\"");
  config.congestion = *name;
}

void read_allowed(const ConfigTable& table, Config& config) {
  for (const std::string& text : table.texts("allow_links", "allow_links = [\"10.20.0.0/16\"]")) {
    const Result<IpNetwork> network = IpNetwork::parse(text);
    if (!network)
      return table.fail("allow_links", network.error().what, network.error().action);
    config.allow_links.push_back(network.value());
  }
}

void read_replication(const ConfigTable& top, Config& config) {
  config.peer_timeout_ns = kPeerTimeoutDefault_ns;
  config.disk_timeout_ns = kDiskTimeoutDefault_ns;
  config.link_timeout_ns = kLinkTimeoutDefault_ns;
  const std::optional<ConfigTable> table = top.child("replication");
  if (!table) return;
  table->allow_only({"compression", "level", "peer_timeout", "link_timeout", "disk_timeout",
                     "on_peer_loss", "on_restart", "congestion", "allow_links"});
  constexpr std::array<const char*, 2> kLosses{"continue", "freeze"};
  constexpr std::array<const char*, 2> kRestarts{"resume", "secondary"};
  config.compression =
      static_cast<Compression>(read_choice(*table, "compression", kCompressions, 0));
  config.compression_level =
      table->integer("level", limits::kCompressionLevelMin, limits::kCompressionLevelMax)
          .value_or(limits::kCompressionLevelMin);
  config.peer_timeout_ns = read_timeout(*table, "peer_timeout", kPeerTimeoutDefault_ns);
  config.disk_timeout_ns = read_timeout(*table, "disk_timeout", kDiskTimeoutDefault_ns);
  read_link_timeout(*table, config);
  config.on_peer_loss = static_cast<OnPeerLoss>(read_choice(*table, "on_peer_loss", kLosses, 0));
  config.on_restart = static_cast<OnRestart>(read_choice(*table, "on_restart", kRestarts, 0));
  read_congestion(*table, config);
  read_allowed(*table, config);
}

void read_encryption(const ConfigTable& top, Config& config) {
  constexpr std::array<const char*, 2> kEncryptions{"tls", "off"};
  config.key = read_path(top, "key", "/etc/twinblock/" + config.volume + ".key", false);
  config.encryption = static_cast<Encryption>(read_choice(top, "encryption", kEncryptions, 0));
  if (config.key.empty() && config.encryption == Encryption::kTls &&
      top.text("encryption", "encryption = \"tls\"", false))
    top.fail("encryption", "encryption needs a key",
             "add key = \"/etc/twinblock/" + config.volume + ".key\", and make it with: twinblock key "
             "new " + config.volume);
}

// Two hosts may well use the same paths. Two nodes on one host that did would overwrite each other.
void check_one_host(const ConfigTable& top, const Config& config) {
  const NodeConfig& a = config.nodes[0];
  const NodeConfig& b = config.nodes[1];
  for (const ConfigTable& table : top.children("node")) {
    if (table.last_name() != b.name) continue;
    const std::string both = "the links join two nodes on one host, and both nodes use '";
    if (b.backing == a.backing || b.backing == a.metadata)
      table.fail("backing", both + b.backing + "'", "give each node its own file or device");
    if (b.metadata == a.metadata || b.metadata == a.backing)
      table.fail("metadata", both + b.metadata + "'", "give each node its own file or device");
    if (b.runtime == a.runtime)
      table.fail(
          "runtime", both + b.runtime + "' for their sockets",
          "give each node its own directory: runtime = \"" + a.runtime + "/" + b.name + "\"");
  }
}

}  // namespace

const NodeConfig& Config::node(const std::string& name) const {
  for (const NodeConfig& node : nodes)
    if (node.name == name) return node;
  check_failed(__FILE__, __LINE__, name.c_str(), "no such node in the configuration");
}

const NodeConfig& Config::other(const std::string& name) const {
  return nodes.at(nodes.at(0).name == name ? 1 : 0);
}

bool Config::has_node(const std::string& name) const {
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](const NodeConfig& node) { return node.name == name; });
}

const char* compression_name(Compression mode) {
  return kCompressions.at(static_cast<size_t>(mode));
}

std::optional<Compression> parse_compression(const std::string& text) {
  for (size_t i = 0; i < kCompressions.size(); ++i)
    if (text == kCompressions[i]) return static_cast<Compression>(i);
  return std::nullopt;
}

Result<Config> parse_config(const std::string& text, const std::string& path) {
  ConfigErrors errors(path);
  toml::table file;
  try {
    file = toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    errors.add(static_cast<int64_t>(error.source().begin.line), std::string(error.description()),
               "look at that line, and at the one before: words, paths, sizes and times stand in quotes, as in "
               "kind = \"etcd\"");
    return errors.first();
  }
  Config config;
  config.path = path;
  const ConfigTable top(file, "", errors);
  top.allow_only({"volume", "size", "key", "encryption", "node", "link", "replication", "witness", "cache",
                  "copies"});
  config.volume = top.text("volume", "volume = \"r0\"", true).value_or("r0");
  read_name(top, "volume", "volume", config.volume);
  read_size(top, config);
  read_encryption(top, config);
  read_nodes(top, config);
  // The links are checked against the nodes, so these have to be right first.
  if (errors.any()) return errors.first();
  Addresses addresses;
  read_links(top, config, addresses);
  read_replication(top, config);
  config.witness = read_witness(top, config.volume);
  config.cache_bytes = read_cache_bytes(top);
  read_copies(top, config);
  if (addresses.one_host) check_one_host(top, config);
  if (errors.any()) return errors.first();
  config.warnings = errors.warnings();
  return config;
}

Result<Config> load_config(const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "re"), &std::fclose);
  if (!file)
    return system_error(errno, path, "name a file like /etc/twinblock/r0.toml that you may read");
  std::string text(kFileBytesMax + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) return system_error(errno, path);
  if (text.size() > kFileBytesMax)
    return Error{path + ": longer than 1 MiB", "is this a twinblock configuration?"};
  return parse_config(text, path);
}

}  // namespace twinblock
