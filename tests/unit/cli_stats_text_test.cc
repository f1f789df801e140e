// The counters as text.
#include <gtest/gtest.h>

#include "twinblock/stats_text.h"

namespace twinblock {
namespace {

using nlohmann::json;

TEST(StatsText, HasALineForEachCounter) {
  const json stats = json::parse(R"({"volume": "r0", "node": "alpha", "uptime_s": 3725.5,
    "clients": 1, "writes": 1234567, "write_bytes": 5368709120,
    "write_sizes": [{"class": "4K", "bytes_max": 4096, "writes": 1200000},
                    {"class": "larger", "bytes_max": null, "writes": 34567}],
    "reads": 12, "read_bytes": 49152, "flushes": 345, "zeroes": 6,
    "simplex": {"s": 12.5, "times": 2, "now": true}, "peer_losses": 1, "resync_bytes": 1048576,
    "compression": {"writes_compressed": 10, "writes_raw": 3, "raw_bytes": 40960,
                    "sent_bytes": 20480, "incompressible_bytes": 0, "compress_s": 0.5,
                    "decompress_s": 0},
    "links": [{"name": "main", "out_bytes": 5368709120, "in_bytes": 1048576, "failovers": 3}],
    "metadata": {"intent_commits": 7, "intent_waits": 21, "record_writes": 14}})");
  EXPECT_EQ(stats_text(stats), R"(           node: alpha of r0, up 1:02:05, 1 clients
         writes: 1234567, 5 GiB
    write sizes: up to 4K: 1200000, larger: 34567
          reads: 12, 48 KiB
        flushes: 345
  zeroes, trims: 6
        simplex: 12.50 s, 2 times, now again
    peer losses: 1
         resync: 1 MiB sent to the peer
    compression: 10 writes compressed, 40 KiB to 20 KiB; 3 sent as they were;
                 CPU time 500.00 ms to compress, 0.0 us to decompress
       metadata: 7 intent commits, for which 21 writes waited; record written 14
                 times
      link main: 5 GiB sent, 1 MiB received, 3 failovers
)");
}

TEST(StatsText, TakesWhatAnotherVersionSays) {
  for (const char* odd : {"null", "[]", "{}", R"({"simplex": 1, "links": 7, "writes": "many"})"})
    EXPECT_NE(stats_text(json::parse(odd)).find("simplex: never"), std::string::npos) << odd;
}

}  // namespace
}  // namespace twinblock
