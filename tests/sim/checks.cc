// What must hold at each answer, at any instant, and at the end.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "report.h"
#include "words/verdict_words.h"
#include "world.h"

namespace twinblock::sim {

namespace {

// The first sector that holds what a write had replaced that ought to be there.
std::optional<uint64_t> first_that_lacks(const Remains& left, const History& promised,
                                         History::Kept kept) {
  for (uint64_t sector = 0; sector < left.data.size_bytes() / kSectorBytes; ++sector)
    if (!promised.may_hold(sector, promised.number_said(sector, left.data.sector(sector)), kept))
      return sector;
  return std::nullopt;
}

std::string words(const Remains& remains) {
  const SyncFacts& facts = remains.facts;
  return remains.fate + (facts.blank ? ", blank" : "") + (facts.crashed ? ", crashed" : "") +
         (facts.inconsistent ? ", inconsistent" : "") +
         (facts.flush_failed ? ", a flush failed" : "") + (facts.dirty ? ", dirty" : "") +
         ", generation " + metadata::format_generation(facts.generations.current) + " base " +
         metadata::format_generation(facts.generations.base) + " term " +
         std::to_string(facts.term);
}

}  // namespace

// Looks at moments of its own, and at some of those at which a disk has done something.
void World::check_turn() {
  for (const auto& each : nodes_) {
    each->metadata().observer = [this] {
      if (check_random_.chance(0.05)) check_now();
    };
    each->data().observer = [this] {
      if (check_random_.chance(0.002)) check_now();
    };
  }
  check_now();
  scheduler_.after(check_random_.spread(50 * kMillisecond_ns, 5 * kSecond_ns), nullptr,
                   [this] { check_turn(); });
}

void World::check_now() {
  if (!initialised_ || corrupted_) return;
  check_primaries();
  check_parting();
  check_duplex_now();
  // What it costs grows with the volume.
  if (check_random_.chance(static_cast<double>(256 * kKiB) /
                           static_cast<double>(options_.volume_bytes)))
    check_crash();
}

void World::check_primaries() {
  if (split_host_ >= 0) return;
  for (const auto& each : nodes_)
    if (!each->running() || !each->engine().is_primary()) return;
  // Who is to go on as primary serves nobody before the peer has answered: one that was promoted meanwhile does not.
  for (const auto& each : nodes_)
    if (each->engine().status().mine.resumes) return;
  Report::violation("both nodes are primary" + describe());
}

// While all is well, only blocks of writes under way may differ, at any moment.
void World::check_duplex_now() {
  if (split_host_ >= 0 || dead_disk_host_ >= 0 || !both_duplex()) return;
  for (const auto& each : nodes_)
    if (each->data().has_failed()) return;
  if (node(0).engine().status().mine.generations.current !=
      node(1).engine().status().mine.generations.current)
    Report::violation("in duplex the nodes are in different generations" + describe());
  for (const auto& each : nodes_)
    if (const auto sectors = each->data().deceiving_sectors(); !sectors.empty())
      Report::violation("in duplex " + each->name() + "'s page cache shows in sector " +
                        std::to_string(sectors.front()) +
                        " what its disk does not hold, since a flush failed" + describe());
  const VirtualDisk &a = node(0).data(), &b = node(1).data();
  identical_ns_.resize((a.size_bytes() + limits::kBlockBytes - 1) / limits::kBlockBytes);
  for (uint64_t at = 0; at < a.size_bytes(); at += limits::kBlockBytes) {
    uint64_t& identical_ns = identical_ns_[at / limits::kBlockBytes];
    if (std::max(a.changed_ns(at), b.changed_ns(at)) < identical_ns) continue;
    const uint64_t length = std::min<uint64_t>(limits::kBlockBytes, a.size_bytes() - at);
    if (std::memcmp(a.contents().data() + at, b.contents().data() + at, length) == 0)
      identical_ns = scheduler_.now_ns();
    else if (!workload().writing(at, limits::kBlockBytes))
      Report::violation("in duplex the replicas differ at offset " + std::to_string(at) +
                        ", where no write is under way" + describe());
  }
}

// See crash_check.h.
void World::check_crash() {
  if (dead_disk_host_ >= 0 && !dead_is_metadata_ && !disk_passes_) {
    Random apart = check_random_;  // what the others draw stays what it was
    check_nobody_was_put_back(remains_of(node(0), node(1), apart), remains_of(node(1), node(0), apart));
    return;
  }
  look();
  // Both die, or one outlives the other.
  const int lives = static_cast<int>(check_random_.below(3)) - 1;
  const auto left = [&](int host) {
    if (host == lives && node(host).running()) return survivor(node(host), check_random_);
    return remains_of(node(host), node(1 - host), check_random_);
  };
  const Remains a = left(0), b = left(1);
  const Verdict verdict = decide(a.facts, b.facts);
  const std::string story = "a crash now (" + words(a) + "; " + words(b) + ") would lead to '" +
                            explain(verdict, node(1).name()) + "'";
  // A volume that clients have zeroed altogether looks like a disk that was lost, and is treated
  // so.
  if (a.facts.backing_lost || b.facts.backing_lost) return;
  for (const Remains* each : {&a, &b}) check_failed_flush(*each, node(each == &a ? 0 : 1), story);
  const bool blank = a.facts.blank || b.facts.blank;
  if (diverged_ && !ordered_) {
    if (!is_split_brain(verdict)) Report::violation(story + ", not to a split brain" + describe());
    for (const Remains* each : {&a, &b})
      check_survival(*each, side_of(each == &a ? 0 : 1).history, story);
  }
  if (is_split_brain(verdict) && split_host_ >= 0) {
    SyncFacts loser = a.facts, winner = b.facts;
    loser.discard = true;
    loser.gives_up = loser.state_id;
    loser.keep = winner.discard = winner.keep = false;
    check_sets(a, b, decide(loser, winner), story);
    return;
  }
  check_nobody_was_put_back(a, b);
  if (blank && (verdict == Verdict::kNotJoinable || verdict == Verdict::kPeerNotJoinable)) return;
  // Who goes on refuses rather than lose anything. Whether the two find together is seen at the end.
  if (lives >= 0 && node(lives).running() && !is_usable(verdict)) return;
  // Disks that were away for too long are refused, and not taken for anything.
  if (verdict == Verdict::kUnrelated && (swapped_[0] || swapped_[1])) return;
  const bool in_sync = verdict == Verdict::kInSync;
  // A primary without a disk goes on with the other one's data.
  const bool of_a = verdict == Verdict::kSoleCopy, of_b = verdict == Verdict::kDiskless;
  if (lives >= 0 && (of_a || of_b)) {
    if (split_host_ < 0) check_survival(of_a ? a : b, history(), story);
    return;
  }
  if (ordering_ && diverged(a.facts, b.facts) && (is_source(verdict) || is_target(verdict)))
    check_loss(is_target(verdict) ? 0 : 1, story);
  if (!in_sync && !is_source(verdict) && !is_target(verdict)) Report::violation(story + describe());
  check_sets(a, b, verdict, story);
  if (split_host_ >= 0) return;
  if (is_target(verdict) && lives != 0) check_left_behind(a, b, 0, story);
  if (is_source(verdict) && lives != 1) check_left_behind(b, a, 1, story);
  if (in_sync || is_source(verdict)) check_survival(a, history(), story);
  if (in_sync || is_target(verdict)) check_survival(b, history(), story);
  // (What a failing disk, or a full one, has taken all the same of a write that it failed, a client may have read; it
  // was promised to nobody.)
  for (const int host : {0, 1})
    if (const Remains& each = host == 0 ? a : b;
        dead_disk_host_ != host && !no_room_ && each.remembers && intact_[static_cast<size_t>(host)] &&
        current_[static_cast<size_t>(host)])
      check_survivor(each, is_target(verdict) ? b : a, story);
}

// Who was not, that is. (A first record has no room for sessions: who has just joined, and ends before the next one, gets
// all again.)
void World::check_nobody_was_put_back(const Remains& a, const Remains& b) {
  if (a.facts.blank || b.facts.blank || options_.faults.swap != 0 || options_.old_disk) return;
  // Without its disk a primary goes on beside its record, which says that it is stale; or, until its peer has on record
  // that it stands in, that what a flush was to write is lost, or nothing yet of a session that has just begun. Each is
  // copied anew, whichever sessions it was in.
  const auto stale = [this](const Remains& left, int host) {
    if (dead_disk_host_ < 0) return false;
    const bool diskless = node(host).running() && node(host).engine().volume_state() == VolumeState::kDiskless;
    return left.facts.inconsistent || left.facts.flush_failed || (dead_disk_host_ == host && diskless);
  };
  for (const Remains* each : {&a, &b})
    if (each->sessions_on_record && !stale(*each, each == &a ? 0 : 1) && missed_a_session(each->facts, (each == &a ? b : a).facts))
      Report::violation("after a crash now (" + words(a) + "; " + words(b) + ") " + each->fate +
                        " would pass for disks of the past" + describe());
}

// That a flush failed is soon on record, and stays there for as long as the page cache shows what the
// disk may not hold: the next process might find that out, and might not, where the kernel has dropped it
// or the host can't compare. (New metadata know nothing of it.)
void World::check_failed_flush(const Remains& left, SimNode& at, const std::string& story) {
  const auto self = static_cast<size_t>(at.host());
  if (!left.forgets_failed_flush || left.fate.find("killed") == std::string::npos ||
      !at.running() || at.pauses_total() > 0 || joins_[self] || forgets_flush_ == at.host())
    return;
  if (at.data().flush_failed()) {
    const uint64_t since_ns = std::max(at.data().flush_failed_ns(), hung_until_ns_[self]);
    const uint64_t enough_ns = 3 * kSecond_ns + 6 * at.metadata().faults.extra_delay_ns;
    if (!at.metadata().has_failed() && scheduler_.now_ns() > since_ns + enough_ns)
      Report::violation(story + ", and nobody would know that a flush failed on " + at.name() +
                        describe());
    return;
  }
  if (left.deceiving.empty() || !at.doubt_is_on_record()) return;
  Report::violation(story + ", and nobody would know any more that a flush failed on " + at.name() +
                    ", whose page cache shows in sector " + std::to_string(left.deceiving.front()) +
                    " what its disk does not hold" + describe());
}

void World::check_sets(const Remains& a, const Remains& b, Verdict verdict,
                       const std::string& story) {
  std::optional<uint64_t> wrong;
  if (verdict == Verdict::kInSync)
    wrong = first_difference(a.data, b.data);
  else if (verdict == Verdict::kSourceOfMap || verdict == Verdict::kTargetOfMap)
    wrong = first_uncovered(a, b);
  for (const Remains* each : {&a, &b}) {
    if (!each->facts.flush_failed) continue;
    // Such a target asks for all, which a story shows (dies_when_whole()).
    if (verdict == (each == &a ? Verdict::kTargetOfMap : Verdict::kSourceOfMap)) return;
    if (verdict == Verdict::kInSync && !wrong && !each->deceiving.empty())
      wrong = each->deceiving.front() * kSectorBytes;
  }
  if (wrong)
    Report::violation(story + ", but the replicas differ, or a failed flush may have lost, at offset " + std::to_string(*wrong) +
                      ", which is in neither's set (" + std::to_string(a.own.set_bytes()) +
                      " and " + std::to_string(b.own.set_bytes()) + " bytes)" + describe());
}

void World::check_survival(const Remains& source, const History& promised,
                           const std::string& story) {
  const auto sector = first_that_lacks(source, promised, History::Kept::kFlushed);
  if (!sector) return;
  Report::violation(story + ", and sector " + std::to_string(*sector) + " would be of " +
                    promised.describe(promised.number_said(*sector, source.data.sector(*sector))) +
                    ", which a write on stable storage had replaced" + describe());
}

// Who lacks what its peer has acknowledged alone remembers that this one was primary until it is marked
// as half-copied: else it would let itself be promoted, and nobody would have to say that the peer is dead.
void World::check_left_behind(const Remains& left, const Remains& other, int host,
                              const std::string& story) {
  const SyncFacts& facts = left.facts;
  if (!left_behind_[static_cast<size_t>(host)] || diverged_ || left.peer_primary || facts.blank ||
      facts.inconsistent || facts.flush_failed ||
      facts.generations.current == other.facts.generations.current)
    return;
  Report::violation(story + ", and until then " + node(host).name() +
                    " would let itself be promoted" + describe());
}

// What one holds that lost nothing from memory is not given up for less. (One that did may hold as much,
// by chance; so may one whose disk was given up for the peer's replica, which its record says. And who is primary now was made so by an operator, perhaps with the word that the other is
// dead.)
void World::check_survivor(const Remains& kept, const Remains& source, const std::string& story) {
  if (kept.facts.flush_failed || kept.facts.inconsistent || source.facts.primary ||
      first_that_lacks(kept, history(), History::Kept::kAll))
    return;
  const auto sector = first_that_lacks(source, history(), History::Kept::kAll);
  if (!sector) return;
  Report::violation(story + ", and sector " + std::to_string(*sector) + " would be of " +
                    history().describe(history().number_said(*sector, source.data.sector(*sector))) +
                    ", which an acknowledged write had replaced that is whole on the other one" +
                    describe());
}

// Nobody has said that the other node is dead: what that one holds of what was acknowledged, and this one
// lost with its memory, was not to be given up.
void World::check_promoted_without_word(int host) {
  if (corrupted_) return;
  const SimNode& other = node(1 - host);
  const auto kept_by = static_cast<size_t>(1 - host);
  if (survivor_ != 1 - host || !intact_[kept_by] || !current_[kept_by] || !other.running()) return;
  Random apart = check_random_;  // what the others draw stays what it was
  const Remains kept = survivor(node(1 - host), apart), has = survivor(node(host), apart);
  if (kept.facts.flush_failed || first_that_lacks(kept, history(), History::Kept::kAll)) return;
  const auto sector = first_that_lacks(has, history(), History::Kept::kAll);
  if (!sector) return;
  Report::violation(node(host).name() + " was promoted without the word that " + other.name() +
                    " is dead, and sector " + std::to_string(*sector) + " is of " +
                    history().describe(history().number_said(*sector, has.data.sector(*sector))) +
                    ", which an acknowledged write had replaced that is whole there" + describe());
}

// What was acknowledged until then, flushed or not.
void World::check_all_is_there(int host, const History& promised) {
  Random apart = check_random_;  // what the others draw stays what it was
  const Remains has = survivor(node(host), apart);
  const auto sector = first_that_lacks(has, promised, History::Kept::kAll);
  if (!sector) return;
  Report::violation(node(host).name() + "'s sector " + std::to_string(*sector) + " is of " +
                    promised.describe(promised.number_said(*sector, has.data.sector(*sector))) +
                    ", which an acknowledged write had replaced that its peer's host held" + describe());
}

void World::check_identical(const char* when) {
  const auto a = node(0).data().contents();
  const auto b = node(1).data().contents();
  for (size_t at = 0; at < a.size(); at += kSectorBytes) {
    if (std::memcmp(a.data() + at, b.data() + at, kSectorBytes) == 0) continue;
    const size_t sector = at / kSectorBytes;
    Report::violation(std::string("the replicas differ ") + when + ": sector " +
                      std::to_string(sector) + " is of " +
                      history().describe(history().number_of(sector, a.subspan(at, kSectorBytes))) +
                      " at alpha, of " +
                      history().describe(history().number_of(sector, b.subspan(at, kSectorBytes))) +
                      " at beta" + describe());
  }
}

// Where the time of writes went: nothing is missing, nothing counted twice.
void World::check_latency() {
  for (const auto& each : nodes_) {
    if (!each->running()) continue;
    const LatencyView latency = each->engine().figures().latency(Window::kStart);
    for (const LatencyView::Class& size : latency.classes) {
      uint64_t sum_ns = 0;
      for (const Distribution& stage : size.stages) sum_ns += stage.sum_ns;
      if (sum_ns != size.total.sum_ns)
        Report::violation("the stages of " + each->name() + "'s writes of " +
                          size_class_name(size.size_class) + " add up to " +
                          std::to_string(sum_ns) + " ns of " + std::to_string(size.total.sum_ns));
    }
  }
}

void World::check_answer(SimNode& at, const Workload::Request& request) {
  const ClientRequest& client = request.client;
  if (client.error != 0 && errors_allowed_) return;
  const bool fill = no_room_ && dead_disk_host_ < 0;
  if (client.error == ENOSPC && fill && request.number != 0) return;
  if (client.error != 0 && (fill || !error_is_due(at.host())) && !place_is_bad(at, request))
    Report::violation("the client of " + at.name() + " got error " + std::to_string(client.error) +
                      " for " +
                      (request.number != 0 ? side_of(at.host()).history.describe(request.number)
                                           : "a read or flush") +
                      describe());
  if (check_random_.chance(0.01)) check_now();
  // When the history has heard of it: what is acknowledged may not be given up by an order before.
  if (ordering_ && at.metadata().writing() && check_random_.chance(0.3))
    scheduler_.after(0, nullptr, [this] {
      if (ordering_) check_crash();
    });
  if (split_host_ >= 0) return;
  check_session();
  check_sole_copy(at, request);
  check_peer_knows(at, request);
  check_wait(at, request);
  if (client.op == ClientOp::kWrite || client.op == ClientOp::kZero) check_on_both(request);
}

// A primary whose disk has failed goes on only when its peer has it on record that it holds the
// only copy. Otherwise the two could take each other for equal after a crash.
void World::check_sole_copy(SimNode& at, const Workload::Request& request) {
  if (at.engine().volume_state() != VolumeState::kDiskless) {
    diskless_seen_ns_ = 0;
    return;
  }
  if (diskless_seen_ns_ == 0) diskless_seen_ns_ = scheduler_.now_ns();
  if (request.number == 0 || request.began_ns <= diskless_seen_ns_) return;
  const metadata::Generations recorded =
      remains_of(node(1 - at.host()), at, check_random_).facts.generations;
  if (recorded.current == recorded.base)
    Report::violation(node(1 - at.host()).name() + " does not know that it holds the only copy" +
                      describe());
  check_knows_to_be_stale(at);
}

// A metadata disk that hung for too long counts as failed for as long as the process lives.
bool World::has_given_up_metadata(SimNode& at) {
  return at.engine().status().disk_error.find("the metadata disk failed") != std::string::npos;
}

// … and it has it on record itself that its own is none, but where its metadata disk does not take that:
// else it would pass for current when it is back alone, and its disk can be read again.
void World::check_knows_to_be_stale(SimNode& at) {
  if (has_given_up_metadata(at) || at.metadata().has_failed() ||
      at.metadata().faults.hung_until_ns + kSecond_ns > scheduler_.now_ns())
    return;
  Random apart = check_random_;  // what the others draw stays what it was
  const Remains left = remains_of(at, node(1 - at.host()), apart);
  if (!left.facts.inconsistent)
    Report::violation(left.fate + ", " + at.name() + " would not know that " +
                      node(1 - at.host()).name() + " holds the only copy" + describe());
}

// What is acknowledged in duplex is on a peer that has it on record that this node is primary:
// otherwise a loss of power would leave one that lets itself be promoted beside it (invariant 6).
void World::check_peer_knows(SimNode& at, const Workload::Request& request) {
  if (at.engine().volume_state() != VolumeState::kDuplex) {
    duplex_seen_ns_ = 0;
    return;
  }
  const uint64_t now = scheduler_.now_ns();
  if (duplex_seen_ns_ == 0) duplex_seen_ns_ = now;
  const bool young = now - duplex_seen_ns_ < 50 * kMillisecond_ns;
  SimNode& peer = node(1 - at.host());
  if (request.number == 0 || request.began_ns < duplex_seen_ns_ || !peer.running() ||
      dead_disk_host_ >= 0 ||
      (!records_watched_ && !check_random_.chance(young ? 0.5 : 0.002)))
    return;
  const Remains left = remains_of(peer, at, check_random_);
  if (!left.peer_primary && !left.facts.inconsistent)
    Report::violation("a write was acknowledged in duplex, but " + left.fate + ", " + peer.name() +
                      " would not know that " + at.name() + " is primary" + describe());
}

// Nothing waits for a silent peer longer than the peer timeout, nor for a peer whose disk hangs longer than the disk
// timeout (or, in one request while it does others, kDiskPatience times that); each trouble may cost that once.
void World::check_wait(SimNode& at, const Workload::Request& request) {
  if (options_.freeze || slow_disks_ || clogged_until_ns_ > request.began_ns ||
      at.pauses_total() != request.pauses || at.paused() ||
      hung_until_ns_[static_cast<size_t>(at.host())] > request.began_ns)
    return;
  // Time in which a node stood still is nobody's silence.
  const uint64_t late = scheduler_.stood_still_total_ns() - request.late_ns;
  const uint64_t took = scheduler_.now_ns() - request.began_ns;
  const uint64_t waited = took - std::min(took, late);
  const uint64_t troubles = workload().troubles() - request.troubles + 1;
  uint64_t timeout_ns = options_.peer_timeout_ns;
  if (options_.session_lasts && options_.late_max_ns == 0 && !options_.hasty &&
      options_.faults.blackout == 0)
    timeout_ns = options_.link_timeout_ns;
  // A link that was given up wrongly again and again is waited for longer.
  for (const StatusView::Link& link : at.engine().status().links)
    timeout_ns = std::max(timeout_ns, link.silence_limit_ns);
  if (options_.faults.hang_disk > 0) timeout_ns = std::max(timeout_ns, options_.disk_timeout_ns);
  // A flush there that waits for its record is one request of many that hangs, while the disk of the data gets on.
  const bool stable = request.client.op == ClientOp::kFlush || request.client.fua;
  if (stable && metadata_hung_until_ns_[static_cast<size_t>(1 - at.host())] > request.began_ns)
    timeout_ns = std::max(timeout_ns, limits::kDiskPatience * options_.disk_timeout_ns);
  // Whoever has the only good replica is waited for once more when it is lost.
  const uint64_t once_more_ns = dead_disk_host_ == at.host() ? options_.peer_timeout_ns : 0;
  const uint64_t bound = troubles * (timeout_ns + 500 * kMillisecond_ns) + once_more_ns +
                         kSecond_ns;  // the disks of this simulation at their slowest
  if (waited > bound)
    Report::violation("a request waited " + std::to_string(waited / kMillisecond_ns) +
                      " ms, with " + std::to_string(troubles) + " troubles meanwhile" + describe());
}

// In duplex, an acknowledged write is in both page caches at that instant.
void World::check_on_both(const Workload::Request& request) {
  if (!both_duplex() || node(0).started_ns() > request.began_ns ||
      node(1).started_ns() > request.began_ns)
    return;
  for (int host = 0; host < 2; ++host) {
    if (!node(host).engine().status().disk_error.empty()) continue;
    const auto found = node(host).data().contents();
    const bool zero = request.client.op == ClientOp::kZero || request.client.all_zero;
    for (uint64_t at = 0; at < request.client.length_bytes; at += kSectorBytes) {
      const uint64_t offset = request.client.offset_bytes + at;
      const uint64_t number =
          history().number_said(offset / kSectorBytes, found.subspan(offset, kSectorBytes));
      if (number == (zero ? 0 : request.number)) continue;
      Report::violation("acknowledged in duplex, " + history().describe(request.number) +
                        " is not on " + node(host).name() + "'s disk: sector " +
                        std::to_string(offset / kSectorBytes) + " is of " +
                        history().describe(number) + describe());
    }
  }
}

}  // namespace twinblock::sim
