// Whose metadata a node takes for its own when it starts: an engine on virtual parts.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "fuzz_node.h"
#include "metadata_image.h"

namespace twinblock::fuzz {
namespace {

constexpr uint64_t kVolumeBytes = 256 * kKiB;

// What alpha of volume r0 says when it is to start with this record.
Status start_with(const metadata::NodeRecord& record) {
  const Config config = make_config(kVolumeBytes);
  std::vector<std::byte> file = plain_file(record);
  metadata::Loaded loaded = load_plain(file, record);
  FuzzNode node(config, "alpha", std::move(file), std::move(loaded), DataFound::kSome);
  return node.engine->start();
}

// A mistyped path, say: what the record says of generations and of what the peer misses is true of another replica.
TEST(Start, IsRefusedWithMetadataOfTheOtherNodeOrOfAnotherVolume) {
  metadata::NodeRecord record = plain_record("alpha", {kVolumeBytes, 64 * kKiB});
  EXPECT_TRUE(start_with(record).ok());
  record.node = "beta";
  Status started = start_with(record);
  ASSERT_FALSE(started.ok());
  EXPECT_NE(started.error().what.find("belongs to node 'beta'"), std::string::npos) << started.error().what;
  record.node = "alpha";
  record.volume = "r1";
  started = start_with(record);
  ASSERT_FALSE(started.ok());
  EXPECT_NE(started.error().what.find("of volume 'r1'"), std::string::npos) << started.error().what;
}

}  // namespace
}  // namespace twinblock::fuzz
