#include "witnessed.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "pair_config.h"
#include "report.h"
#include "volume/cached_read.h"

namespace twinblock::sim {
namespace {

constexpr uint64_t kVolumeBytes = 128 * kKiB;
constexpr size_t kBlocks = kVolumeBytes / limits::kBlockBytes;
constexpr uint64_t kFaulty_ns = 60 * kSecond_ns;
constexpr size_t kDepth = 4;
constexpr uint64_t kDemotionMax_ns = 20 * kSecond_ns;

Config make_config(Random& random) {
  Config config = linked_pair_config(kVolumeBytes);
  config.peer_timeout_ns = random.spread(500 * kMillisecond_ns, 3 * kSecond_ns);
  config.link_timeout_ns = config.peer_timeout_ns / 3;
  config.disk_timeout_ns = 10 * kSecond_ns;
  config.on_restart = random.chance(0.5) ? OnRestart::kResume : OnRestart::kSecondary;
  config.witness.kind = random.chance(0.2) ? WitnessKind::kCommand : WitnessKind::kEtcd;
  Random apart = random;  // so that what is drawn otherwise stays what it was
  if (apart.chance(0.5)) config.cache_bytes = apart.spread(64 * kKiB, 512 * kKiB);
  return config;
}

}  // namespace

Witnessed::Witnessed(uint64_t seed)
    : NodePair(seed, make_config),
      register_(scheduler_, random_.fork()),
      fence_(scheduler_, random_.fork(), [this](int host) { check_fencing(host); },
             [this](int host) { stop(host, false); }),
      blocks_(kBlocks),
      power_cuts_(random_.chance(0.6)),
      fua_(random_.chance(0.5)),
      swaps_(random_.chance(0.5)) {
  for (Block& block : blocks_) block[0] = {.first_end_ns = 0, .acknowledged = true};
  Random third(random_);  // so that what is drawn otherwise stays what it was
  for (int before = 0; before < 2; ++before) (void)third.fork();
  freezes_ = !third.fork().fork().chance(0.8);
  if (freezes_) config_.on_peer_loss = OnPeerLoss::kFreeze;
  unwitnessed_ = config_;
  unwitnessed_.witness = {};
  Random apart = random_;  // so that what is drawn otherwise stays what it was
  files_differ_ = apart.chance(0.4);
  disk_stalls_ = Random(random_).fork().chance(0.3);
  other_file_ = config_;
  other_file_.peer_timeout_ns = apart.spread(500 * kMillisecond_ns, 8 * kSecond_ns);
  other_file_.link_timeout_ns = other_file_.peer_timeout_ns / 3;
  make_nodes([this](SimNode& made) {
    const int host = made.host();
    SimNode::Outside outside;
    if (config_.witness.kind == WitnessKind::kEtcd)
      outside.witness = [this, host](const ProcessPtr& process) { return register_.port(host, process); };
    else
      outside.fence = [this, host](const ProcessPtr& process) { return fence_.port(host, process); };
    outside.cut_off_clients = [this, host] { cut_off(host); };
    made.set_outside(std::move(outside));
  });
}

Witnessed::~Witnessed() { end_nodes(); }

std::string Witnessed::describe() {
  const auto& entry = register_.entry();
  return NodePair::describe() + (freezes_ ? "\n  clients wait for a lost peer" : "") + "\n  the register: " +
         (entry ? metadata::format_generation(entry->generation) + " of '" + entry->holder + "'" : "nothing");
}

void Witnessed::run() {
  begin();
  const uint64_t end = scheduler_.now_ns() + kFaulty_ns;
  while (scheduler_.now_ns() < end) {
    fault();
    if (Random apart = random_; files_differ_ && apart.chance(0.2)) cut_apart(apart);
    if (Random apart = Random(random_).fork(); disk_stalls_ && apart.chance(0.2)) stall_disk(apart);
    if (Random apart = Random(random_).fork().fork(); freezes_ && apart.chance(0.2)) let_go_on(apart);
    const uint64_t until = scheduler_.now_ns() + random_.spread(30 * kMillisecond_ns, 6 * kSecond_ns);
    while (scheduler_.now_ns() < until) {
      scheduler_.run_until(std::min(until, scheduler_.now_ns() + 20 * kMillisecond_ns));
      look();
    }
  }
  mend();
  if (Random apart = random_; apart.chance(0.2)) without_witness();
  check_end();
}

void Witnessed::begin() {
  for (const int host : {0, 1}) start(host);
  node(0).engine().orders().init(false, false, [](const Result<std::string>& result) {
    if (!result) Report::violation("init: " + result.error().what);
  });
  const uint64_t end = scheduler_.now_ns() + kHealingMax_ns;
  // A witness that is away from the beginning holds up nobody whose peer is there.
  register_.up = random_.chance(0.8);
  scheduler_.run_until(end, [this] { return at_one() && acknowledged_ > 5; });
  if (scheduler_.now_ns() >= end) Report::violation("two new nodes do not come to serve anybody" + describe());
}

bool Witnessed::at_one() {
  if (!lives(0) || !lives(1)) return false;
  const bool duplex = node(0).engine().volume_state() == VolumeState::kDuplex &&
                      node(1).engine().volume_state() == VolumeState::kDuplex;
  return duplex && node(0).engine().is_primary() != node(1).engine().is_primary();
}

// As twinblock-promoter: whenever nobody is known to be primary.
void Witnessed::promoter_turn(int host) {
  scheduler_.after(random_.spread(100 * kMillisecond_ns, kSecond_ns), node(host).process(), [this, host] {
    promoter_turn(host);
    Engine& engine = node(host).engine();
    const StatusView view = engine.status();
    if (view.role != Role::kSecondary || view.peer.role == PeerRole::kPrimary || view.mine.blank) return;
    // What uses the volume there waits for it.
    if (freezes_ && view.mine.resumes) return;
    may_ask_[static_cast<size_t>(host)] = true;
    engine.orders().promote({}, [this, host](const Result<std::string>& said) {
      if (Report::verbose())
        Report::trace(node(host).name(), said ? "-- was promoted" : "-- not promoted: " + said.error().what);
    });
  });
}

void Witnessed::client_turn(int host) {
  scheduler_.after(random_.spread(kMillisecond_ns, 60 * kMillisecond_ns), node(host).process(), [this, host] {
    client_turn(host);
    Client& here = client(host);
    if (!here.open && !here.leaves && node(host).engine().clients().opened(0)) here.open = true;
    if (!here.open) return;
    if (here.leaves) {
      if (here.requests.empty()) demote(host);
      return;
    }
    while (here.requests.size() < kDepth && random_.chance(0.6)) {
      const double draw = random_.unit();
      ask(host, draw < 0.45 ? ClientOp::kRead : draw < 0.5 ? ClientOp::kFlush : ClientOp::kWrite);
      if (!here.open) return;
    }
  });
}

void Witnessed::ask(int host, ClientOp op) {
  const uint64_t id = ++ids_;
  auto made = std::make_unique<Request>();
  Request& request = *made;
  client(host).requests.emplace(id, std::move(made));
  ClientRequest& asked = request.client;
  const uint64_t now_ns = node(host).clock().now_ns();
  request.began_ns = scheduler_.now_ns();
  request.block = random_.below(kBlocks);
  asked.op = op;
  asked.received_ns = asked.prepared_ns = now_ns;
  if (op == ClientOp::kRead) {
    request.data.resize(limits::kBlockBytes);
    asked.offset_bytes = request.block * limits::kBlockBytes;
    asked.length_bytes = request.data.size();
    asked.data = request.data.data();
  }
  if (op == ClientOp::kWrite) {
    request.fill(request.block, ++writes_, now_ns);
    asked.fua = fua_;
    if (ContentCache* cache = node(host).engine().worker_view().cache()) {
      request.tags = cache->tags_of(asked.offset_bytes, request.data);
      asked.tags = request.tags;
    }
    Value& value = blocks_[request.block][request.number];
    value.last_begin_ns = request.began_ns;
  }
  asked.done = [this, host, id, life = client(host).life, &request](ClientRequest&) {
    request.done = true;
    if (life == client(host).life) answered(host, id);
  };
  // As a worker that reads by itself.
  const WorkerView& view = node(host).engine().worker_view();
  if (op == ClientOp::kRead) {
    if (const auto mark = view.mark_local_read(node(host).clock(), asked.offset_bytes, asked.length_bytes)) {
      // Each read ends within this call: none is ever waited for.
      const CachedRead cached(view.cache(), view, *mark, asked.offset_bytes, request.data,
                              node(host).clock().now_ns());
      const int error = cached.missing().empty() ? 0 : node(host).data().read_now(asked.offset_bytes, request.data);
      if (error == 0 && view.unchanged(asked.offset_bytes, asked.length_bytes, *mark)) {
        cached.keep();
        answered(host, id);
        return;
      }
      asked.local_error = error;
      asked.local_mark = *mark;
    }
  }
  node(host).engine().clients().submit(asked);
}

void Witnessed::answered(int host, uint64_t id) {
  Client& here = client(host);
  const auto found = here.requests.find(id);
  if (found == here.requests.end()) return;
  // Freed when the engine has returned.
  const std::shared_ptr<Request> request = std::move(found->second);
  here.requests.erase(found);
  scheduler_.after(0, nullptr, [request] {});
  const uint64_t now = scheduler_.now_ns();
  if (request->client.error != 0)
    Report::violation(node(host).name() + " answers a client with error " +
                      std::to_string(request->client.error) + describe());
  if (request->client.op == ClientOp::kFlush) return;
  uint64_t number = request->number;
  if (request->client.op == ClientOp::kRead) {
    std::memcpy(&number, request->data.data(), sizeof number);
  } else {
    ++acknowledged_;
    blocks_[request->block][number].acknowledged = true;
  }
  learn(request->block, number, request->began_ns, now, host);
}

void Witnessed::learn(size_t block, uint64_t number, uint64_t began_ns, uint64_t ended_ns, int host) {
  Block& values = blocks_[block];
  const auto found = values.find(number);
  if (found == values.end())
    Report::violation("block " + std::to_string(block) + " at " + node(host).name() + " is of write " +
                      std::to_string(number) + ", which is not of this block" + describe());
  Value& mine = found->second;
  mine.first_end_ns = std::min(mine.first_end_ns, ended_ns);
  mine.last_begin_ns = std::max(mine.last_begin_ns, began_ns);
  for (const auto& [other, value] : values)
    if (other != number && value.first_end_ns < mine.last_begin_ns && mine.first_end_ns < value.last_begin_ns)
      Report::violation("block " + std::to_string(block) + " at " + node(host).name() + ": writes " +
                        std::to_string(number) + " and " + std::to_string(other) +
                        " are in no order: two histories" + describe());
}

void Witnessed::check_fencing(int host) {
  if (node(host).engine().status().peer.connected)
    Report::violation(node(host).name() + " has a peer fenced that is connected" + describe());
}

// The connections end; nbdkit tells the engine so soon.
void Witnessed::cut_off(int host) {
  Client& here = client(host);
  if (Report::verbose()) Report::trace(node(host).name(), "-- its clients are cut off");
  ++here.life;
  here.leaves = false;
  const auto requests = std::make_shared<std::map<uint64_t, std::unique_ptr<Request>>>(std::move(here.requests));
  here.requests.clear();
  const bool was_open = std::exchange(here.open, false);
  scheduler_.after(5 * kMillisecond_ns, node(host).process(), [this, host, was_open, requests] {
    // Else nbdkit's workers would stand there for ever.
    for (const auto& [id, request] : *requests)
      if (!request->done)
        Report::violation(node(host).name() + " keeps the request of a client that was cut off" + describe());
    if (was_open) node(host).engine().clients().closed();
  });
}

void Witnessed::gone(int host) {
  Client& here = client(host);
  ++here.life;
  here.requests.clear();
  here.open = here.leaves = false;
}

void Witnessed::stop(int host, bool power) {
  if (node(host).paused()) node(host).resume();
  const bool may_lose_memory = power_cuts_ && (fua_ || (at_one() && !node(host).engine().is_primary()));
  if (power && may_lose_memory && node(host).powered())
    lose_power(host);
  else if (node(host).running())
    node(host).kill();
  gone(host);
  start_later(host, 8 * kSecond_ns);
}

// What a write that nobody acknowledged left in this host's memory alone may have been read, as on any disk with a cache. It
// may be gone now, or the other replica, which does not have it, may be the one that counts: nobody was promised that it
// stays.
void Witnessed::lose_power(int host) {
  for (size_t block = 0; block < kBlocks; ++block) {
    const uint64_t number = number_at(host, block);
    const auto value = blocks_[block].find(number);
    const bool here_alone = number_at(1 - host, block) != number;
    if (here_alone && value != blocks_[block].end() && !value->second.acknowledged) value->second = {};
  }
  node(host).power_off();
}

uint64_t Witnessed::number_at(int host, size_t block) {
  uint64_t number = 0;
  std::memcpy(&number, node(host).data().contents().data() + block * limits::kBlockBytes, sizeof number);
  return number;
}

void Witnessed::start_later(int host, uint64_t longest_ns) {
  if (std::exchange(start_due_[static_cast<size_t>(host)], true)) return;
  scheduler_.after(random_.spread(20 * kMillisecond_ns, longest_ns), nullptr, [this, host] {
    start_due_[static_cast<size_t>(host)] = false;
    start(host);
  });
}

void Witnessed::start(int host) {
  node(host).power_on();
  if (node(host).running()) return;
  if (Random apart = random_; files_differ_ && !without_)
    node(host).set_config(apart.chance(0.5) ? config_ : other_file_);
  node(host).data().faults.write_error_chance = node(host).data().faults.flush_error_chance = 0;  // it was mended
  node(host).start();
  const metadata::Generations mine = node(host).engine().status().mine.generations;
  may_ask_[static_cast<size_t>(host)] = mine.current != mine.base;
  promoter_turn(host);
  client_turn(host);
}

void Witnessed::demote(int host) {
  Client& here = client(host);
  here.open = here.leaves = false;
  ++here.life;
  node(host).engine().clients().closed();
  // It waits for nobody: no client is promised anything by it.
  auto answered = std::make_shared<bool>(false);
  node(host).engine().orders().demote([answered](const Result<std::string>&) { *answered = true; });
  scheduler_.after(kDemotionMax_ns, node(host).process(), [this, host, answered] {
    if (!*answered) Report::violation(node(host).name() + "'s demotion does not end" + describe());
  });
}

// At any instant.
void Witnessed::look() {
  for (const int host : {0, 1}) {
    if (!lives(host)) continue;
    const auto verdict = node(host).engine().status().verdict;
    if (verdict && is_split_brain(*verdict)) Report::violation("both have moved on" + describe());
    if (freezes_) check_that_it_waits(host);
  }
  if (at_one()) fence_.together();
}

// Disks that were away for longer than a history remembers are refused: they go out for good.
void Witnessed::replace_what_is_too_old(int host) {
  if (swapped_ != host || !lives(host)) return;
  const StatusView view = node(host).engine().status();
  if (view.verdict != Verdict::kUnrelated || view.role != Role::kSecondary) return;
  stop(host, false);
  node(host).replace_disks();
}

void Witnessed::mend() {
  if (Report::verbose()) Report::trace("world", "all faults end");
  network_.set_silent({false, false});
  // It may stay away: the two need it only when they are apart, and for another replica to join.
  register_.up = random_.chance(0.8) || swapped_ >= 0;
  register_.reached = {true, true};
  register_.lost = register_.late = fence_.useless = 0;
  for (const int host : {0, 1}) {
    node(host).metadata().faults.extra_delay_ns = node(host).data().faults.hung_until_ns = 0;
    if (node(host).running() && node(host).paused()) node(host).resume();
    if (node(host).running() && node(host).data().has_failed_for_good()) stop(host, false);
    start_later(host, kSecond_ns);
  }
  const uint64_t end = scheduler_.now_ns() + kHealingMax_ns;
  uint64_t acknowledged = acknowledged_;
  while (!(at_one() && acknowledged_ > acknowledged + 20)) {
    if (scheduler_.now_ns() >= end)
      Report::violation("when all was mended, the two did not come to duplex by themselves" + describe());
    scheduler_.run_until(scheduler_.now_ns() + 20 * kMillisecond_ns);
    look();
    if (!at_one()) acknowledged = acknowledged_;
    for (const int host : {0, 1}) replace_what_is_too_old(host);
  }
}

// Both are together, and it says so.
bool Witnessed::register_is_settled() {
  const auto& entry = register_.entry();
  return entry && entry->holder.empty() &&
         entry->generation == node(0).engine().status().mine.generations.current;
}

// So that either may go on without the other, whatever the two had claimed before.
void Witnessed::check_entry() {
  if (config_.witness.kind != WitnessKind::kEtcd || !register_.up || without_) return;
  scheduler_.run_until(scheduler_.now_ns() + kHealingMax_ns, [this] { return register_is_settled(); });
  if (!register_is_settled()) Report::violation("the witness does not hear that both are together" + describe());
}

void Witnessed::check_end() {
  check_entry();
  for (const int host : {0, 1}) client(host).leaves = client(host).open;
  const uint64_t end = scheduler_.now_ns() + kHealingMax_ns;
  // A fence command that was begun while they were apart may still end one of them, in the middle of a write.
  scheduler_.run_until(end, [this] { return at_one() && client(0).requests.empty() && client(1).requests.empty(); });
  if (!at_one()) Report::violation("they are not at one again" + describe());
  if (!client(0).requests.empty() || !client(1).requests.empty())
    Report::violation("requests are not answered" + describe());
  const auto mine = node(0).data().contents(), theirs = node(1).data().contents();
  for (size_t block = 0; block < kBlocks; ++block) {
    const size_t at = block * limits::kBlockBytes;
    if (std::memcmp(mine.data() + at, theirs.data() + at, limits::kBlockBytes) != 0)
      Report::violation("in duplex, block " + std::to_string(block) + " differs" + describe());
    uint64_t number = 0;
    std::memcpy(&number, mine.data() + at, sizeof number);
    learn(block, number, scheduler_.now_ns(), scheduler_.now_ns(), 0);
  }
}

}  // namespace twinblock::sim
