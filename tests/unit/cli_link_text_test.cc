// Links and compression as text.
#include <gtest/gtest.h>

#include <algorithm>

#include "twinblock/link_text.h"

namespace twinblock {
namespace {

using nlohmann::json;

json three_links() {
  return json::parse(R"([
    {"name": "fast", "state": "up", "local": "10.10.0.1:7700", "peer": "10.10.0.2:7700",
     "round_trip_us": 80.5, "nominal_bits_per_s": 10000000000, "measured_bytes_per_s": 1150000000,
     "in_bytes_per_s": 1258291, "out_bytes_per_s": 851443712, "in_bytes": 3221225472,
     "out_bytes": 12884901888, "in_flight_bytes": 4194304, "failovers": 2,
     "last_error": "connection reset by peer", "retry_in_ms": 0},
    {"name": "backup", "state": "down", "local": "10.20.0.1:7700", "peer": "10.20.0.2:7700",
     "round_trip_us": null, "nominal_bits_per_s": 0, "measured_bytes_per_s": 0,
     "in_bytes_per_s": 0, "out_bytes_per_s": 0, "in_bytes": 0, "out_bytes": 0,
     "in_flight_bytes": 0, "failovers": 0, "last_error": "connection refused",
     "retry_in_ms": 250},
    {"name": "spare", "state": "disabled", "local": "10.30.0.1:7700", "peer": "10.30.0.2:7700",
     "round_trip_us": null, "nominal_bits_per_s": 1500000, "failovers": 7, "last_error": "",
     "retry_in_ms": 0}])");
}

bool fits(const std::string& text) {
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (end - begin > 80) return false;
    begin = end + 1;
  }
  return true;
}

TEST(LinksTable, SaysOfWhichLinkTheSilenceIsBorneForLonger) {
  json links = three_links();
  EXPECT_EQ(links_table(links).find("silent for"), std::string::npos);
  links[0]["silence_limit_ms"] = 2000;
  links[0]["silence_limit_raised"] = true;
  EXPECT_NE(links_table(links).find("fast may be silent for 2"), std::string::npos);
  EXPECT_TRUE(fits(links_table(links)));
}

TEST(LinksTable, HasALineForEachLinkAndSaysWhatIsWrongBelow) {
  EXPECT_EQ(links_table(three_links()),
            R"(  LINK    STATE     RTT      OUT        IN          IN FLIGHT  FAILOVERS
  fast    up        80.5 us  812 MiB/s  1.20 MiB/s  4 MiB      2
  backup  down      -        -          -           -          0
  spare   disabled  -        -          -           -          7
    backup, 10.20.0.1:7700 to 10.20.0.2:7700: connection refused, tried
    again in 250 ms
)");
}

TEST(LinksText, TellsAllBelowEachLink) {
  EXPECT_EQ(links_text(three_links()),
            R"(  LINK    STATE     RTT      OUT        IN          IN FLIGHT  FAILOVERS
  fast    up        80.5 us  812 MiB/s  1.20 MiB/s  4 MiB      2
    10.10.0.1:7700 to 10.10.0.2:7700, 10 Gbit/s nominal, 1.1 GiB/s measured
    12 GiB sent, 3 GiB received
    before: connection reset by peer
  backup  down      -        -          -           -          0
    10.20.0.1:7700 to 10.20.0.2:7700
    connection refused, tried again in 250 ms
  spare   disabled  -        -          -           -          7
    10.30.0.1:7700 to 10.30.0.2:7700, 1.5 Mbit/s nominal
)");
}

TEST(LinksText, IsReadableAt80ColumnsHoweverBusyALinkIs) {
  json links = three_links();
  links[0].update({{"name", "eleven-char"},
                   {"state", "connecting"},
                   {"local", "[fd00:1234:5678:9abc:def0:1234:5678:9abc]:65535"},
                   {"peer", "[fd00:1234:5678:9abc:def0:1234:5678:9abd]:65535"},
                   {"round_trip_us", 999999.4},
                   {"last_error", "no route to host, and a sentence that goes on for long"}});
  links[1].update({{"state", "up"},
                   {"round_trip_us", 999.9},
                   {"in_bytes_per_s", 1048575},
                   {"out_bytes_per_s", 1073741823},
                   {"in_flight_bytes", 1048575}});
  EXPECT_TRUE(fits(links_table(links))) << links_table(links);
  EXPECT_TRUE(fits(links_text(links))) << links_text(links);
}

TEST(LinksText, SurvivesMissingAndOddlyTypedMembers) {
  const json whole = three_links();
  for (const json& odd : {json(), json(7), json("x"), json::array({1, "x"}), json::object()}) {
    EXPECT_NE(links_table(odd), "");
    EXPECT_NE(links_text(json::array({odd, odd})), "");
    for (const auto& [key, value] : whole[0].items()) {
      json links = whole;
      links[0][key] = odd;
      EXPECT_NE(links_table(links), "") << key;
      EXPECT_NE(links_text(links), "") << key;
    }
    EXPECT_EQ(compression_text(odd), "");
  }
}

json compression() {
  return json::parse(R"({
    "mode": "auto", "level": 3, "writes_compressed": 1000, "writes_raw": 200,
    "raw_bytes": 12884901888, "sent_bytes": 4294967296, "ratio": 3.0,
    "incompressible_bytes": 356515840, "compress_s": 3.1, "decompress_s": 1.25,
    "decision": "compresses: the link moves 112 MiB/s, and zstd 480 MiB/s at 3.0:1."})");
}

TEST(CompressionText, SaysWhatCameOfItAndWhy) {
  EXPECT_EQ(compression_text(compression()),
            "auto, level 3: 12 GiB sent as 4 GiB (3.0:1), 1000 of 1200 writes compressed, "
            "340 MiB incompressible, 3.10 s of CPU time compressing, 1.25 s of CPU time "
            "decompressing\n"
            "compresses: the link moves 112 MiB/s, and zstd 480 MiB/s at 3.0:1.");
}

TEST(CompressionText, OffIsShortUnlessSomethingWasCompressed) {
  EXPECT_EQ(compression_text({{"mode", "off"}, {"level", 1}, {"writes_raw", 700}}), "off");
  json was_on = compression();
  was_on["mode"] = "off";
  EXPECT_TRUE(compression_text(was_on).starts_with("off: 12 GiB sent as 4 GiB"));
  EXPECT_TRUE(compression_text(was_on).ends_with("decompressing")) << "nothing was to be decided";
  EXPECT_EQ(compression_text({{"mode", "on"}, {"level", 1}}), "on, level 1");
}

}  // namespace
}  // namespace twinblock
