#include "config/config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/units.h"
#include "config/address.h"
#include "config/link_orders.h"
#include "temporary_directory.h"

namespace twinblock {
namespace {

constexpr const char* kFull = R"(volume = "r0"
size = "10GiB"

[node.beta]
backing = "/srv/r0.img"
metadata = "/var/lib/twinblock/r0.meta"

[node.alpha]
backing = "/srv/r0.img"
metadata = "/var/lib/twinblock//x/../r0.meta"
runtime = "/run/tb/alpha/"

[link.fast]
alpha = "10.10.0.1:7700"
beta  = "10.10.0.2:7700"
rate  = "10Gbit"

[link.backup]
alpha = "[fd00:0::1]:7700"
beta  = "[fd00::2]:7700"

[replication]
compression = "auto"
level = 3
peer_timeout = "2s"
link_timeout = "300ms"
disk_timeout = "1min"
on_peer_loss = "freeze"
congestion = "bbr"
allow_links = ["10.30.0.0/24", "fd00:1::/64"]
)";

// Two nodes on one host; `replace` is put in the place of `what`.
std::string small(const std::string& what = "", const std::string& replace = "") {
  std::string text = R"(volume = "r0"
size = "1GiB"
[node.alpha]
backing = "/a/r0.img"
metadata = "/a/r0.meta"
runtime = "/a/run"
[node.beta]
backing = "/b/r0.img"
metadata = "/b/r0.meta"
runtime = "/b/run"
[link.main]
alpha = "127.0.0.1:7701"
beta = "127.0.0.1:7702"
)";
  if (!what.empty()) text.replace(text.find(what), what.size(), replace);
  return text;
}

std::string error_of(const std::string& text) {
  const Result<Config> config = parse_config(text, "f.toml");
  return config.ok() ? "no error" : config.error().what;
}

// The error begins with its line and contains `part`.
void expect_error(const std::string& text, int line, const std::string& part) {
  const std::string error = error_of(text);
  EXPECT_TRUE(error.starts_with("f.toml:" + std::to_string(line) + ": ")) << error << "\n" << text;
  EXPECT_NE(error.find(part), std::string::npos) << error << "\nshould contain: " << part;
}

TEST(Config, ReadsEveryKey) {
  const Result<Config> result = parse_config(kFull, "f.toml");
  ASSERT_TRUE(result.ok()) << result.error().what;
  const Config& config = result.value();
  EXPECT_EQ(config.path, "f.toml");
  EXPECT_EQ(config.volume, "r0");
  EXPECT_EQ(config.size_bytes, 10 * kGiB);
  ASSERT_EQ(config.nodes.size(), 2u);
  EXPECT_EQ(config.nodes[0].name, "alpha");
  EXPECT_EQ(config.nodes[1].name, "beta");
  EXPECT_EQ(config.nodes[0].backing, "/srv/r0.img");
  EXPECT_EQ(config.nodes[0].metadata, "/var/lib/twinblock/r0.meta");
  EXPECT_EQ(config.nodes[0].runtime, "/run/tb/alpha");
  EXPECT_EQ(config.nodes[1].runtime, default_runtime_dir());
  ASSERT_EQ(config.links.size(), 2u);
  EXPECT_EQ(config.links[0].name, "fast");
  EXPECT_EQ(config.links[0].address.at("alpha"), "10.10.0.1:7700");
  EXPECT_EQ(config.links[0].rate_bits_per_s, 10'000'000'000u);
  EXPECT_EQ(config.links[1].name, "backup");
  EXPECT_EQ(config.links[1].address.at("alpha"), "[fd00::1]:7700");
  EXPECT_EQ(config.links[1].rate_bits_per_s, 0u);
  EXPECT_EQ(config.compression, Compression::kAuto);
  EXPECT_EQ(config.compression_level, 3);
  EXPECT_EQ(config.peer_timeout_ns, 2 * kSecond_ns);
  EXPECT_EQ(config.link_timeout_ns, 300 * kMillisecond_ns);
  EXPECT_EQ(config.disk_timeout_ns, 60 * kSecond_ns);
  EXPECT_EQ(config.on_peer_loss, OnPeerLoss::kFreeze);
  EXPECT_EQ(config.congestion, "bbr");
  ASSERT_EQ(config.allow_links.size(), 2u);
  EXPECT_TRUE(config.allow_links[0].contains(parse_address("10.30.0.9:1").value()));
  EXPECT_FALSE(config.allow_links[0].contains(parse_address("10.30.1.9:1").value()));
  EXPECT_TRUE(config.allow_links[1].contains(parse_address("[fd00:1::9]:1").value()));
  EXPECT_FALSE(config.allow_links[1].contains(parse_address("[fd00:2::9]:1").value()));
}

TEST(Config, FillsInDefaults) {
  const Result<Config> result = parse_config(small(), "f.toml");
  ASSERT_TRUE(result.ok()) << result.error().what;
  const Config& config = result.value();
  EXPECT_EQ(config.compression, Compression::kOff);
  EXPECT_EQ(config.compression_level, 1);
  EXPECT_EQ(config.peer_timeout_ns, 5 * kSecond_ns);
  EXPECT_EQ(config.link_timeout_ns, 500 * kMillisecond_ns);
  EXPECT_EQ(config.disk_timeout_ns, 30 * kSecond_ns);
  EXPECT_EQ(config.on_peer_loss, OnPeerLoss::kContinue);
  EXPECT_EQ(config.congestion, "");
}

TEST(Config, ALinkIsGivenUpBeforeThePeerIs) {
  const auto link_timeout_ns = [](const std::string& keys) {
    const Result<Config> config = parse_config(small() + "[replication]\n" + keys, "f.toml");
    EXPECT_TRUE(config.ok()) << keys << ": " << config.error().what;
    return config.ok() ? config.value().link_timeout_ns : 0;
  };
  EXPECT_EQ(link_timeout_ns("level = 1\n"), 500 * kMillisecond_ns);
  EXPECT_EQ(link_timeout_ns("link_timeout = \"4999ms\"\n"), 4999 * kMillisecond_ns);
  EXPECT_EQ(link_timeout_ns("peer_timeout = \"400ms\"\n"), 200 * kMillisecond_ns)
      << "where it is not given it follows";
  EXPECT_EQ(link_timeout_ns("peer_timeout = \"200ms\"\nlink_timeout = \"100ms\"\n"),
            100 * kMillisecond_ns);
  EXPECT_EQ(link_timeout_ns("link_timeout = \"60s\"\npeer_timeout = \"61s\"\n"), 60 * kSecond_ns);
}

TEST(Config, FindsNodesAndSockets) {
  const Result<Config> result = parse_config(small(), "f.toml");
  ASSERT_TRUE(result.ok()) << result.error().what;
  const Config& config = result.value();
  EXPECT_TRUE(config.has_node("beta"));
  EXPECT_FALSE(config.has_node("gamma"));
  EXPECT_EQ(config.node("beta").backing, "/b/r0.img");
  EXPECT_EQ(config.other("beta").name, "alpha");
  EXPECT_EQ(config.other("alpha").name, "beta");
  EXPECT_EQ(control_socket_path(config, config.node("alpha")), "/a/run/r0.ctl");
  EXPECT_EQ(nbd_socket_path(config, config.node("beta")), "/b/run/r0.nbd");
}

TEST(Config, ChoosesTheNodeByNameThenByHost) {
  const Config config = parse_config(small(), "f.toml").value();
  EXPECT_EQ(choose_node(config, "beta", "alpha").value(), "beta");
  EXPECT_EQ(choose_node(config, "", "alpha").value(), "alpha");
  EXPECT_EQ(choose_node(config, "", "beta.example.org").value(), "beta");
  const Result<std::string> wrong = choose_node(config, "gamma", "alpha");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().what, "f.toml: there is no node 'gamma'");
  EXPECT_EQ(wrong.error().action, "its nodes are alpha and beta");
  const Result<std::string> stranger = choose_node(config, "", "host7");
  ASSERT_FALSE(stranger.ok());
  EXPECT_NE(stranger.error().action.find("--node"), std::string::npos);
}

TEST(Config, SaysWhetherADiskIsDirect) {
  const auto ways = [](const std::string& line) {
    const Result<Config> config =
        parse_config(small("backing = \"/b", line + "backing = \"/b"), "f.toml");
    EXPECT_TRUE(config.ok());
    EXPECT_EQ(config.value().nodes[0].backing_io, BackingIo::kBuffered);
    return config.value().nodes[1].backing_io;
  };
  EXPECT_EQ(ways(""), BackingIo::kBuffered);
  EXPECT_EQ(ways("backing_io = \"direct\"\n"), BackingIo::kDirect);
  EXPECT_EQ(ways("backing_io = \"buffered\"\n"), BackingIo::kBuffered);
  expect_error(small("backing = \"/b", "backing_io = \"cached\"\nbacking = \"/b"), 8, "buffered");
}

TEST(ConfigErrors, SyntaxNamesItsLine) {
  expect_error("volume = \"r0\"\nsize = \n", 2, "expected value");
  expect_error(small("size = \"1GiB\"", "volume = \"r1\""), 2, "volume");
  expect_error("", 1, "'volume' is missing in the top level of the file; add volume = \"r0\"");
}

TEST(ConfigErrors, UnknownKeysAndTablesNameTheNearestOrAll) {
  expect_error(small("backing = \"/b", "backng = \"/b"), 8,
               "unknown key 'backng' in [node.beta]; did you mean 'backing'?");
  expect_error(small("runtime = \"/b/run\"", "colour = 3"), 10,
               "unknown key 'colour' in [node.beta]; known here: backing, backing_io, metadata, "
               "runtime");
  expect_error(small() + "[replicaton]\n", 14, "unknown table 'replicaton' in the top level");
  expect_error(small() + "[replication]\nlevle = 3\n", 15, "did you mean 'level'?");
  expect_error(small() + "gamma = \"127.0.0.1:7703\"\n", 14,
               "unknown key 'gamma' in [link.main]; known here: alpha, beta, rate");
  expect_error("sise = \"1GiB\"\nvolum = \"r0\"\n", 1, "did you mean 'size'?");
}

// Who reads it reads it in a terminal or a log.
TEST(ConfigErrors, WhatTheyQuoteBringsNoControlCharacters) {
  expect_error("\"\\u001B[2J\\n\" = 1\n", 1, "unknown key '?[2J?' in the top level");
}

TEST(ConfigErrors, TheVolumeNeedsAName) {
  expect_error(small("volume = \"r0\"\n", ""), 1, "'volume' is missing");
  expect_error(small("\"r0\"", "7"), 1, "'volume' is not a text in quotes; write volume = \"r0\"");
  for (const char* name : {"", "a/b", "a b", "-x", ".x", "ü"})
    expect_error(small("\"r0\"", "\"" + std::string(name) + "\""), 1, "can't be the name");
  expect_error(small("\"r0\"", "\"" + std::string(64, 'x') + "\""), 1, "63");
  EXPECT_EQ(error_of(small("\"r0\"", "\"" + std::string(63, 'x') + "\"")), "no error");
}

TEST(ConfigErrors, TheSizeIsWholeBlocksWithinLimits) {
  expect_error(small("\"1GiB\"", "\"1 gig\""), 2, "'1 gig' is not a size");
  expect_error(small("\"1GiB\"", "\"0\""), 2, "out of range; choose from 64 KiB to 64 TiB");
  expect_error(small("\"1GiB\"", "\"65TiB\""), 2, "out of range");
  expect_error(small("\"1GiB\"", "\"1000001\""), 2,
               "not a multiple of 4096 bytes; the next smaller one is \"999424\"");
  expect_error(small("\"1GiB\"", "1073741824"), 2, "not a text in quotes");
  expect_error(small("size = \"1GiB\"\n", ""), 1, "'size' is missing");
}

TEST(ConfigErrors, ThereAreTwoNodes) {
  expect_error("volume = \"r0\"\nsize = \"1GiB\"\n", 1, "there are 0 [node.NAME] tables");
  expect_error("volume = \"r0\"\nsize = \"1GiB\"\n\n[node.a]\nbacking=\"/b\"\nmetadata=\"/m\"\n", 4,
               "there are 1 [node.NAME] tables");
  expect_error(small() + "[node.gamma]\nbacking=\"/b\"\nmetadata=\"/m\"\n", 14, "remove this one");
  expect_error("volume = \"r0\"\nsize = \"1GiB\"\nnode = 3\n", 3, "'node' is not a table");
  expect_error("volume = \"r0\"\nsize = \"1GiB\"\n[node]\nalpha = 3\n", 4, "not a table");
  expect_error(small("[node.beta]", "[node.rate]"), 7, "can't be called 'rate'");
  expect_error(small("[node.beta]", "[node.\"b c\"]"), 7, "can't be the name of a node");
}

TEST(ConfigErrors, PathsAreAbsoluteAndPresent) {
  expect_error(small("\"/a/r0.img\"", "\"r0.img\""), 4, "'r0.img' is not an absolute path");
  expect_error(small("\"/a/r0.meta\"", "\"./m\""), 5, "not an absolute path");
  expect_error(small("\"/a/run\"", "\"run\""), 6, "not an absolute path");
  expect_error(small("\"/a/r0.img\"", "\"/a\\nb\""), 4, "not an absolute path");
  expect_error(small("backing = \"/a/r0.img\"\n", ""), 3, "'backing' is missing in [node.alpha]");
  expect_error(small("metadata = \"/b/r0.meta\"\n", ""), 7, "'metadata' is missing");
  expect_error(small("\"/a/r0.img\"", "true"), 4, "not a text");
  expect_error(small("\"/a/run\"", "\"/" + std::string(110, 'x') + "\""), 6, "shorter");
}

TEST(Config, AKeyOfAnEarlierVersionIsAWarning) {
  EXPECT_TRUE(parse_config(small(), "f").value().warnings.empty());
  for (const char* value : {"\"127.0.0.1:9777\"", "\"no address\"", "9777"}) {
    const Result<Config> config =
        parse_config(small("runtime = \"/b/run\"", "runtime = \"/b/run\"\nmetrics = " + std::string(value)), "f");
    ASSERT_TRUE(config.ok()) << config.error().what;
    ASSERT_EQ(config.value().warnings.size(), 1u);
    const std::string& warning = config.value().warnings[0];
    EXPECT_EQ(warning.rfind("f:11: 'metrics' in [node.beta] has no effect", 0), 0u) << warning;
    EXPECT_NE(warning.find("to do: enable twinblock-web.service"), std::string::npos) << warning;
    EXPECT_NE(warning.find("remove this line"), std::string::npos) << warning;
  }
}

TEST(Address, ToListenOnIsOneAndAPort) {
  const auto listen = [](const std::string& text) {
    const Result<Address> address = parse_listen_address(text);
    return address ? address.value().text() : address.error().what;
  };
  EXPECT_EQ(listen("127.0.0.1:7780"), "127.0.0.1:7780");
  EXPECT_EQ(listen("7780"), "127.0.0.1:7780") << "a port alone is one of loopback";
  EXPECT_EQ(listen("0.0.0.0:7780"), "0.0.0.0:7780") << "the operator's wish";
  EXPECT_EQ(listen("[::]:7780"), "[::]:7780");
  for (const char* wrong : {"", "localhost:7780", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:99999", "::1:7780", "0", "web"})
    EXPECT_FALSE(parse_listen_address(wrong).ok()) << wrong;
}

TEST(ConfigErrors, OneHostNeedsPathsOfItsOwnForEachNode) {
  expect_error(small("\"/a/r0.meta\"", "\"/a//r0.img\""), 5, "are one path");
  expect_error(small("\"/b/r0.img\"", "\"/a/r0.img\""), 8, "both nodes use '/a/r0.img'");
  expect_error(small("\"/b/r0.img\"", "\"/a/r0.meta\""), 8, "both nodes use '/a/r0.meta'");
  expect_error(small("\"/b/r0.meta\"", "\"/a/r0.meta\""), 9, "both nodes use");
  expect_error(small("\"/b/r0.meta\"", "\"/a/r0.img\""), 9, "both nodes use");
  expect_error(small("\"/b/run\"", "\"/a/x/../run/\""), 10, "for their sockets");
  std::string defaults = small("runtime = \"/a/run\"\n", "");
  defaults.replace(defaults.find("runtime = \"/b/run\"\n"), 19, "");
  expect_error(defaults, 6, "for their sockets");
}

TEST(ConfigErrors, LinksHaveAnAddressForEachNode) {
  const std::string main = "[link.main]\nalpha = \"127.0.0.1:7701\"\nbeta = \"127.0.0.1:7702\"\n";
  expect_error(small(main, ""), 1, "there is no link between the nodes; add [link.main]");
  expect_error(small("beta = \"127.0.0.1:7702\"\n", ""), 11, "'beta' is missing in [link.main]");
  expect_error(small("127.0.0.1:7702", "127.0.0.1"), 13, "has no port");
  expect_error(small("127.0.0.1:7702", "host:7702"), 13, "not a numeric IP");
  expect_error(small("127.0.0.1:7702", "fd00::1:7702"), 13, "without brackets");
  expect_error(small("127.0.0.1:7702", "127.0.0.1:0"), 13, "1 to 65535");
  expect_error(small("127.0.0.1:7702", "127.0.0.1:65536"), 13, "1 to 65535");
  expect_error(small("127.0.0.1:7702", "0.0.0.0:7702"), 13, "can't dial");
  expect_error(small("127.0.0.1:7702", "[::1]:7702"), 13, "same kind");
  expect_error(small("127.0.0.1:7702", "127.0.0.1:7701"), 13,
               "127.0.0.1:7701 is used twice, first in line 12");
  expect_error(small("[link.main]", "[link.\"a/b\"]"), 11, "can't be the name of a link");
}

TEST(ConfigErrors, LinksDoNotShareAnAddress) {
  expect_error(small() + "[link.two]\nalpha = \"127.0.0.1:7701\"\nbeta = \"127.0.0.1:7704\"\n", 15,
               "used twice, first in line 12");
  expect_error(small() + "[link.two]\nalpha = \"127.0.0.1:7705\"\nbeta = \"127.0.0.1:7701\"\n", 16,
               "used twice");
  std::string nine = small();
  for (int i = 1; i <= 8; ++i) {
    const std::string port = std::to_string(8000 + i);
    nine += "[link.l" + port + "]\nalpha = \"127.0.0.2:" + port + "\"\nbeta = \"127.0.0.3:" + port +
            "\"\n";
  }
  expect_error(nine, 35, "more than 8 links");
}

TEST(ConfigErrors, RatesAndReplicationAreChecked) {
  expect_error(small() + "rate = \"fast\"\n", 14, "'fast' is not a rate");
  expect_error(small() + "rate = \"0Gbit\"\n", 14, "not a rate");
  expect_error(small() + "rate = 10\n", 14, "not a text");
  const std::string base = small() + "[replication]\n";
  expect_error(base + "compression = \"yes\"\n", 15,
               "'yes' is not a value of 'compression'; choose \"off\", \"on\" or \"auto\"");
  expect_error(base + "level = 0\n", 15, "not a whole number from 1 to 19");
  expect_error(base + "level = 20\n", 15, "1 to 19");
  expect_error(base + "level = \"3\"\n", 15, "1 to 19");
  expect_error(base + "peer_timeout = \"100ms\"\n", 15, "choose from 200ms to 10min");
  expect_error(base + "peer_timeout = \"11min\"\n", 15, "out of range");
  expect_error(base + "peer_timeout = 5\n", 15, "write peer_timeout = \"5s\"");
  expect_error(base + "link_timeout = \"99ms\"\n", 15, "choose from 100ms to 60s");
  expect_error(base + "peer_timeout = \"10min\"\nlink_timeout = \"61s\"\n", 16, "out of range");
  expect_error(base + "link_timeout = 1\n", 15, "write link_timeout = \"500ms\"");
  expect_error(base + "link_timeout = \"5s\"\n", 15,
               "link_timeout is not less than peer_timeout, which is 5.00 s; choose a quarter");
  expect_error(base + "link_timeout = \"2s\"\npeer_timeout = \"2s\"\n", 15, "not less than");
  expect_error(base + "link_timeuot = \"1s\"\n", 15, "did you mean 'link_timeout'?");
  expect_error(base + "disk_timeout = \"soon\"\n", 15, "'soon' is not a duration");
  expect_error(base + "on_peer_loss = \"panic\"\n", 15, "choose \"continue\" or \"freeze\"");
  expect_error(base + "congestion = \"\"\n", 15, "'' is not the name of a congestion control");
  expect_error(base + "congestion = \"CUBIC\"\n", 15, "tcp_available_congestion_control");
  expect_error(base + "congestion = \"sixteen_letters_\"\n", 15, "'sixteen_letters_' is not");
  expect_error(base + "congestion = 1\n", 15, "write congestion = \"cubic\"");
  expect_error(base + "allow_links = \"10.0.0.0/8\"\n", 15, "not a list of texts");
  expect_error(base + "allow_links = [\"10.0.0.0/8\", 7]\n", 15, "not a list of texts");
  expect_error(base + "allow_links = [\"10.0.0.1/8\"]\n", 15, "is not a network");
  expect_error("replication = 1\n" + small(), 1, "'replication' is not a table");
}

TEST(MakeLink, ChecksALinkAsTheFileDoes) {
  const std::vector<std::string> nodes{"alpha", "beta"};
  const Result<LinkConfig> link =
      make_link("b", {{"alpha", "[FD00:0::1]:80"}, {"beta", "[fd00::2]:80"}}, "1.5Gbit", nodes);
  ASSERT_TRUE(link.ok()) << link.error().what;
  EXPECT_EQ(link.value().name, "b");
  EXPECT_EQ(link.value().address.at("alpha"), "[fd00::1]:80") << "canonical";
  EXPECT_EQ(link.value().rate_bits_per_s, 1'500'000'000u);
  const Result<LinkConfig> named = make_link("main", {}, "", nodes);
  ASSERT_TRUE(named.ok());
  EXPECT_TRUE(named.value().address.empty() && named.value().rate_bits_per_s == 0);

  const std::string here = "10.0.0.1:1";
  const std::vector<std::pair<Result<LinkConfig>, std::string>> wrong{
      {make_link("a b", {}, "", nodes), "'a b' can't be the name of a link"},
      {make_link("", {}, "", nodes), "can't be the name"},
      {make_link("b", {{"alpha", here}}, "", nodes), "no address for beta"},
      {make_link("b", {{"alpha", here}, {"gamma", "10.0.0.2:1"}}, "", nodes), "no node 'gamma'"},
      {make_link("b", {{"alpha", here}, {"beta", "host:1"}}, "", nodes), "not a numeric IP"},
      {make_link("b", {{"alpha", here}, {"beta", "0.0.0.0:1"}}, "", nodes), "can't dial"},
      {make_link("b", {{"alpha", here}, {"beta", here}}, "", nodes), "at both ends"},
      {make_link("b", {{"alpha", here}, {"beta", "[::1]:1"}}, "", nodes), "IPv4 and an IPv6"},
      {make_link("b", {}, "fast", nodes), "'fast' is not a rate"},
      {make_link("b", {}, "1bit", nodes), "'1bit' is not a rate"}};
  for (const auto& [result, part] : wrong) {
    ASSERT_FALSE(result.ok()) << part;
    EXPECT_NE(result.error().what.find(part), std::string::npos) << result.error().what;
    EXPECT_NE(result.error().action, "") << part;
  }
}

TEST(Network, HoldsTheAddressesWithItsBits) {
  const auto in = [](const std::string& network, const std::string& address) {
    const Result<IpNetwork> parsed = IpNetwork::parse(network);
    EXPECT_TRUE(parsed.ok()) << network;
    return parsed.ok() && parsed.value().contains(parse_address(address).value());
  };
  EXPECT_TRUE(in("10.20.0.0/16", "10.20.255.255:1"));
  EXPECT_FALSE(in("10.20.0.0/16", "10.21.0.0:1"));
  EXPECT_TRUE(in("10.20.4.0/22", "10.20.7.1:1"));
  EXPECT_FALSE(in("10.20.4.0/22", "10.20.8.1:1"));
  EXPECT_TRUE(in("10.20.0.1", "10.20.0.1:1"));
  EXPECT_FALSE(in("10.20.0.1", "10.20.0.2:1"));
  EXPECT_TRUE(in("0.0.0.0/0", "10.20.0.2:1"));
  EXPECT_FALSE(in("0.0.0.0/0", "[::1]:1"));
  EXPECT_TRUE(in("fd00:1::/64", "[fd00:1::ffff]:1"));
  EXPECT_FALSE(in("fd00:1::/64", "[fd00:1:0:1::]:1"));
  for (const char* wrong : {"", "/8", "host/8", "10.20.0.0/", "10.20.0.0/33", "10.20.0.0/x",
                            "10.20.0.1/16", "fd00::/129", "10.20.0.0/-1", "10.20.0.0/16/2"}) {
    const Result<IpNetwork> parsed = IpNetwork::parse(wrong);
    ASSERT_FALSE(parsed.ok()) << wrong;
    EXPECT_NE(parsed.error().action, "");
  }
}

LinkConfig link_of(const std::string& name, const std::string& alpha, const std::string& beta) {
  return {name, {{"alpha", alpha}, {"beta", beta}}, 0};
}

// The peer's operator orders it, and this is what beta's file makes of that.
TEST(LinkOrders, LeadOnlyWhereTheFileLetsThem) {
  Config config;
  config.path = "r0.toml";
  config.nodes = {{"alpha", "/a", "/am", "/run"}, {"beta", "/b", "/bm", "/run"}};
  config.links = {link_of("main", "10.1.0.1:7700", "10.1.0.2:7700")};
  const auto may = [&](const LinkConfig& link) {
    const Status allowed = may_be_ordered(link, config, "beta");
    if (!allowed) {
      EXPECT_NE(allowed.error().action, "");
    }
    return allowed.ok();
  };
  EXPECT_TRUE(may(link_of("main", "10.1.0.1:7700", "10.1.0.2:7700")));
  EXPECT_FALSE(may(link_of("main", "10.1.0.1:7700", "10.1.0.2:7701"))) << "not what the file says";
  EXPECT_TRUE(may(link_of("b", "10.1.0.1:1", "10.1.0.2:2"))) << "other ports";
  EXPECT_TRUE(may(link_of("b", "10.1.0.9:1", "10.1.0.2:2"))) << "another host of its network";
  EXPECT_FALSE(may(link_of("b", "10.1.0.1:1", "10.1.0.9:2"))) << "not an address of this node";
  EXPECT_FALSE(may(link_of("b", "10.1.1.1:1", "10.1.0.2:2"))) << "another network";
  EXPECT_FALSE(may(link_of("b", "203.0.113.1:1", "10.1.0.2:2")));
  EXPECT_FALSE(may(link_of("b", "127.0.0.1:1", "127.0.0.1:2")));
  config.allow_links = {IpNetwork::parse("10.2.0.0/16").value()};
  EXPECT_TRUE(may(link_of("b", "10.2.0.1:1", "10.2.0.2:2")));
  EXPECT_TRUE(may(link_of("b", "10.2.0.1:1", "10.1.0.2:2")));
  EXPECT_FALSE(may(link_of("b", "10.3.0.1:1", "10.2.0.2:2")));
  config.links = {link_of("main", "127.0.0.1:7700", "127.0.0.1:7701")};
  EXPECT_TRUE(may(link_of("b", "127.0.9.1:1", "127.0.9.1:2"))) << "two nodes on one host";
  config.allow_links.clear();
  config.links = {link_of("main", "[fd00:1::1]:7700", "[fd00:1::2]:7700")};
  EXPECT_TRUE(may(link_of("b", "[fd00:1::9]:1", "[fd00:1::2]:2"))) << "the same /64";
  EXPECT_FALSE(may(link_of("b", "[fd00:1:0:1::9]:1", "[fd00:1::2]:2"))) << "the next one";
}

TEST(CompressionNames, AreThoseOfTheFile) {
  for (const Compression mode : {Compression::kOff, Compression::kOn, Compression::kAuto})
    EXPECT_EQ(parse_compression(compression_name(mode)), mode);
  EXPECT_STREQ(compression_name(Compression::kAuto), "auto");
  EXPECT_EQ(parse_compression("yes"), std::nullopt);
  EXPECT_EQ(parse_compression(""), std::nullopt);
}

TEST(ConfigFile, AMissingFileIsNamed) {
  const Result<Config> config = load_config("/nonexistent/r0.toml");
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.error().what, "/nonexistent/r0.toml: No such file or directory");
  const Result<Config> of_directory = load_config("/");
  ASSERT_FALSE(of_directory.ok());
  EXPECT_EQ(of_directory.error().what, "/: Is a directory");
}

TEST(ConfigFile, IsReadWhole) {
  const TemporaryDirectory directory;
  const std::string path = directory / "r0.toml";
  std::ofstream(path) << kFull;
  const Result<Config> config = load_config(path);
  EXPECT_TRUE(config.ok());
  EXPECT_EQ(config.value().path, path);
}

TEST(ConfigFile, IsNotReadInPart) {
  const TemporaryDirectory directory;
  const std::string path = directory / "r0.toml";
  std::ofstream(path) << small() << std::string(2 * kMiB, '#') << "\n[nonsense]\n";
  const Result<Config> config = load_config(path);
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.error().what, path + ": longer than 1 MiB");
}

TEST(ConfigPaths, SocketsOfAnOrdinaryUserAreHisOwn) {
  if (geteuid() == 0) {
    EXPECT_EQ(default_runtime_dir(), "/run/twinblock");
    return;
  }
  setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
  EXPECT_EQ(default_runtime_dir(), "/run/user/7/twinblock");
  unsetenv("XDG_RUNTIME_DIR");
  EXPECT_EQ(default_runtime_dir(), "/tmp/twinblock-" + std::to_string(geteuid()));
}

TEST(AddressText, IsCanonical) {
  EXPECT_EQ(parse_address("[FD00:0:0::1]:80").value().text(), "[fd00::1]:80");
  EXPECT_EQ(parse_address("10.0.0.1:65535").value().text(), "10.0.0.1:65535");
  EXPECT_TRUE(parse_address("[::1]:1").value().loopback());
  EXPECT_TRUE(parse_address("127.0.0.9:1").value().loopback());
  EXPECT_FALSE(parse_address("10.0.0.1:1").value().loopback());
}

}  // namespace
}  // namespace twinblock
