// The payloads that say what a node is: the handshake's and that of a generation, from facts to
// bytes and back, and what of a handshake must agree. Pure.
#pragma once

#include <string>

#include "config/config.h"
#include "io/connection.h"
#include "mirror/generation.h"
#include "wire/codec.h"

namespace twinblock {

// Without the nonces, which are the connection's.
wire::HelloPayload make_hello(const Config& config, const std::string& node,
                              const std::string& link, const metadata::Uuid& instance,
                              const SyncFacts& facts, uint64_t volume_bytes, bool fast_zero);

SyncFacts facts_of(const wire::HelloPayload& hello, bool preferred);

// What stands for a process in records and facts: the first 8 bytes of its instance.
uint64_t instance_number(const metadata::Uuid& instance);

// What a host says of its end of a link, in a probe.
wire::ProbeHostPayload make_probe_host(const LinkHost& host);
LinkHost probe_host_of(const wire::ProbeHostPayload& payload);

// A history of generations as a kGeneration frame carries it; `flag` is one of GenerationFlag.
wire::GenerationPayload make_generation(const metadata::Generations& generations,
                                        const metadata::Uuid& volume_uuid, uint32_t flag);
metadata::Generations generations_of(const wire::GenerationPayload& payload);

// What does not fit, as a sentence for each side; both empty when all fits.
struct HelloMismatch {
  std::string for_us;
  std::string for_peer;
};
// `volume_bytes`: this node's.
HelloMismatch compare_hello(const wire::HelloPayload& hello, const Config& config,
                            const std::string& node, uint64_t volume_bytes);

// Whether two statements of one node lead to the same handshake: what is only told to users, and
// changes with every write, does not count. Nor does the state's id, which changes with a primary's
// next write: orders name it, and are not carried out against a primary.
bool same_facts(const SyncFacts& a, const SyncFacts& b);

}  // namespace twinblock
