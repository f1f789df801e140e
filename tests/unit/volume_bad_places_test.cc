// Reads that some place of this node's disk fails: what is asked of the peer, and what is believed of the disk. An
// engine on virtual parts, and the fuzzers' peer, which says of each byte that it is 0x5A; those here are zeroes.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "volume_lost_peer_support.h"

namespace twinblock::fuzz {
namespace {

constexpr uint64_t kBlock = limits::kBlockBytes;

class BadPlacesTest : public LostPeerTest {
 protected:
  // How the read of these blocks ends, as a worker hands it to the loop.
  int read(uint64_t first, uint64_t blocks, int local_error = 0, InflightFilter::Mark local_mark = 0) {
    ClientRequest request;
    std::optional<int> error;
    request.op = ClientOp::kRead;
    request.offset_bytes = first * kBlock;
    request.length_bytes = blocks * kBlock;
    request.local_error = local_error;
    request.local_mark = local_mark;
    data_.assign(request.length_bytes, std::byte{1});
    request.data = data_.data();
    request.done = [&error](ClientRequest& done) { error = done.error; };
    node_->engine->clients().submit(request);
    for (int i = 0; i < 100 && !error; ++i) node_->run(10 * kMillisecond_ns);
    return error.value_or(ETIMEDOUT);
  }
  // Of what was read: whose each block is. '?': nobody's, or half of it.
  [[nodiscard]] std::string whose() const {
    std::string each;
    for (size_t at = 0; at < data_.size(); at += kBlock) {
      const auto block = std::vector(data_.begin() + static_cast<std::ptrdiff_t>(at),
                                     data_.begin() + static_cast<std::ptrdiff_t>(at + kBlock));
      const bool even = std::ranges::count(block, block[0]) == static_cast<std::ptrdiff_t>(kBlock);
      each += !even ? '?' : block[0] == std::byte{0} ? 'h' : block[0] == std::byte{0x5A} ? 't' : '?';
    }
    return each;
  }
  void begin_with_zeroes() {
    begin_in_duplex();
    std::ranges::fill(node_->data.contents, std::byte{0});
  }

  std::vector<std::byte> data_;
};

// A bad place takes the disk seconds to say so, and somebody has written there meanwhile, which mends it.
TEST_F(BadPlacesTest, AWorkersErrorFromBeforeAWriteIsNotBelieved) {
  begin_with_zeroes();
  const WorkerView& view = node_->engine->worker_view();
  for (const bool alone : {false, true}) {
    if (alone) {
      part();
      node_->run(2 * config_.peer_timeout_ns);
    }
    const auto mark = view.mark_read(0, kBlock);
    ASSERT_TRUE(mark);
    write();
    EXPECT_EQ(read(0, 1, EIO, *mark), 0);
    EXPECT_EQ(whose(), "h");
    EXPECT_EQ(node_->engine->status().unreadable_places, 0u) << "its disk is well";
  }
}

// It takes seconds.
TEST_F(BadPlacesTest, AWorkersErrorIsBelievedWhereNobodyHasWrittenSince) {
  begin_with_zeroes();
  const auto mark = node_->engine->worker_view().mark_read(0, kBlock);
  ASSERT_TRUE(mark);
  int reads = 0;
  node_->data.submitted = [&reads](const DiskRequest& request) { reads += request.op == DiskOp::kRead ? 1 : 0; };
  EXPECT_EQ(read(0, 1, EIO, *mark), 0);
  EXPECT_EQ(whose(), "t");
  EXPECT_EQ(reads, 0) << "the disk is not asked again";
  EXPECT_EQ(node_->engine->status().unreadable_places, 1u);
}

}  // namespace
}  // namespace twinblock::fuzz
