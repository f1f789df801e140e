// The configuration file (TOML), identical on both hosts: parsed and checked in full before
// anything starts. Start-up code only; the result is immutable.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/copy_ways.h"
#include "base/result.h"
#include "config/address.h"

namespace twinblock {

// Whether what is read and written goes through the kernel's page cache.
enum class BackingIo { kBuffered, kDirect };

struct NodeConfig {
  std::string name;
  std::string backing;   // absolute path of a file or block device
  std::string metadata;  // absolute path of a file or block device
  std::string runtime;   // directory of the sockets; empty in the file: the default was filled in
  BackingIo backing_io = BackingIo::kBuffered;
};

struct LinkConfig {
  std::string name;
  std::map<std::string, std::string> address;  // node name -> numeric "IP:port"
  uint64_t rate_bits_per_s = 0;                // nominal; 0: not given
};

enum class OnPeerLoss { kContinue, kFreeze };
// What a node does that was primary when its process ended (volume/resumption.h).
enum class OnRestart { kResume, kSecondary };
enum class Compression { kOff, kOn, kAuto };
enum class Encryption { kTls, kOff };
enum class WitnessKind { kNone, kEtcd, kCommand };
// As the file says it; "none" without one.
constexpr const char* witness_kind_name(WitnessKind kind) {
  return kind == WitnessKind::kEtcd ? "etcd" : kind == WitnessKind::kCommand ? "command" : "none";
}

// Who is asked before a node goes on without its peer: [witness] (io/witness.h).
struct WitnessConfig {
  WitnessKind kind = WitnessKind::kNone;
  // kEtcd. Tried in turn, beginning with the one that answered last.
  std::vector<std::string> endpoints;  // "http://HOST:PORT" or "https://HOST:PORT"
  std::string user;                    // empty: without authentication
  std::string password_file;           // absolute paths; empty: none
  std::string ca_file;                 // … of PEM files, for https
  std::string certificate_file;
  std::string certificate_key_file;
  // kCommand: an absolute path; it is run without arguments.
  std::string command;
  uint64_t timeout_ns = 0;  // of one question to etcd, or of one run of the command

  bool operator==(const WitnessConfig&) const = default;
};

// What a resync does whose way back can't be kept.
enum class OnNoWayBack { kGoOn, kWait };

struct Config {
  std::string path;
  std::string volume;
  uint64_t size_bytes = 0;
  std::vector<NodeConfig> nodes;  // exactly two, sorted by name
  std::vector<LinkConfig> links;  // 1 to 8, in the order of the file
  // Of every link, by TLS: with the key that is in the file `key`, or not at all where there is none
  // (link_protection.h says which links may be without).
  Encryption encryption = Encryption::kTls;
  std::string key;  // absolute path; empty: none
  Compression compression = Compression::kOff;
  int compression_level = 1;
  uint64_t peer_timeout_ns = 0;
  // A link that is silent for this long is given up, and its requests sent over another one. Less
  // than peer_timeout_ns.
  uint64_t link_timeout_ns = 0;
  uint64_t disk_timeout_ns = 0;  // a peer that is alive but does not answer a request for this long
  OnPeerLoss on_peer_loss = OnPeerLoss::kContinue;
  OnRestart on_restart = OnRestart::kResume;
  // The links' TCP congestion control by its kernel's name (tcp(7)); "system": the host's own.
  // Empty, where the file does not say: kCongestionDefault.
  std::string congestion;
  WitnessConfig witness;
  // [copies]: how copies of the backing are taken (io/copies.h); no way back is kept without before_resync.
  CopyWays copies;
  OnNoWayBack on_no_way_back = OnNoWayBack::kGoOn;
  // What the cache of reads may take of memory in all (cache/content_cache.h); 0: there is none.
  uint64_t cache_bytes = 0;
  // Where the peer's operator may let links lead, beside what the links above say (link_orders.h).
  std::vector<IpNetwork> allow_links;
  // "FILE:LINE: what; to do: …": what earlier versions read and this one does without.
  std::vector<std::string> warnings;

  [[nodiscard]] const NodeConfig& node(const std::string& name) const;   // must exist
  [[nodiscard]] const NodeConfig& other(const std::string& name) const;  // the peer of `name`
  [[nodiscard]] bool has_node(const std::string& name) const;
  [[nodiscard]] bool encrypted() const { return encryption == Encryption::kTls && !key.empty(); }
};

// Reads and checks `path`. Errors read "FILE:LINE: what; what to do": syntax, unknown or missing
// keys and tables, wrong types, sizes that are zero, not a multiple of 4 KiB or too large, not two
// nodes, a link without an address for each node, equal addresses, names that are not
// [A-Za-z0-9_.-]{1,63}.
Result<Config> load_config(const std::string& path);

// As load_config, from memory; `path` is for messages.
Result<Config> parse_config(const std::string& text, const std::string& path);

// A link that is not from the file, checked as one of the file would be but for the other links:
// `addresses` by node, empty (for a link that the file names) or one for each of `nodes`; `rate` as
// in the file, empty when it is not given.
Result<LinkConfig> make_link(const std::string& name,
                             const std::map<std::string, std::string>& addresses,
                             const std::string& rate, const std::vector<std::string>& nodes);

// "off", "on", "auto": as the file says it.
const char* compression_name(Compression mode);
std::optional<Compression> parse_compression(const std::string& text);

// The node to run: `wanted`, or, where that is empty, the one named like the host (whole, or up to
// its first dot).
Result<std::string> choose_node(const Config& config, const std::string& wanted,
                                const std::string& host_name);

// "/run/twinblock" for root, "$XDG_RUNTIME_DIR/twinblock" otherwise ("/tmp/twinblock-UID" without).
std::string default_runtime_dir();
// Whether the directory `path` is in /tmp and there, and could have been made by another user for this one.
bool is_somebody_elses(const std::string& path);

// The sockets of a node: RUNTIME/VOLUME.ctl and RUNTIME/VOLUME.nbd.
std::string control_socket_path(const Config& config, const NodeConfig& node);
std::string nbd_socket_path(const Config& config, const NodeConfig& node);

}  // namespace twinblock
