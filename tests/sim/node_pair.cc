#include "node_pair.h"

#include <cstring>

#include "base/crc32c.h"
#include "report.h"

namespace twinblock::sim {

void NumberedWrite::fill(size_t its_block, uint64_t its_number, uint64_t now_ns) {
  block = its_block;
  number = its_number;
  data.resize(limits::kBlockBytes);
  for (size_t at = 0; at < data.size(); at += sizeof number) std::memcpy(data.data() + at, &number, sizeof number);
  piece = {data, crc32c(data), false};
  client.op = ClientOp::kWrite;
  client.received_ns = client.prepared_ns = now_ns;
  client.offset_bytes = block * limits::kBlockBytes;
  client.length_bytes = data.size();
  client.data = data.data();
  client.pieces = {&piece, 1};
}

uint64_t number_in(std::span<const std::byte> bytes, size_t block) {
  uint64_t number = 0;
  std::memcpy(&number, bytes.data() + block * limits::kBlockBytes, sizeof number);
  return number;
}

NodePair::NodePair(uint64_t seed, Config (*make_config)(Random&))
    : random_(seed), config_(make_config(random_)), network_(scheduler_, random_.fork()) {}

void NodePair::make_nodes(const std::function<void(SimNode&)>& made) {
  for (int host = 0; host < 2; ++host) {
    nodes_[static_cast<size_t>(host)] =
        std::make_unique<SimNode>(scheduler_, network_, config_, host, 64 * kKiB, random_.fork());
    if (made) made(node(host));
  }
}

void NodePair::end_nodes() {
  for (auto& each : nodes_) each.reset();
  scheduler_.clear();
}

void NodePair::start(int host) {
  node(host).power_on();
  if (!lives(host)) node(host).start();
}

void NodePair::begin() {
  start(0);
  start(1);
  node(0).engine().orders().init(false, false, [](const Result<std::string>& result) {
    if (!result) Report::violation("init: " + result.error().what);
  });
}

bool NodePair::comes_true(uint64_t at_most_ns, const std::function<bool()>& what, uint64_t look_ns) {
  const uint64_t end = scheduler_.now_ns() + at_most_ns;
  while (!what() && scheduler_.now_ns() < end) scheduler_.run_until(scheduler_.now_ns() + look_ns);
  return what();
}

std::optional<std::pair<StatusView, StatusView>> NodePair::both_at_one() {
  for (const int host : {0, 1}) {
    if (!lives(host)) return std::nullopt;
    const VolumeState state = node(host).engine().volume_state();
    if (state != VolumeState::kDuplex && state != VolumeState::kConnected) return std::nullopt;
  }
  auto mine = node(0).engine().status(), theirs = node(1).engine().status();
  if (mine.mine.generations.current != theirs.mine.generations.current || mine.state != theirs.state)
    return std::nullopt;
  return std::pair(std::move(mine), std::move(theirs));
}

}  // namespace twinblock::sim
