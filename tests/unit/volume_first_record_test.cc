// What a volume that begins knows of the data that it begins with: an engine on virtual parts.
#include <gtest/gtest.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "fuzz_node.h"
#include "metadata_image.h"

namespace twinblock::fuzz {
namespace {

constexpr uint64_t kVolumeBytes = 256 * kKiB;

// Whether a volume that was begun where `found` was found counts an empty backing as a lost one.
bool holds_data_from_the_begin_on(DataFound found) {
  const Config config = make_config(kVolumeBytes);
  const metadata::NodeRecord record = plain_record("alpha", {kVolumeBytes, 64 * kKiB});
  std::vector<std::byte> file = plain_file(record);
  metadata::Loaded loaded = load_plain(file, record);
  FuzzNode node(config, "alpha", std::move(file), std::move(loaded), found);
  EXPECT_TRUE(node.engine->start().ok());
  bool begun = false;
  node.engine->orders().init(true, false, [&begun](const Result<std::string>& said) { begun = said.ok(); });
  node.run(kSecond_ns);
  EXPECT_TRUE(begun);
  return load_plain(node.metadata.contents, record).record.held_data;
}

// The device was exchanged for an empty one while its host was down, say, before any client had written: the peer has what
// was copied to it, and this node must not pass for its equal.
TEST(FirstRecord, DataThatWereThereBeforeTheVolumeAreMissedWhenTheyAreGone) {
  EXPECT_TRUE(holds_data_from_the_begin_on(DataFound::kSome));
  EXPECT_FALSE(holds_data_from_the_begin_on(DataFound::kNone));
  EXPECT_FALSE(holds_data_from_the_begin_on(DataFound::kUnknown)) << "it may be empty, and was not lost then";
}

}  // namespace
}  // namespace twinblock::fuzz
