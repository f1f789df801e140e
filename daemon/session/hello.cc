#include "session/hello.h"

#include <algorithm>
#include <cstring>

#include "base/units.h"
#include "wire/frame_checks.h"

namespace twinblock {
namespace {

struct FlagField {
  wire::HelloFlag flag;
  bool SyncFacts::*field;
};
constexpr FlagField kFlagFields[] = {
    {wire::kHelloBlank, &SyncFacts::blank},
    {wire::kHelloJoinable, &SyncFacts::joinable},
    {wire::kHelloPrimary, &SyncFacts::primary},
    {wire::kHelloCrashed, &SyncFacts::crashed},
    {wire::kHelloInconsistent, &SyncFacts::inconsistent},
    {wire::kHelloDiskFailed, &SyncFacts::disk_failed},
    {wire::kHelloDirty, &SyncFacts::dirty},
    {wire::kHelloMapValid, &SyncFacts::map_valid},
    {wire::kHelloDiscard, &SyncFacts::discard},
    {wire::kHelloKeep, &SyncFacts::keep},
    {wire::kHelloBackingLost, &SyncFacts::backing_lost},
    {wire::kHelloRebooted, &SyncFacts::rebooted},
    {wire::kHelloForgot, &SyncFacts::forgot},
    {wire::kHelloFlushFailed, &SyncFacts::flush_failed},
    {wire::kHelloResumes, &SyncFacts::resumes},
    {wire::kHelloConsented, &SyncFacts::consented},
    {wire::kHelloAsksRegister, &SyncFacts::asks_register},
    {wire::kHelloAsksCommand, &SyncFacts::asks_command},
    {wire::kHelloOtherBacking, &SyncFacts::other_backing},
    {wire::kHelloMovedTogether, &SyncFacts::moved_together},
};

uint32_t known_flags() {
  uint32_t known = wire::kHelloFastZero;
  for (const FlagField& entry : kFlagFields) known |= entry.flag;
  return known;
}

}  // namespace

wire::HelloPayload make_hello(const Config& config, const std::string& node,
                              const std::string& link, const metadata::Uuid& instance,
                              const SyncFacts& facts, uint64_t volume_bytes, bool fast_zero) {
  wire::HelloPayload hello{};
  hello.version_min = wire::kProtocolVersion;
  hello.version_max = wire::kProtocolVersion;
  for (const FlagField& entry : kFlagFields)
    if (facts.*entry.field) hello.flags |= entry.flag;
  if (fast_zero) hello.flags |= wire::kHelloFastZero;
  hello.size_bytes = volume_bytes;
  std::copy(facts.volume_uuid.begin(), facts.volume_uuid.end(), hello.volume_uuid);
  std::copy(instance.begin(), instance.end(), hello.instance);
  hello.generation_current = facts.generations.current;
  hello.generation_base = facts.generations.base;
  std::copy(facts.generations.history.begin(), facts.generations.history.end(),
            hello.generation_history);
  hello.term = facts.term;
  hello.dirty_bytes = facts.dirty_bytes;
  hello.since_s = facts.since_s;
  hello.boot = facts.boot;
  hello.peer_instance = facts.peer_instance;
  hello.peer_boot = facts.peer_boot;
  hello.state_id = facts.state_id;
  hello.gives_up = facts.gives_up;
  std::copy(facts.sessions.stood.begin(), facts.sessions.stood.end(), hello.sessions);
  hello.session_begun = facts.sessions.begun;
  wire::set_name(hello.volume, config.volume);
  wire::set_name(hello.node, node);
  wire::set_name(hello.peer, config.other(node).name);
  wire::set_name(hello.link, link);
  return hello;
}

uint64_t instance_number(const metadata::Uuid& instance) {
  uint64_t number = 0;
  std::memcpy(&number, instance.data(), sizeof number);
  return number;
}

SyncFacts facts_of(const wire::HelloPayload& hello, bool preferred) {
  SyncFacts facts;
  for (const FlagField& entry : kFlagFields) facts.*entry.field = (hello.flags & entry.flag) != 0;
  facts.preferred = preferred;
  std::copy_n(hello.volume_uuid, facts.volume_uuid.size(), facts.volume_uuid.begin());
  facts.generations.current = hello.generation_current;
  facts.generations.base = hello.generation_base;
  std::copy_n(hello.generation_history, wire::kHistoryEntries, facts.generations.history.begin());
  facts.term = hello.term;
  facts.dirty_bytes = hello.dirty_bytes;
  facts.since_s = hello.since_s;
  std::memcpy(&facts.instance, hello.instance, sizeof facts.instance);
  facts.boot = hello.boot;
  facts.peer_instance = hello.peer_instance;
  facts.peer_boot = hello.peer_boot;
  facts.state_id = hello.state_id;
  facts.gives_up = hello.gives_up;
  std::copy_n(hello.sessions, wire::kSessionEntries, facts.sessions.stood.begin());
  facts.sessions.begun = hello.session_begun;
  return facts;
}

wire::ProbeHostPayload make_probe_host(const LinkHost& host) {
  wire::ProbeHostPayload payload{};
  wire::set_name(payload.interface, host.interface);
  wire::set_name(payload.congestion, host.congestion);
  payload.rate_bits_per_s = host.rate_bits_per_s;
  payload.receive_buffer_max = host.receive_buffer_max_bytes;
  payload.send_buffer_max = host.send_buffer_max_bytes;
  payload.receive_errors = host.receive_errors;
  payload.send_errors = host.send_errors;
  payload.dropped = host.dropped;
  payload.collisions = host.collisions;
  payload.mtu = host.mtu_bytes;
  payload.half_duplex = host.half_duplex ? 1 : 0;
  return payload;
}

LinkHost probe_host_of(const wire::ProbeHostPayload& payload) {
  LinkHost host;
  host.interface = wire::get_name(payload.interface);
  host.congestion = wire::get_name(payload.congestion);
  host.rate_bits_per_s = payload.rate_bits_per_s;
  host.receive_buffer_max_bytes = payload.receive_buffer_max;
  host.send_buffer_max_bytes = payload.send_buffer_max;
  host.receive_errors = payload.receive_errors;
  host.send_errors = payload.send_errors;
  host.dropped = payload.dropped;
  host.collisions = payload.collisions;
  host.mtu_bytes = payload.mtu;
  host.half_duplex = payload.half_duplex != 0;
  return host;
}

wire::GenerationPayload make_generation(const metadata::Generations& generations,
                                        const metadata::Uuid& volume_uuid, uint32_t flag) {
  wire::GenerationPayload payload{};
  payload.current = generations.current;
  payload.base = generations.base;
  std::copy(generations.history.begin(), generations.history.end(), payload.history);
  std::copy(volume_uuid.begin(), volume_uuid.end(), payload.volume_uuid);
  payload.flags = flag;
  return payload;
}

metadata::Generations generations_of(const wire::GenerationPayload& payload) {
  metadata::Generations generations;
  generations.current = payload.current;
  generations.base = payload.base;
  std::copy(std::begin(payload.history), std::end(payload.history), generations.history.begin());
  return generations;
}

HelloMismatch compare_hello(const wire::HelloPayload& hello, const Config& config,
                            const std::string& node, uint64_t volume_bytes) {
  const std::string volume = wire::get_name(hello.volume);
  const std::string their_node = wire::get_name(hello.node);
  const std::string their_peer = wire::get_name(hello.peer);
  const std::string expected = config.other(node).name;
  const auto differ = [](const std::string& what, const std::string& ours,
                         const std::string& theirs, const std::string& action) {
    return HelloMismatch{
        what + " differs: " + ours + " here, " + theirs + " at the peer; " + action,
        what + " differs: " + theirs + " at your side, " + ours + " here; " + action};
  };
  const std::string same_file = "use the same configuration file on both nodes";
  const std::string same_version = "run the same version of twinblock on both nodes";
  if (hello.version_min > wire::kProtocolVersion || hello.version_max < wire::kProtocolVersion)
    return differ("the protocol version", std::to_string(wire::kProtocolVersion),
                  std::to_string(hello.version_min) + " to " + std::to_string(hello.version_max),
                  same_version);
  if (hello.features != 0 || (hello.flags & ~known_flags()) != 0)
    return {"the peer's hello has features or flags that this version does not know; " +
                same_version,
            "your hello has features or flags that the version here does not know; " +
                same_version};
  if (!wire::is_padded(hello.volume) || !wire::is_padded(hello.node) ||
      !wire::is_padded(hello.peer) || !wire::is_padded(hello.link))
    return {"the peer's hello has a name that does not end; " + same_version,
            "your hello has a name that does not end; " + same_version};
  if (volume != config.volume)
    return differ("the volume's name", "'" + config.volume + "'", "'" + volume + "'", same_file);
  if (their_node != expected)
    return differ("the name of the peer", "'" + expected + "'", "'" + their_node + "'", same_file);
  if (their_peer != node)
    return differ("the name of this node", "'" + node + "'", "'" + their_peer + "'", same_file);
  // Last: where it is the same volume, and all else fits, the smaller replica grows.
  if (hello.size_bytes != volume_bytes) {
    const bool blank = (hello.flags & wire::kHelloBlank) != 0;
    return differ("the volume's size", format_size(volume_bytes) + " (" + std::to_string(volume_bytes) + ")",
                  format_size(hello.size_bytes) + " (" + std::to_string(hello.size_bytes) + ")",
                  "use the same size in both nodes' files; of a volume that there is already, its own: size = \"" +
                      format_exact_size(blank ? volume_bytes : hello.size_bytes) + "\"");
  }
  return {};
}

bool same_facts(const SyncFacts& a, const SyncFacts& b) {
  return std::all_of(std::begin(kFlagFields), std::end(kFlagFields),
                     [&](const FlagField& entry) { return a.*entry.field == b.*entry.field; }) &&
         a.volume_uuid == b.volume_uuid && a.generations == b.generations && a.term == b.term &&
         a.peer_instance == b.peer_instance && a.peer_boot == b.peer_boot &&
         a.gives_up == b.gives_up && a.sessions == b.sessions;
}

}  // namespace twinblock
