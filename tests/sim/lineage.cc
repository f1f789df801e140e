#include "lineage.h"

#include <algorithm>
#include <utility>

#include "control/status_words.h"
#include "pair_config.h"
#include "report.h"

namespace twinblock::sim {
namespace {

constexpr uint64_t kVolumeBytes = 256 * kKiB;
constexpr size_t kBlocks = kVolumeBytes / limits::kBlockBytes;
constexpr int kSteps = 60;

Config make_config(Random&) { return quick_pair_config(kVolumeBytes, OnRestart::kSecondary); }

}  // namespace

Lineage::Lineage(uint64_t seed) : NodePair(seed, make_config) { make_nodes(); }

Lineage::~Lineage() { end_nodes(); }

Lineage::Blocks& Lineage::held(int host) {
  Blocks& blocks = held_[&node(host).data()];
  blocks.resize(kBlocks);
  return blocks;
}

void Lineage::run() {
  begin();
  run_for(3 * kSecond_ns);
  promote(0);
  run_for(kSecond_ns);
  // Nodes that never come together lose nothing, either.
  if (!at_one()) Report::violation("two new nodes are not at one" + describe());
  for (int i = 0; i < kSteps; ++i) {
    step();
    run_for(random_.chance(0.5) ? random_.spread(kMillisecond_ns, 300 * kMillisecond_ns)
                                : random_.spread(300 * kMillisecond_ns, 5 * kSecond_ns));
  }
}

// In small steps, so that no moment at which the two are at one is missed.
void Lineage::run_for(uint64_t ns) {
  const uint64_t end = scheduler_.now_ns() + ns;
  while (scheduler_.now_ns() < end) {
    scheduler_.run_until(std::min(end, scheduler_.now_ns() + 2 * kMillisecond_ns));
    check();
  }
}

void Lineage::step() {
  const int host = static_cast<int>(random_.below(2));
  switch (random_.below(16)) {
    case 0:
    case 1:
    case 2:
      swap(host);
      break;
    case 3:
      stop(host);
      break;
    case 4:
    case 5:
      start(host);
      break;
    case 6:
      promote(host);
      break;
    case 7:
      demote(host);
      break;
    case 8:
      resolve(host);
      break;
    case 9:
      join(host);
      break;
    case 10:
      verify(host);
      break;
    case 11:
      network_.set_silent({random_.chance(0.5), random_.chance(0.5)});
      break;
    default:  // all is mended, and the volume is used
      if (random_.chance(0.7)) {
        network_.set_silent({false, false});
        for (const int each : {0, 1}) start(each);
        run_for(2 * kSecond_ns);
        for (const int each : {0, 1}) {
          resolve(each);
          join(each);
        }
        promote(host);
        run_for(kSecond_ns);
      }
      for (uint64_t i = random_.between(1, 4); i > 0; --i)
        for (const int each : {0, 1}) write(each);
      break;
  }
}

void Lineage::stop(int host) {
  if (random_.chance(0.4))
    node(host).power_off();
  else if (lives(host))
    node(host).kill();
  open_[static_cast<size_t>(host)] = false;
}


void Lineage::swap(int host) {
  stop(host);
  const bool copies = !lives(host) && random_.chance(0.3);
  if (const VirtualDisk* copy = copies ? node(host).lay_copy_aside() : nullptr)
    held_[copy] = Blocks(held(host));
  else
    node(host).swap_disks();
  if (random_.chance(0.8)) start(host);
}

void Lineage::promote(int host) {
  if (!lives(host) || node(host).engine().is_primary()) return;
  const bool connected = node(host).engine().status().peer.connected;
  const bool insists = !connected && random_.chance(lives(1 - host) ? 0.15 : 0.7);
  if (Report::verbose())
    Report::trace("operator", "promote " + node(host).name() + (insists ? " --peer-is-dead" : ""));
  node(host).engine().orders().promote(insists, [](const Result<std::string>& said) {
    if (Report::verbose())
      Report::trace("operator", said ? "it is primary" : "refused: " + said.error().what);
  });
}

void Lineage::demote(int host) {
  if (!lives(host) || !node(host).engine().is_primary() || under_way_) return;
  if (std::exchange(open_[static_cast<size_t>(host)], false))
    node(host).engine().clients().closed();
  node(host).engine().orders().demote([](const Result<std::string>&) {});
}

bool Lineage::says(int host, const char* words) {
  return lives(host) && status_words(node(host).engine().status()).status.find(words) != std::string::npos;
}

// The loser is demoted first, so that what it holds when the order is given is what it holds when
// the order is carried out.
void Lineage::resolve(int host) {
  if (!says(host, "split brain")) return;
  const bool keep_local = random_.chance(0.5);
  const int loser = keep_local ? 1 - host : host;
  demote(loser);
  run_for(2500 * kMillisecond_ns);
  if (!says(host, "split brain") || !lives(loser) || node(loser).engine().is_primary()) return;
  const Blocks loses = held(loser);
  const Blocks keeps = held(1 - loser);
  node(host).engine().orders().resolve(keep_local, false, [&](const Result<std::string>& said) {
    if (!said) return;
    for (size_t block = 0; block < kBlocks; ++block)
      if (loses[block] != keeps[block]) given_up_.insert(loses[block]);
  });
  run_for(3 * kSecond_ns);
}

// What was refused as too old, or as no good copy, joins anew: the operator gives up what it holds.
void Lineage::join(int host) {
  if (!says(host, "nothing in common")) return;
  stop(host);
  node(host).replace_metadata();
  for (uint64_t& number : held(host)) given_up_.insert(std::exchange(number, 0));
  start(host);
  run_for(10 * kMillisecond_ns);
  if (lives(host))
    node(host).engine().orders().init(false, true, [](const Result<std::string>&) {});
}

void Lineage::verify(int host) {
  if (!at_one() || !node(host).engine().is_primary()) return;
  node(host).engine().orders().verify(VerifyOrder::kCompare, [](const Result<std::string>&) {});
  run_for(2 * kSecond_ns);
  if (lives(host) && node(host).engine().status().verify.differing_bytes > 0)
    Report::violation("a verification found differences" + describe());
}

int Lineage::ask(int host, ClientOp op, uint64_t block, uint64_t number) {
  clients_.push_back(std::make_unique<Client>());
  Client& client = *clients_.back();
  ClientRequest& request = client.client;
  const uint64_t now_ns = node(host).clock().now_ns();
  if (op == ClientOp::kWrite) client.fill(block, number, now_ns);
  request.op = op;
  request.received_ns = request.prepared_ns = now_ns;
  request.done = [&client](ClientRequest&) { client.answered = true; };
  under_way_ = true;
  node(host).engine().clients().submit(request);
  const uint64_t end = scheduler_.now_ns() + 20 * kSecond_ns;
  scheduler_.run_until(end, [&client] { return client.answered; });
  under_way_ = false;
  if (!client.answered) Report::violation("a request is not answered" + describe());
  return request.error;
}

void Lineage::write(int host) {
  if (!lives(host) || !node(host).engine().is_primary()) return;
  if (!open_[static_cast<size_t>(host)]) {
    if (!node(host).engine().clients().opened()) return;
    open_[static_cast<size_t>(host)] = true;
  }
  const uint64_t block = random_.below(kBlocks);
  const uint64_t number = ++writes_;
  if (ask(host, ClientOp::kWrite, block, number) != 0) return;
  if (ask(host, ClientOp::kFlush, 0, 0) != 0) return;
  held(host)[block] = number;
  if (Report::verbose())
    Report::trace(node(host).name(),
                  "write " + std::to_string(number) + " of block " + std::to_string(block));
  check();
}

bool Lineage::at_one() {
  const auto both = both_at_one();
  const auto knows = [](const StatusView& node, const StatusView& peer) {
    return node.peer.role == (is_primary(peer.role) ? PeerRole::kPrimary : PeerRole::kSecondary);
  };
  return both && knows(both->first, both->second) && knows(both->second, both->first);
}

void Lineage::check() {
  if (!at_one()) return;
  for (size_t block = 0; block < kBlocks; ++block) {
    const uint64_t number = number_in(node(0).data().contents(), block);
    const uint64_t other = number_in(node(1).data().contents(), block);
    uint64_t& mine = held(0)[block];
    uint64_t& theirs = held(1)[block];
    if (number != other)
      Report::violation("the two say that they are the same, but block " + std::to_string(block) +
                        " is of write " + std::to_string(number) + " at alpha, of write " +
                        std::to_string(other) + " at beta" + describe());
    for (const uint64_t promised : {mine, theirs})
      if (number < promised && given_up_.count(promised) == 0)
        Report::violation("write " + std::to_string(promised) + " of block " +
                          std::to_string(block) + " was on stable storage, and nobody was told " +
                          "that it would be lost; the block is of write " +
                          std::to_string(number) + describe());
    mine = theirs = std::min(number, std::max(mine, theirs));
  }
}

}  // namespace twinblock::sim
