#include "volume/first_record.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "words/verdict_words.h"

namespace twinblock {
namespace {

// A peer's replica, as it was last heard.
std::string in_words(const SyncFacts& peer) {
  return "volume " + metadata::format_uuid(peer.volume_uuid) + ", generation " +
         metadata::format_generation(peer.generations.current) + " since " +
         format_time(peer.since_s) + ", term " + std::to_string(peer.term) + ", with " +
         format_size(peer.dirty_bytes) + " that others may miss";
}

}  // namespace

// Which volume, and which state of it, this node's metadata stands for.
std::string FirstRecord::described_history() const {
  const metadata::NodeRecord& record = core_.record();
  return "volume " + metadata::format_uuid(record.volume_uuid) + ", generation " +
         metadata::format_generation(record.generations.current) + " since " +
         format_time(record.generation_since_s) +
         (record.inconsistent ? ", half-copied: a mixture of old and new data" : "");
}

// What becomes of the peer's replica beside a volume that begins here, and what is to be done next.
std::string FirstRecord::beside_peer() const {
  const std::string &volume = core_.config.volume, &peer = core_.peer;
  const auto& theirs = session().handshake().peer_facts();
  const bool was_blank = core_.state().blank();
  const std::string promote = ". Next: twinblock promote " + volume;
  // One that was blank when a session came of it has a record since.
  const auto& verdict = session().handshake().last_verdict();
  const bool is_blank = theirs && theirs->blank && !(verdict && is_usable(*verdict));
  if (is_blank)
    return (theirs->joinable ? "; " + peer + " will be copied from this node"
                             : "; " + peer + "'s backing holds data or may hold some: to have it copied from this node, " +
                                   advise(Verdict::kPeerNotJoinable, volume, peer)) +
           promote;
  if (!was_blank)
    return ". The replica on " + peer + (theirs && !theirs->blank ? " (" + in_words(*theirs) + ")" : "") +
           " has nothing in common with this one any more: it is refused until its metadata file is moved away and it joins "
           "anew" +
           (core_.record().inconsistent ? ". The data here counts as good from now on: check it first" : "") + promote;
  if (!theirs) return "; " + peer + " is copied from this node if it is blank" + promote;
  return "; " + peer + " holds another volume (" + in_words(*theirs) +
         "), which has nothing in common with this one: it is refused until one of the two joins the other anew. Next: " +
         advise(Verdict::kUnrelated, volume, peer);
}

void FirstRecord::init(bool force, bool join, Reply reply) {
  const std::string& volume = core_.config.volume;
  const auto& peer = session().handshake().peer_facts();
  if (const char* what = core_.stance().changing()) {
    reply(Error{std::string("the volume is just ") + what + " here", "try again when that has ended, or restart twinblockd", EBUSY});
    return;
  }
  if (core_.intents().creating()) {
    reply(Error{"this node's metadata is being made just now", "try again", EBUSY});
    return;
  }
  if (!disks_.local_ok()) {
    reply(Error{"this node's disk has failed: no volume can begin there",
                "see `twinblock status " + volume + "`, and start twinblockd anew when the disk is well", EIO});
    return;
  }
  if (!core_.state().blank() && join) {
    reply(Error{"this node is already initialised and can't join anew: it holds " +
                    described_history(),
                "where it is only behind, nothing needs to be done. To have all of it copied anew, "
                "stop twinblockd here, move " +
                    core_.config.node(core_.node).metadata +
                    " away, start it and run `twinblock init " + volume + " --join`",
                EEXIST});
    return;
  }
  if (!core_.state().blank() && !force) {
    reply(Error{"this node is already initialised: it holds " + described_history(),
                "nothing needs to be done; to begin a new history here, which makes the peer's "
                "replica worthless, use --force",
                EEXIST});
    return;
  }
  if (roles_.role() != Role::kSecondary || roles_.resumption().under_way() || session().up()) {
    reply(Error{"this node is in use: init would replace its metadata",
                "demote this node and stop twinblockd on " + core_.peer + " first", EBUSY});
    return;
  }
  if (join) {
    order_join(std::move(reply));
    return;
  }
  if (core_.state().blank() && peer && !peer->blank && !force) {
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
  std::string forgotten;
  if (!core_.state().blank())
    forgotten = "; what was here is forgotten: " + described_history() + ", with " +
                format_size(core_.differences().dirty().set_bytes()) + " that " + core_.peer + " may miss";
  const std::string said = forgotten + beside_peer();
  const bool warns = !forgotten.empty() || (peer && !peer->blank);
  metadata::NodeRecord record;
  record.volume = volume;
  record.node = core_.node;
  record.size_bytes = core_.volume_bytes();
  for (size_t i = 0; i < record.volume_uuid.size(); i += sizeof(uint64_t)) {
    const uint64_t random = core_.random();
    std::memcpy(record.volume_uuid.data() + i, &random, sizeof random);
  }
  record.generations.current = record.generations.base = core_.random();
  record.generation_since_s = core_.clock.wall_ns() / kSecond_ns;
  record.region_bytes = core_.intents().region_bytes();
  record.held_data = core_.state().backing().found() == DataFound::kSome ||
                     (core_.record().held_data && !core_.state().backing().lost());
  core_.state().begin_volume(record);
  gate_.close();
  core_.join_order().take_back();  // an earlier one
  core_.differences().clear_all();
  core_.differences().set_valid(true);
  auto recorded = [this, reply = std::move(reply), said, warns](int error) {
    if (error != 0) {
      core_.state().volume_not_begun();
      reply(disks_.why_metadata_failed(error));
      return;
    }
    core_.log.log(warns ? Severity::kWarning : Severity::kInfo,
                  "initialised: volume " + metadata::format_uuid(core_.record().volume_uuid) + said);
    core_.events().tell(
        "initialised",
        {{"node", core_.node}, {"volume_uuid", metadata::format_uuid(core_.record().volume_uuid)}});
    owner_.note_state();
    session().poke();
    reply("initialised" + said);
  };
  write(std::move(recorded));
}

// This node's data is to be overwritten by the volume that the peer is known to hold: another one
// would be another order.
void FirstRecord::order_join(Reply reply) {
  const auto& peer = session().handshake().peer_facts();
  const bool known = peer && !peer->blank;
  core_.join_order().give(known ? peer->volume_uuid : metadata::Uuid{});
  const std::string mine = core_.config.node(core_.node).backing;
  const std::string lost =
      core_.state().backing().found() == DataFound::kNone
          ? mine + " held no data when this process began; it will be filled"
          : "all that " + mine + " holds (up to " + format_size(core_.volume_bytes()) + ") will be overwritten";
  core_.log.log(Severity::kWarning, "by the operator's order " + lost + " from " + core_.peer);
  session().poke();
  reply(lost + " from " + core_.peer + "'s replica as soon as the two are connected" +
        (known ? ": " + in_words(*peer) + ". Should " + core_.peer +
                     " hold another volume by then, the order is void"
               : "; what " + core_.peer + " holds is not known yet"));
}

// The intent map first: the superblock makes it count.
void FirstRecord::write(metadata::SuperblockStore::Done done) {
  core_.intents().create(metadata::intent_tag(core_.record().volume_uuid),
                         [this, done = std::move(done)](int error) {
                           if (error != 0)
                             done(error);
                           else
                             persist_all(done);
                         });
}

// The first record has no room for the session that the node joins in, nor for the backing.
void FirstRecord::persist_all(const metadata::SuperblockStore::Done& done) {
  core_.state().persist([this, done](int error) {
    if (error == 0 && (core_.record().sessions != metadata::Sessions{} || core_.record().backing_number != 0))
      core_.state().persist(done);
    else
      done(error);
  });
}

}  // namespace twinblock
