// The pure pieces of a volume: progress, the table of requests at the peer, the hello.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <vector>

#include "session/control_stream.h"
#include "session/hello.h"
#include "volume/own_set.h"
#include "session/link.h"
#include "session/peer_requests.h"
#include "volume/progress.h"
#include "volume/settings.h"
#include "session/stranger_log.h"

namespace twinblock {
namespace {

TEST(Progress, GivesARateAfterAWindowAndAnEstimateFromIt) {
  Progress progress;
  EXPECT_FALSE(progress.active());
  progress.begin(100 * kMiB, kSecond_ns);
  EXPECT_TRUE(progress.active());
  EXPECT_EQ(progress.remaining_s(), std::nullopt) << "no ground for an estimate yet";
  progress.update(10 * kMiB, 100 * kMiB, kSecond_ns + 100 * kMillisecond_ns);
  EXPECT_EQ(progress.rate_bytes_per_s(), 0u);
  progress.update(20 * kMiB, 100 * kMiB, 2 * kSecond_ns);
  EXPECT_EQ(progress.rate_bytes_per_s(), 20 * kMiB);
  EXPECT_EQ(progress.remaining_s(), 4u);
  EXPECT_DOUBLE_EQ(progress.percent(), 20.0);
  progress.end(5 * kSecond_ns);
  EXPECT_EQ(progress.duration_ns(), 4 * kSecond_ns);
  EXPECT_EQ(progress.remaining_s(), std::nullopt);
}

TEST(Progress, OfNothingIsComplete) {
  Progress progress;
  progress.begin(0, 1);
  EXPECT_DOUBLE_EQ(progress.percent(), 100.0);
}

// Client writes go on during a resync: less may be done, or more be left, than a moment ago.
TEST(Progress, GoesBackWithoutNonsense) {
  Progress progress;
  progress.begin(100, 0);
  progress.update(80, 100, kSecond_ns);
  progress.update(30, 100, 2 * kSecond_ns);
  EXPECT_LE(progress.rate_bytes_per_s(), 1000u);
  progress.update(120, 100, 3 * kSecond_ns);
  const auto remaining = progress.remaining_s();
  if (remaining) {
    EXPECT_LE(*remaining, 1000u);
  }
}

struct Waiter final : PeerRequest {
  void answered(const PeerAnswer&) override {}
};

uint64_t ask(PeerRequests& requests, Waiter& waiter, uint64_t asked_ns) {
  return requests.add(waiter, {wire::to_header(wire::FlushFrame{}), 0, {}, 0}, asked_ns).number;
}

TEST(PeerRequests, FindsEachRequestOnceInAnyOrder) {
  PeerRequests requests;
  std::vector<Waiter> waiters(5);
  std::vector<uint64_t> sequences;
  for (size_t i = 0; i < waiters.size(); ++i) sequences.push_back(ask(requests, waiters[i], i + 1));
  for (const size_t i : {3u, 0u, 4u, 1u}) {
    const PeerRequests::Entry* entry = requests.find(sequences[i]);
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->request, &waiters[i]);
    requests.remove(*entry);
    EXPECT_EQ(requests.find(sequences[i]), nullptr) << "answered twice";
  }
  EXPECT_EQ(requests.oldest_asked_ns(), 3u);
  ASSERT_NE(requests.find(sequences[2]), nullptr);
  requests.remove(*requests.find(sequences[2]));
  EXPECT_TRUE(requests.empty());
}

TEST(PeerRequests, RefusesNumbersThatWereNeverGivenOut) {
  PeerRequests requests;
  Waiter waiter;
  EXPECT_EQ(requests.find(0), nullptr);
  EXPECT_EQ(requests.find(1), nullptr);
  const uint64_t sequence = ask(requests, waiter, 0);
  EXPECT_EQ(requests.find(sequence + 1), nullptr);
  EXPECT_EQ(requests.find(~uint64_t{0}), nullptr);
  EXPECT_EQ(requests.find(0), nullptr);
}

TEST(PeerRequests, NumbersOfALostSessionMeanNothingInTheNext) {
  PeerRequests requests;
  Waiter old_waiter, new_waiter;
  const uint64_t old_sequence = ask(requests, old_waiter, 0);
  requests.clear();
  EXPECT_TRUE(requests.empty());
  const uint64_t new_sequence = ask(requests, new_waiter, 0);
  EXPECT_NE(new_sequence, old_sequence);
  EXPECT_EQ(requests.find(old_sequence), nullptr);
  ASSERT_NE(requests.find(new_sequence), nullptr);
  EXPECT_EQ(requests.find(new_sequence)->request, &new_waiter);
}

TEST(PeerRequests, KnowsWhichAConnectionCarried) {
  PeerRequests requests;
  const Link link({}, {}, LinkPatience(1, 1));
  std::vector<Waiter> waiters(4);
  for (size_t i = 0; i < waiters.size(); ++i)
    requests.put_over(*requests.find(ask(requests, waiters[i], 0)), link, i % 2, 0, {});
  requests.remove(*requests.find(2));
  std::vector<uint64_t> seen;
  requests.each_on(1, [&](const PeerRequests::Entry& entry) { seen.push_back(entry.number); });
  EXPECT_EQ(seen, std::vector<uint64_t>{4});
}

// Keeps what is sent.
struct Sink final : Connection {
  void set_handler(ConnectionHandler*) override {}
  size_t read(std::span<std::byte>) override { return 0; }
  void send(std::span<const std::byte> head, std::span<const std::byte>) override {
    wire::FrameHeader header;
    std::memcpy(&header, head.data(), sizeof header);
    numbers.push_back(header.aux1);
  }
  void pause_reading(bool) override {}
  [[nodiscard]] uint64_t queued_bytes_total() const override { return 0; }
  [[nodiscard]] uint64_t sent_bytes_total() const override { return 0; }
  [[nodiscard]] std::string peer_address() const override { return ""; }
  std::vector<uint64_t> numbers;
};

using Numbers = std::vector<uint64_t>;

TEST(ControlStream, SendsAgainWhatThePeerMayNotHave) {
  ControlStream stream;
  Sink first, second;
  const wire::FrameHeader role = wire::header_of(wire::FrameType::kRole);
  stream.send(role, {}, &first);
  stream.send(role, {}, &first);
  stream.send(role, {}, nullptr);
  EXPECT_EQ(first.numbers, (Numbers{1, 2}));
  EXPECT_TRUE(stream.peer_has(1));
  stream.attach(second);
  EXPECT_EQ(second.numbers, (Numbers{2, 3}));
  EXPECT_TRUE(stream.peer_has(3));
  Sink third;
  stream.attach(third);
  EXPECT_TRUE(third.numbers.empty());
  EXPECT_FALSE(stream.peer_has(4)) << "it was sent three";
}

TEST(ControlStream, TakesEachOnceAndInOrder) {
  ControlStream stream;
  wire::FrameHeader role = wire::header_of(wire::FrameType::kRole);
  role.aux1 = 1;
  EXPECT_EQ(stream.arrived(role), ControlStream::Arrival::kNext);
  EXPECT_EQ(stream.arrived(role), ControlStream::Arrival::kRepeated);
  role.aux1 = 3;
  EXPECT_EQ(stream.arrived(role), ControlStream::Arrival::kGap);
  role.aux1 = 2;
  EXPECT_EQ(stream.arrived(role), ControlStream::Arrival::kNext);
  EXPECT_EQ(stream.received(), 2u);
}

TEST(Generation, IsCarriedWhole) {
  metadata::Generations generations;
  generations.current = 5;
  generations.base = 4;
  for (size_t i = 0; i < generations.history.size(); ++i) generations.history[i] = 10 + i;
  metadata::Uuid uuid;
  uuid.fill(7);
  const wire::GenerationPayload payload =
      make_generation(generations, uuid, wire::kGenerationConsistent);
  EXPECT_EQ(generations_of(payload), generations);
  EXPECT_TRUE(std::equal(uuid.begin(), uuid.end(), payload.volume_uuid));
  EXPECT_EQ(payload.flags, wire::kGenerationConsistent);
  EXPECT_EQ(payload.reserved, 0u);
}

// A control stream whose peer takes what it is told when the test says so.
struct TakenLater {
  OwnSet::Stream stream() {
    return {[this](const wire::DirtyFrame& chunk, std::span<const std::byte> bits) {
              control.send(wire::to_header(chunk), bits, nullptr);
              most_bytes = std::max(most_bytes, control.kept_bytes());
              EXPECT_TRUE(received.merge_chunk({chunk.offset_bytes, chunk.length_bytes, bits}));
              ++sent;
            },
            [this] { return control.kept_bytes(); }};
  }
  ControlStream control;
  BlockMap received;
  uint64_t most_bytes = 0;
  uint64_t sent = 0;
};

// All at once was 4 GiB for a volume of 64 TiB.
TEST(OwnSet, IsToldAsThePeerTakesItAndWhole) {
  constexpr uint64_t kVolume = 2 * kTiB;
  BlockMap set(kVolume);
  for (uint64_t at = 0; at < kVolume; at += BlockMap::kChunkBytes) set.set(at + kMiB, 1);
  TakenLater peer{{}, BlockMap(kVolume)};
  OwnSet own_set(set, peer.stream());
  own_set.begin();
  bool told = false;
  own_set.when_told([&told] { told = true; });
  while (!told) {
    const uint64_t before = peer.sent;
    ASSERT_TRUE(peer.control.peer_has(before));
    own_set.go_on();
    ASSERT_TRUE(told || peer.sent > before) << "it stands still";
  }
  EXPECT_LE(peer.most_bytes, limits::kControlBytesMax + 8 * kKiB);
  EXPECT_EQ(peer.sent, kVolume / BlockMap::kChunkBytes);
  EXPECT_EQ(peer.received.set_blocks(), set.set_blocks());
}

TEST(OwnSet, OfNothingIsToldAtOnceAndThatOfALostSessionNever) {
  BlockMap set(kTiB);
  TakenLater peer{{}, BlockMap(kTiB)};
  OwnSet own_set(set, peer.stream());
  int told = 0;
  own_set.begin();
  own_set.when_told([&told] { ++told; });
  EXPECT_EQ(told, 1);
  for (uint64_t at = 0; at < kTiB; at += BlockMap::kChunkBytes) set.set(at, 1);
  own_set.begin();
  own_set.when_told([&told] { ++told; });
  own_set.session_lost();
  EXPECT_TRUE(peer.control.peer_has(peer.sent));
  own_set.go_on();
  EXPECT_EQ(told, 1);
}

Config sample_config() {
  Config config;
  config.volume = "r0";
  config.size_bytes = kMiB;
  config.nodes = {{"alpha", "/a", "/am", "/run"}, {"beta", "/b", "/bm", "/run"}};
  return config;
}

wire::HelloPayload hello_from_beta(const Config& config, const SyncFacts& facts = {}) {
  return make_hello(config, "beta", "main", {}, facts, config.size_bytes, true);
}

TEST(Hello, BringsEveryFactAcross) {
  const Config config = sample_config();
  const std::vector<bool SyncFacts::*> fields{
      &SyncFacts::blank,       &SyncFacts::joinable,     &SyncFacts::primary,
      &SyncFacts::crashed,     &SyncFacts::backing_lost, &SyncFacts::inconsistent,
      &SyncFacts::disk_failed, &SyncFacts::dirty,        &SyncFacts::map_valid,
      &SyncFacts::discard,     &SyncFacts::keep,         &SyncFacts::rebooted,
      &SyncFacts::flush_failed, &SyncFacts::forgot};
  for (size_t bit = 0; bit < fields.size(); ++bit) {
    SyncFacts facts;
    facts.*fields[bit] = true;
    facts.volume_uuid.fill(7);
    facts.generations.current = 5;
    facts.generations.base = 4;
    facts.generations.history[7] = 3;
    facts.term = 6;
    facts.dirty_bytes = 4096;
    facts.since_s = 1700000000;
    facts.boot = 11;
    facts.peer_instance = 12;
    facts.peer_boot = 13;
    facts.state_id = 8;
    facts.gives_up = 9;
    const SyncFacts heard = facts_of(hello_from_beta(config, facts), true);
    EXPECT_TRUE(same_facts(facts, heard)) << bit;
    EXPECT_TRUE(heard.preferred);
    for (const auto field : fields) EXPECT_EQ(heard.*field, field == fields[bit]) << bit;
    EXPECT_EQ(heard.term, 6u);
    EXPECT_EQ(heard.dirty_bytes, 4096u);
    EXPECT_EQ(heard.since_s, 1700000000u);
    EXPECT_EQ(heard.boot, 11u);
    EXPECT_EQ(heard.peer_instance, 12u);
    EXPECT_EQ(heard.peer_boot, 13u);
    EXPECT_EQ(heard.state_id, 8u);
    EXPECT_EQ(heard.gives_up, 9u);
  }
}

// They are the protocol's: the other node may run another build.
TEST(Hello, EachFlagHasItsBit) {
  const std::vector<std::pair<bool SyncFacts::*, uint32_t>> bits{
      {&SyncFacts::blank, 1},          {&SyncFacts::joinable, 2},     {&SyncFacts::primary, 4},
      {&SyncFacts::crashed, 8},        {&SyncFacts::inconsistent, 16}, {&SyncFacts::disk_failed, 32},
      {&SyncFacts::dirty, 64},         {&SyncFacts::map_valid, 128},  {&SyncFacts::discard, 512},
      {&SyncFacts::keep, 1024},        {&SyncFacts::backing_lost, 2048}, {&SyncFacts::rebooted, 4096},
      {&SyncFacts::flush_failed, 8192}, {&SyncFacts::forgot, 16384},  {&SyncFacts::resumes, 32768},
      {&SyncFacts::consented, 65536},  {&SyncFacts::asks_register, 131072}, {&SyncFacts::asks_command, 262144},
      {&SyncFacts::other_backing, 524288}};
  for (const auto& [field, bit] : bits) {
    SyncFacts facts;
    facts.*field = true;
    for (const bool fast_zero : {false, true}) {
      const wire::HelloPayload hello = make_hello(sample_config(), "beta", "main", {}, facts, kMiB, fast_zero);
      uint32_t flags = 0;
      std::memcpy(&flags, wire::bytes_of(hello).data() + 4, sizeof flags);
      EXPECT_EQ(flags, bit | (fast_zero ? 256 : 0));
    }
  }
}

// Else `twinblock probe` warns of this host's port and of its errors only.
TEST(Hello, AProbeHearsAllOfThePeersHost) {
  constexpr std::array kNumbers{
      &LinkHost::rate_bits_per_s, &LinkHost::receive_buffer_max_bytes, &LinkHost::send_buffer_max_bytes,
      &LinkHost::receive_errors,  &LinkHost::send_errors,              &LinkHost::dropped,
      &LinkHost::collisions};
  LinkHost host;
  for (size_t i = 0; i < kNumbers.size(); ++i) host.*kNumbers[i] = (i + 1) << 32;
  host.interface = "eth7";
  host.congestion = "cubic";
  host.mtu_bytes = 9000;
  host.half_duplex = true;
  const LinkHost heard = probe_host_of(make_probe_host(host));
  for (size_t i = 0; i < kNumbers.size(); ++i) EXPECT_EQ(heard.*kNumbers[i], (i + 1) << 32) << i;
  EXPECT_EQ(heard.interface, "eth7");
  EXPECT_EQ(heard.congestion, "cubic");
  EXPECT_EQ(heard.mtu_bytes, 9000u);
  EXPECT_TRUE(heard.half_duplex);
  EXPECT_FALSE(probe_host_of(make_probe_host({})).half_duplex);
}

// What a record calls the peer's process is what that process says of itself.
TEST(Hello, AProcessIsKnownByItsInstance) {
  const metadata::Uuid instance{1, 2, 3, 4, 5, 6, 7, 8, 9};
  const wire::HelloPayload hello = make_hello(sample_config(), "beta", "main", instance, {}, sample_config().size_bytes, true);
  EXPECT_EQ(facts_of(hello, true).instance, instance_number(instance));
  EXPECT_NE(instance_number(instance), 0u);
}

TEST(Hello, EveryFactThatDecidesMakesItADifferentOne) {
  const std::vector<std::function<void(SyncFacts&)>> changes{
      [](auto& f) { f.blank = true; },        [](auto& f) { f.joinable = true; },
      [](auto& f) { f.primary = true; },      [](auto& f) { f.crashed = true; },
      [](auto& f) { f.backing_lost = true; }, [](auto& f) { f.inconsistent = true; },
      [](auto& f) { f.disk_failed = true; },  [](auto& f) { f.dirty = true; },
      [](auto& f) { f.map_valid = true; },    [](auto& f) { f.discard = true; },
      [](auto& f) { f.keep = true; },         [](auto& f) { f.term = 1; },
      [](auto& f) { f.volume_uuid[3] = 1; },  [](auto& f) { f.generations.base = 1; },
      [](auto& f) { f.rebooted = true; },     [](auto& f) { f.peer_instance = 1; },
      [](auto& f) { f.peer_boot = 1; },
      [](auto& f) { f.gives_up = 1; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    SyncFacts facts;
    changes[i](facts);
    EXPECT_FALSE(same_facts(SyncFacts{}, facts)) << i;
  }
}

// They change with every write: a handshake that they broke off would never end.
TEST(Hello, WhatIsOnlyToldToUsersMakesNoDifference) {
  SyncFacts facts;
  facts.dirty_bytes = 1;
  facts.since_s = 2;
  facts.state_id = 3;
  EXPECT_TRUE(same_facts(SyncFacts{}, facts));
}

TEST(Hello, OfTheSamePairFits) {
  const Config config = sample_config();
  const HelloMismatch mismatch = compare_hello(hello_from_beta(config), config, "alpha", config.size_bytes);
  EXPECT_EQ(mismatch.for_us, "");
  EXPECT_EQ(mismatch.for_peer, "");
}

TEST(Hello, EachMismatchIsNamedOnBothSides) {
  const Config config = sample_config();
  const std::vector<std::pair<const char*, std::function<void(wire::HelloPayload&)>>> cases{
      {"protocol version", [](auto& h) { h.version_min = h.version_max = 9; }},
      {"volume's name", [](auto& h) { wire::set_name(h.volume, "r1"); }},
      {"volume's size", [](auto& h) { h.size_bytes += 4096; }},
      {"name of the peer", [](auto& h) { wire::set_name(h.node, "gamma"); }},
      {"name of this node", [](auto& h) { wire::set_name(h.peer, "gamma"); }},
      {"features", [](auto& h) { h.features = 1; }},
      {"flags", [](auto& h) { h.flags |= uint32_t{1} << 31; }},
      {"a name that does not end", [](auto& h) { h.link[40] = 'x'; }},
  };
  for (const auto& [what, change] : cases) {
    wire::HelloPayload hello = hello_from_beta(config);
    change(hello);
    const HelloMismatch mismatch = compare_hello(hello, config, "alpha", config.size_bytes);
    EXPECT_NE(mismatch.for_us.find(what), std::string::npos) << mismatch.for_us;
    EXPECT_NE(mismatch.for_peer, "") << what;
  }
}

Config config_with_links() {
  Config config = sample_config();
  config.peer_timeout_ns = 5 * kSecond_ns;
  config.links = {{"main", {{"alpha", "10.0.0.1:7700"}, {"beta", "10.0.0.2:7700"}}, 0},
                  {"backup", {{"alpha", "10.1.0.1:7700"}, {"beta", "10.1.0.2:7700"}}, kGiB}};
  return config;
}

TEST(Settings, OfTheSameFileDoNotDiffer) {
  const Config config = config_with_links();
  EXPECT_EQ(compare_settings(make_settings(config), config), "");
}

TEST(Settings, EachDifferenceIsNamed) {
  const std::vector<std::pair<const char*, std::function<void(Config&)>>> cases{
      {"peer_timeout (5.00 s here, 6.00 s there)",
       [](auto& c) { c.peer_timeout_ns = 6 * kSecond_ns; }},
      {"link_timeout (", [](auto& c) { c.link_timeout_ns = 7 * kSecond_ns; }},
      {"disk_timeout (", [](auto& c) { c.disk_timeout_ns = 7 * kSecond_ns; }},
      {"on_peer_loss (continue here, freeze there)",
       [](auto& c) { c.on_peer_loss = OnPeerLoss::kFreeze; }},
      {"witness (none here, etcd there)", [](auto& c) { c.witness.kind = WitnessKind::kEtcd; }},
      {"compression (off here, on, level 1 there)",
       [](auto& c) { c.compression = Compression::kOn; }},
      {"link backup (only here)", [](auto& c) { c.links.pop_back(); }},
      {"link third (only there)",
       [](auto& c) {
         c.links.push_back(c.links[0]);
         c.links.back().name = "third";
       }},
      {"beta's address of link main (10.0.0.2:7700 here, 10.0.0.3:7700 there)",
       [](auto& c) { c.links[0].address["beta"] = "10.0.0.3:7700"; }},
      {"the rate of link main (none here, 1000 bit/s there)",
       [](auto& c) { c.links[0].rate_bits_per_s = 1000; }},
  };
  const Config here = config_with_links();
  for (const auto& [what, change] : cases) {
    Config there = here;
    change(there);
    const std::string said = compare_settings(make_settings(there), here);
    EXPECT_NE(said.find(what), std::string::npos) << what << ": " << said;
    EXPECT_EQ(said.find("), "), std::string::npos) << "only that: " << said;
  }
}

TEST(Settings, AnotherLevelOfCompressionIsOne) {
  Config here = config_with_links();
  here.compression = Compression::kOn;
  Config there = here;
  there.compression_level = 3;
  EXPECT_EQ(compare_settings(make_settings(there), here), "compression (on, level 1 here, on, level 3 there)");
}

TEST(Settings, WhateverThePeerSendsIsCompared) {
  wire::SettingsPayload payload;
  std::memset(&payload, 0xFF, sizeof payload);
  const std::string said = compare_settings(payload, config_with_links());
  EXPECT_NE(said.find("only there"), std::string::npos);
  EXPECT_TRUE(std::all_of(said.begin(), said.end(), [](char c) { return c >= ' ' && c <= '~'; }));
}

struct Lines final : Log {
  void log(Severity, const std::string& line) override { lines.push_back(line); }
  std::vector<std::string> lines;
};

TEST(StrangerLog, CountsWhatComesAgain) {
  Lines log;
  StrangerLog strangers(log);
  for (uint64_t i = 0; i < 1000; ++i)
    strangers.tell("10.0.0.2:" + std::to_string(i), "sent nonsense", kSecond_ns + i);
  strangers.tell("10.0.0.2:7", "was closed", kSecond_ns);
  EXPECT_EQ(log.lines,
            (std::vector<std::string>{"10.0.0.2:0 sent nonsense", "10.0.0.2:7 was closed"}));
  log.lines.clear();
  strangers.tick(kSecond_ns + limits::kStrangerInterval_ns);
  ASSERT_EQ(log.lines.size(), 1u);
  EXPECT_EQ(log.lines[0], "10.0.0.2:999 sent nonsense: 999 more in the last 10.00 s");
  log.lines.clear();
  strangers.tick(kSecond_ns + 3 * limits::kStrangerInterval_ns);
  EXPECT_TRUE(log.lines.empty());
  strangers.tell("10.0.0.2:1", "sent nonsense", kSecond_ns + 3 * limits::kStrangerInterval_ns);
  EXPECT_EQ(log.lines.size(), 1u) << "it is news again";
}

TEST(StrangerLog, ReasonsWithoutEndAreOne) {
  Lines log;
  StrangerLog strangers(log);
  for (uint64_t i = 0; i < 1000; ++i)
    strangers.tell("10.0.0.2:1", "sent " + std::to_string(i), kSecond_ns);
  EXPECT_LE(log.lines.size(), limits::kStrangerReasonsMax + 1);
}

TEST(Hello, ANodeThatTalksToItselfIsRefused) {
  const Config config = sample_config();
  const wire::HelloPayload own = make_hello(config, "alpha", "main", {}, {}, config.size_bytes, false);
  EXPECT_NE(compare_hello(own, config, "alpha", config.size_bytes).for_us, "");
}

}  // namespace
}  // namespace twinblock
