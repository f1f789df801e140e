// init, promote and demote: how a node comes to hold a volume and to write it.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "base/checks.h"
#include "base/limits.h"
#include "volume/engine.h"

namespace twinblock {

// Which volume, and which state of it, this node's metadata stands for.
std::string Engine::described_history() const {
  const metadata::NodeRecord& record = core_.record;
  return "volume " + metadata::format_uuid(record.volume_uuid) + ", generation " +
         metadata::format_generation(record.generations.current) + " since " +
         format_time(record.generation_since_s) +
         (record.inconsistent ? ", half-copied: a mixture of old and new data" : "");
}

void Engine::init(bool force, bool join, Reply reply) {
  const std::string& volume = core_.config.volume;
  const auto& peer = session_.peer_facts();
  if (intents_.creating()) {
    reply(Error{"this node's metadata is being made just now", "try again", EBUSY});
    return;
  }
  if (!core_.blank && !force) {
    reply(Error{"this node is already initialised: it holds " + described_history(),
                "nothing needs to be done; to begin a new history here, which makes the peer's "
                "replica worthless, use --force",
                EEXIST});
    return;
  }
  if (role_ != Role::kSecondary || session_.up()) {
    reply(Error{"this node is in use: init would replace its metadata",
                "demote this node and stop twinblockd on " + core_.peer + " first", EBUSY});
    return;
  }
  if (join) {
    if (!core_.blank) {
      reply(Error{"this node is already initialised and can't join anew",
                  "stop twinblockd, move " + core_.config.node(core_.node).metadata +
                      " away, start it and run `twinblock init " + volume + " --join`",
                  EEXIST});
      return;
    }
    order_join(std::move(reply));
    return;
  }
  if (core_.blank && peer && !peer->blank && !force) {
    reply(Error{core_.peer + " is initialised already (volume " +
                    metadata::format_uuid(peer->volume_uuid) + ")",
                "this node joins it: by itself where its backing is empty, else after `twinblock "
                "init " +
                    volume + " --join`, which overwrites this node's data",
                EEXIST});
    return;
  }
  if (const int error = disks_.metadata_error(); error != 0) {
    reply(disks_.why_metadata_failed(error));
    return;
  }
  const std::string destroyed =
      core_.blank ? std::string()
                  : "; what was here is forgotten: " + described_history() + ", with " +
                        format_size(core_.dirty.set_bytes()) + " that " + core_.peer +
                        " may miss. The replica on " + core_.peer +
                        (peer && !peer->blank ? " (" + replica_in_words(*peer) + ")" : "") +
                        " has nothing in common with this one any more: it is refused until its "
                        "metadata file is moved away and it joins anew" +
                        (core_.record.inconsistent
                             ? ". The data here counts as good from now on: check it first"
                             : "");
  metadata::NodeRecord record;
  record.volume = volume;
  record.node = core_.node;
  record.size_bytes = core_.config.size_bytes;
  for (size_t i = 0; i < record.volume_uuid.size(); i += sizeof(uint64_t)) {
    const uint64_t random = core_.random();
    std::memcpy(record.volume_uuid.data() + i, &random, sizeof random);
  }
  record.generations.current = record.generations.base = core_.random();
  record.generation_since_s = core_.clock.wall_ns() / kSecond_ns;
  record.region_bytes = intents_.region_bytes();
  record.flush_failed = core_.record.flush_failed;  // a new history does not mend a disk
  core_.record = record;
  core_.move_on();
  gate_.close();
  core_.blank = false;
  core_.joinable = false;  // an earlier order to join is taken back
  core_.crashed = core_.backing_lost = core_.took_over = false;
  core_.map_valid = true;
  core_.dirty.clear_all();
  core_.coarse.clear_all();
  auto recorded = [this, reply = std::move(reply), destroyed](int error) {
    if (error != 0) {
      core_.blank = true;
      reply(disks_.why_metadata_failed(error));
      return;
    }
    log(destroyed.empty() ? Severity::kInfo : Severity::kWarning,
        "initialised: volume " + metadata::format_uuid(core_.record.volume_uuid) + destroyed);
    core_.events.tell(
        "initialised",
        {{"node", core_.node}, {"volume_uuid", metadata::format_uuid(core_.record.volume_uuid)}});
    note_state();
    session_.poke();
    reply("initialised" +
          (destroyed.empty() ? "; " + core_.peer + " will be copied from this node" : destroyed) +
          ". Next: twinblock promote " + core_.config.volume);
  };
  create_metadata(std::move(recorded));
}

// This node's data is to be overwritten by the volume that the peer is known to hold: another one
// would be another order.
void Engine::order_join(Reply reply) {
  const auto& peer = session_.peer_facts();
  const bool known = peer && !peer->blank;
  core_.joinable = true;
  core_.joins = known ? peer->volume_uuid : metadata::Uuid{};
  const std::string mine = core_.config.node(core_.node).backing;
  const std::string lost =
      backing_is_empty_ ? mine + " holds no data that could be lost; it will be filled"
                        : "all that " + mine + " holds (up to " +
                              format_size(core_.config.size_bytes) + ") will be overwritten";
  log(Severity::kWarning, "by the operator's order " + lost + " from " + core_.peer);
  session_.poke();
  reply(lost + " from " + core_.peer + "'s replica as soon as the two are connected" +
        (known ? ": " + replica_in_words(*peer) + ". Should " + core_.peer +
                     " hold another volume by then, the order is void"
               : "; what " + core_.peer + " holds is not known yet"));
}

// A peer's replica, as it was last heard.
std::string Engine::replica_in_words(const SyncFacts& peer) {
  return "volume " + metadata::format_uuid(peer.volume_uuid) + ", generation " +
         metadata::format_generation(peer.generations.current) + " since " +
         format_time(peer.since_s) + ", term " + std::to_string(peer.term) + ", with " +
         format_size(peer.dirty_bytes) + " that others may miss";
}

// The intent map first: the superblock makes it count.
void Engine::create_metadata(metadata::SuperblockStore::Done done) {
  intents_.create(metadata::intent_tag(core_.record.volume_uuid),
                  [this, done = std::move(done)](int error) {
                    if (error != 0)
                      done(error);
                    else
                      core_.persist(done);
                  });
}

// What is wrong with this node, whatever the peer does.
std::optional<Error> Engine::why_not_serve() const {
  const std::string& volume = core_.config.volume;
  if (core_.blank)
    return Error{"this node is not initialised", "run `twinblock init " + volume + "` first", 0};
  if (role_ != Role::kSecondary)
    return Error{"this node is changing its role just now", "try again", EBUSY};
  if (stopping_) return Error{"this node is stopping", "", ESHUTDOWN};
  if (!disks_.local_ok())
    return Error{system_error(disks_.data_error(), "this node's disk failed").what,
                 "replace the disk, then restart twinblockd", disks_.data_error()};
  if (session_.up() && being_resynced_)
    return Error{"this replica is being brought up to date by " + core_.peer,
                 "wait for it: twinblock wait " + volume + " --for promotable --progress", EBUSY};
  if (core_.record.flush_failed)
    return Error{"a flush failed here earlier: what this node reads may not be on its disk",
                 "start twinblockd on " + core_.peer +
                     ", which brings this node up to date; without it, restart this host, after "
                     "which the disk tells what it holds",
                 EIO};
  if (core_.record.inconsistent)
    return Error{
        "this replica is half-copied: serving it would serve a mixture of old and new data",
        "start twinblockd on " + core_.peer + ", which finishes the copy", 0};
  return std::nullopt;
}

bool Engine::peer_is_primary_in_session() const {
  return session_.up() && (peer_role_ == PeerRole::kPrimary || core_.record.peer_primary);
}

std::optional<Error> Engine::why_not_promote(bool peer_is_dead) const {
  const std::string& volume = core_.config.volume;
  if (auto error = why_not_serve()) return error;
  if (peer_is_primary_in_session())
    return Error{core_.peer + " is primary", "run `twinblock demote " + volume + "` there first",
                 EBUSY};
  if (!session_.up() && core_.backing_lost && !peer_is_dead)
    return Error{core_.config.node(core_.node).backing +
                     " holds no data at all, although this node was initialised",
                 "is it mounted? If the disk was replaced, wait for " + core_.peer +
                     "; if nothing was ever written, use --peer-is-dead",
                 0};
  if (!session_.up() && (core_.record.peer_primary || refused_peer_is_primary()) && !peer_is_dead)
    return Error{core_.peer + " was primary when it was last heard, and may still be writing",
                 "make sure that it is powered off or cut off, then use --peer-is-dead", EBUSY};
  return std::nullopt;
}

// A peer that was refused last has said so without a session.
bool Engine::refused_peer_is_primary() const {
  const auto verdict = session_.last_verdict();
  return verdict && !is_usable(*verdict) && session_.peer_facts() && session_.peer_facts()->primary;
}

void Engine::promote(bool peer_is_dead, Reply reply) {
  if (role_ == Role::kPrimary && !stopping_) {
    reply(std::string("this node is primary already"));
    return;
  }
  if (loss_wait_) {
    reply(Error{"a promotion waits here already for the session with " + core_.peer + " to end",
                "wait for its answer", EBUSY});
    return;
  }
  if (peer_is_dead && peer_is_primary_in_session() && !why_not_serve()) {
    wait_for_loss(std::move(reply));
    return;
  }
  if (auto error = why_not_promote(peer_is_dead)) {
    reply(*std::move(error));
    return;
  }
  role_ = Role::kPromoting;
  promote_word_ = peer_is_dead;
  promote_reply_ = std::move(reply);
  if (session_.up()) {
    wire::FrameHeader header = wire::header_of(wire::FrameType::kPromoteAsk);
    header.sequence = ++promote_question_;
    header.offset = next_term();
    session_.send(header);
  } else if (!replica_.draining()) {
    become_primary();
    return;
  }
  // Without a session, writes that the lost one had brought end first: they would land on top of
  // the new clients' (invariant 4). With the word that the peer is dead, the loss of the session may
  // come as late as its answer would.
  promote_timer_->arm(core_.config.peer_timeout_ns * (peer_is_dead ? 2 : 1));
}

// At most one node of a session becomes primary: the one that was asked has recorded the other's
// right before it says yes.
void Engine::handle_promote_ask(const wire::FrameHeader& ask) {
  const bool contested = role_ == Role::kPromoting && core_.node < core_.peer;
  if (role_ == Role::kPrimary || role_ == Role::kDemoting || contested || core_.blank) {
    wire::FrameHeader header = wire::header_of(wire::FrameType::kPromoteAnswer);
    header.sequence = ask.sequence;
    header.status = EBUSY;
    session_.send_small(header, wire::text_bytes(core_.node + " is primary or about to become it"));
    return;
  }
  if (role_ == Role::kPromoting)
    promotion_ended(Error{core_.peer + " is being promoted at the same time", "", EBUSY});
  if (asked_record_) {
    bad_frame(ask);
    return;
  }
  asked_record_ = true;
  core_.record.peer_primary = true;
  hear_term(ask.offset);
  core_.persist([this, number = session_number_, question = ask.sequence](int error) {
    if (number != session_number_ || !session_.up()) return;
    wire::FrameHeader header = wire::header_of(wire::FrameType::kPromoteAnswer);
    header.sequence = question;
    header.status = static_cast<uint32_t>(error);
    session_.send_small(header,
                        wire::text_bytes(error == 0 ? "yes" : core_.node + "'s metadata failed"));
    asked_record_ended();
  });
}

void Engine::handle_promote_answer(const wire::Frame& frame) {
  // An answer to a question that is not waited for any more: the peer was told so (send_role()), and
  // has taken back what it recorded for it.
  if (!promote_timer_->armed() || frame.header.sequence != promote_question_) return;
  promote_timer_->disarm();
  if (frame.header.status == 0)
    become_primary();
  else
    promotion_ended(Error{core_.peer + " refuses: " + wire::printable(frame.payload), "",
                          static_cast<int>(frame.header.status)});
}

void Engine::become_primary() {
  promote_timer_->disarm();
  // What a dead primary had under way may be on one of the two disks only; it tells which blocks
  // those are when it returns.
  if (!session_.up() && core_.record.peer_primary) core_.took_over = true;
  before_promotion_ = {core_.record.primary, core_.record.peer_primary};
  core_.record.term = next_term();
  core_.record.snapshot = false;
  core_.alone_allowed = false;
  core_.move_on();  // orders did not name what is written from now on
  core_.record.primary = true;
  core_.record.peer_primary = false;
  note_peer_process();
  core_.persist([this](int error) {
    if (role_ != Role::kPromoting) return;
    if (error != 0) {
      promotion_ended(disks_.why_metadata_failed(error));
      return;
    }
    role_ = Role::kPrimary;
    update_local_reads();
    if (session_.up()) {
      send_role();
      receives_ = false;
      if (in_sync_) attach(Attachment::kDuplex);
    }
    log(Severity::kInfo, "promoted to primary");
    core_.events.tell("role", {{"node", core_.node}, {"role", "primary"}});
    note_state();
    promotion_ended(std::string("this node is primary"));
  });
}

void Engine::promotion_ended(Result<std::string> result) {
  promote_timer_->disarm();
  if (role_ == Role::kPromoting) take_promotion_back();
  before_promotion_.reset();
  if (!result.ok() && session_.up()) send_role();  // the peer takes its yes back
  if (Reply reply = std::exchange(promote_reply_, nullptr)) reply(std::move(result));
}

// What become_primary() may have put on record already: a node that never served anybody may not be
// taken for a primary that crashed, nor forget that its peer was one.
void Engine::take_promotion_back() {
  role_ = Role::kSecondary;
  if (!before_promotion_) return;
  core_.record.primary = before_promotion_->primary;
  core_.record.peer_primary = core_.record.peer_primary || before_promotion_->peer_primary;
  core_.persist([](int) {});
}

void Engine::send_role() {
  wire::FrameHeader header = wire::header_of(wire::FrameType::kRole);
  header.sequence = role_ == Role::kSecondary ? 0 : 1;
  header.offset = core_.record.term;
  session_.send(header);
}

void Engine::handle_role(const wire::FrameHeader& header) {
  const bool primary = header.sequence != 0;
  if (primary && role_ != Role::kSecondary) {
    bad_frame(header);
    return;
  }
  // A peer that asked and did not wait any longer: it must not be told yes now.
  if (held_frame_ && wire::FrameType{held_frame_->header.type} == wire::FrameType::kPromoteAsk)
    held_frame_.reset();
  peer_role_ = primary ? PeerRole::kPrimary : PeerRole::kSecondary;
  log(Severity::kInfo, core_.peer + (primary ? " is primary now" : " is secondary now"));
  core_.events.tell("role", {{"node", core_.peer}, {"role", primary ? "primary" : "secondary"}});
  if (before_promotion_) before_promotion_->peer_primary = false;
  if (!core_.blank && core_.record.peer_primary != primary) {
    core_.record.peer_primary = primary;
    hear_term(header.offset);
    core_.persist([](int) {});
  }
  // A peer without a disk has nothing to do here but to be primary.
  if (holds_sole_copy_ && !primary)
    session_.drop(core_.peer + " is no longer primary, and its disk failed",
                  limits::kPeerDiskRetry_ns);
}

// So that a promotion here has a higher term than any that this node has heard of. Not taken over
// as its own: after a crash of both, the node that was promoted is the later one.
void Engine::hear_term(uint64_t term) {
  core_.record.heard_term = std::max(core_.record.heard_term, term);
}

uint64_t Engine::next_term() const {
  const uint64_t last = std::max(core_.record.term, core_.record.heard_term);
  return std::max(last, last + 1);  // what a peer tells must not begin anew at 0
}

void Engine::demote(Reply reply) {
  if (role_ == Role::kSecondary) {
    reply(std::string("this node is secondary already"));
    return;
  }
  if (role_ != Role::kPrimary) {
    reply(Error{"this node is changing its role just now", "try again", EBUSY});
    return;
  }
  if (clients_ > 0) {
    reply(Error{"the export is in use by " + std::to_string(clients_) +
                    (clients_ == 1 ? " client" : " clients"),
                (core_.frozen() ? "their writes wait for " + core_.peer +
                                      ": start twinblockd there, or run `twinblock continue " +
                                      core_.config.volume + "`; then detach"
                                : "detach first") +
                    ": twinblock detach " + core_.config.volume,
                EBUSY});
    return;
  }
  TB_CHECK(writes_.idle() && reads_.idle(), "a client closes after its last answer");
  role_ = Role::kDemoting;
  update_local_reads();
  demote_reply_ = std::move(reply);
  verifier_.stop("this node was demoted");
  core_.alone_allowed = true;  // nobody's writes wait; the flush need not wait for the peer either
  flush_for_demotion();
}

void Engine::flush_for_demotion() {
  if (verifier_.ending()) {
    demote_timer_->arm(kMillisecond_ns);
    return;
  }
  flushes_.flush([this](int error) { finish_demotion(error); });
}

// A demotion promises what a flush does. Where the disk has failed and the peer is away, nobody can.
Error Engine::demotion_flush_error(int error) const {
  if (disks_.local_ok()) return system_error(error, "flush before demotion");
  return Error{"what was written last is on no stable storage: this node's disk failed, and " +
                   core_.peer + " is away",
               "start twinblockd on " + core_.peer +
                   ", which flushes what it holds; or stop this node, and what was not flushed "
                   "there may be lost if " +
                   core_.peer + " lost power",
               error};
}

void Engine::finish_demotion(int flush_error) {
  if (flush_error != 0) {
    demotion_done(demotion_flush_error(flush_error));
    return;
  }
  // Blocks that a resync moves from the dirty map to an open epoch would be missing in a snapshot.
  const bool precise = core_.map_valid && !core_.attached() && core_.epochs.empty();
  if (precise && !core_.dirty.empty())
    write_snapshot();
  else
    record_demotion();
}

// The next start then knows what the peer misses by the block and not by the region.
void Engine::write_snapshot() {
  auto copy = std::make_shared<BlockMap>(core_.config.size_bytes);
  copy->merge(core_.dirty);
  const auto written = [this, copy, number = session_number_](int error, uint64_t bytes,
                                                              uint32_t crc) {
    // A session that has begun meanwhile may have made the set larger.
    const bool valid = error == 0 && number == session_number_;
    core_.record.snapshot = valid;
    core_.record.snapshot_bytes = valid ? bytes : 0;
    core_.record.snapshot_crc = valid ? crc : 0;
    if (error != 0)
      log(Severity::kWarning, system_error(error, "the list of blocks that " + core_.peer +
                                                      " misses could not be written to " +
                                                      core_.config.node(core_.node).metadata)
                                      .what +
                                  "; after a restart, whole regions are compared instead");
    record_demotion();
  };
  snapshot_->write(*copy, written);
}

void Engine::record_demotion() {
  core_.record.primary = false;
  core_.record.dirty = core_.took_over || !core_.dirty.empty() || !core_.epochs.empty();
  core_.record.held_data = core_.record.held_data || core_.data_flushed;
  core_.persist([this](int error) {
    if (error != 0)
      demotion_done(disks_.why_metadata_failed(error));
    else
      demotion_done(std::string("this node is secondary"));
  });
}

void Engine::demotion_done(Result<std::string> result) {
  role_ = result.ok() ? Role::kSecondary : Role::kPrimary;
  core_.record.primary = !result.ok();
  update_local_reads();
  if (result.ok()) {
    log(Severity::kInfo, "demoted to secondary");
    core_.events.tell("role", {{"node", core_.node}, {"role", "secondary"}});
    in_sync_ = core_.attachment == Attachment::kDuplex;
    receives_ = in_sync_;
    if (core_.attachment != Attachment::kResync) attach(Attachment::kNone);
    if (session_.up()) send_role();
    session_.poke();  // a peer that was refused may order by what this node holds from now on
  }
  note_state();
  if (Reply reply = std::exchange(demote_reply_, nullptr)) reply(std::move(result));
}

}  // namespace twinblock
