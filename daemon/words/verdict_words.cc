#include "words/verdict_words.h"

#include <array>

#include "words/peer_words.h"

namespace twinblock {

namespace {

struct VerdictRow {
  Verdict verdict;
  const char* sentence;  // %P stands for the peer's name
  const char* advice;    // %V for the volume's
};

constexpr std::array<VerdictRow, wire::kVerdictLast> kVerdicts{{
    {Verdict::kInSync, "both replicas are the same", ""},
    {Verdict::kSourceOfMap, "%P is sent the blocks that it missed", ""},
    {Verdict::kTargetOfMap, "this node receives the blocks that it missed from %P", ""},
    {Verdict::kSourceOfAll, "%P is sent the whole volume", ""},
    {Verdict::kTargetOfAll, "this node receives the whole volume from %P", ""},
    {Verdict::kWaitForInit,
     "neither node has been initialised",
     "run `twinblock init %V` on the node whose data is to be kept"},
    {Verdict::kPeerNotJoinable,
     "%P has no metadata, and joining would overwrite its backing, which holds data or may hold some",
     "on %P run `twinblock init %V --join` to let its data be overwritten"},
    {Verdict::kNotJoinable,
     "this node has no metadata, and joining would overwrite its backing, which holds data or may hold some",
     "run `twinblock init %V --join` here to let this node's data be overwritten by %P's"},
    {Verdict::kUnrelated,
     "%P holds another volume, or a state of this one that is too old to be recognised: the two "
     "have nothing in common",
     "check that both nodes use the right backing and metadata; to throw one replica away, stop "
     "that node, move its metadata file away, start it and run `twinblock init %V --join` there"},
    {Verdict::kSplitBrain,
     "split brain: this node and %P both accepted writes that the other does not have",
     "decide whose writes to give up: `twinblock resolve %V --keep local` keeps this node's, "
     "`--keep peer` %P's; both first say what will be lost"},
    {Verdict::kBothPrimary,
     "this node and %P are both primary",
     "run `twinblock demote %V` on one of them"},
    {Verdict::kPeerOutdated,
     "%P is primary on older data than this node's",
     "run `twinblock demote %V` on %P, so that it can be brought up to date"},
    {Verdict::kOutdated,
     "this node is primary on older data than %P's",
     "run `twinblock demote %V` here, so that this node can be brought up to date"},
    {Verdict::kNoGoodCopy,
     "the replica that counts is not whole and can't be copied from",
     "restore the volume from a backup; or go back to the other replica: stop the node whose "
     "replica is not whole, move its metadata file away, start it and run `twinblock init %V --join` there"},
    {Verdict::kPeerDiskFailed,
     "%P's disk fails",
     "`twinblock status %V` on %P says which one it is; replace the disk, then restart twinblockd there; if it held the data, move "
     "the metadata file away before the start"},
    {Verdict::kDiskFailed,
     "this node's disk fails",
     "`twinblock status %V` here says which one it is; replace the disk, then restart twinblockd; if it held the data, move the "
     "metadata file away before the start"},
    {Verdict::kSoleCopy, "%P is primary, but its disk failed: it works on this node's replica", ""},
    {Verdict::kDiskless, "this node's disk failed: it works on %P's replica", ""},
    {Verdict::kPeerCantGoOn,
     "%P is primary without a disk of its own, and this host was started anew: what it had in memory "
     "only, of what %P has acknowledged since its last flush, is lost",
     "stop twinblockd on %P, then run `twinblock promote %V --peer-is-dead` here: clients go on with "
     "what is on this node's disk"},
    {Verdict::kCantGoOn,
     "this node is primary without a disk of its own, and %P's host was started anew: what it had in "
     "memory only, of what this node has acknowledged since its last flush, is lost",
     "stop twinblockd here, then run `twinblock promote %V --peer-is-dead` on %P: clients go on with "
     "what is on its disk"},
    {Verdict::kPeerMustDemote,
     "split brain: %P's writes are to be given up, but %P is still primary",
     "run `twinblock demote %V` on %P; it is then brought to this node's state"},
    {Verdict::kMustDemote,
     "split brain: this node's writes are to be given up, but this node is still primary",
     "run `twinblock demote %V` here; this node is then brought to %P's state"},
    {Verdict::kOrdersContradict,
     "split brain: the orders to resolve it contradict each other",
     "run `twinblock resolve %V --keep …` again on one of the nodes, so that both mean the same "
     "writes"},
    {Verdict::kOrderVoid,
     "split brain: the order to resolve it is void, as the side that it gave up has moved on since",
     "demote that side first, so that it stays as it is; then look at what would be lost now, and "
     "give the order anew: `twinblock resolve %V --keep …`"},
    {Verdict::kPeerJoinVoid,
     "%P was ordered to join another volume than this node's, which it was not told of",
     "on %P run `twinblock init %V --join` again, to let its data be overwritten by this node's"},
    {Verdict::kJoinVoid,
     "this node was ordered to join another volume than the one that %P holds now",
     "run `twinblock init %V --join` here again, to let this node's data be overwritten by %P's"},
}};

constexpr const VerdictRow& row_of(Verdict verdict) {
  return kVerdicts[static_cast<size_t>(verdict) - wire::kVerdictFirst];
}

// Every code has its row.
constexpr bool verdicts_have_words() {
  for (size_t i = 0; i < kVerdicts.size(); ++i) {
    const VerdictRow& row = kVerdicts[i];
    if (static_cast<size_t>(row.verdict) != i + wire::kVerdictFirst || row.sentence == nullptr || row.advice == nullptr)
      return false;
  }
  return true;
}
static_assert(verdicts_have_words());

// Instead of kNoGoodCopy's, where no data were found in the backing of the replica that counts: it may be another disk.
struct SpecialWords {
  const char* sentence;
  const char* advice;
};
constexpr SpecialWords kLostHere{
    "this node's backing holds nothing but zeroes, as far as was read, although it held data, and %P's replica is not "
    "current",
    "see whether the right disk is attached here; if not, attach it and restart twinblockd. If it is the right one, "
    "and nothing was ever written, or all was trimmed, run `twinblock promote %V --peer-is-dead` here. If its data are gone for good: "
    "restore the volume from a backup, or go back to %P's replica, without what it misses: stop this node, move its "
    "metadata file away, start it and run `twinblock init %V --join` here"};
constexpr SpecialWords kLostThere{
    "%P's backing holds nothing but zeroes, as far as was read, although it held data, and this node's replica is not "
    "current",
    "see whether the right disk is attached on %P; if not, attach it and restart twinblockd there. If it is the right "
    "one, and nothing was ever written, or all was trimmed, run `twinblock promote %V --peer-is-dead` on %P. If its data are gone for "
    "good: restore the volume from a backup, or go back to this node's replica, without what it misses: stop %P, move "
    "its metadata file away, start it and run `twinblock init %V --join` there"};

constexpr SpecialWords kLostOnBoth{
    "the backings of both nodes hold nothing but zeroes, as far as was read, although they held data",
    "see whether the right disks are attached on both hosts; if not, attach them and restart twinblockd there. If they are the right "
    "ones, and all was trimmed, run `twinblock promote %V --peer-is-dead` on one. If the data are gone for good: do that, and restore "
    "the volume from a backup"};

// … and where the backing of the one that would count is not what its record is about, and the other one is whole, …
constexpr SpecialWords kOtherHere{
    "this node's backing is another file or disk than its record is about, what it lacks is not known, and %P's replica may not hold "
    "all, either",
    "see whether the right disk is attached here; if not, attach it and restart twinblockd. If what is here is right (a copy that "
    "holds all that was written last), run `twinblock promote %V --peer-is-dead` here. To be filled by %P instead, without what that "
    "misses: stop this node, move its metadata file away, start it and run `twinblock init %V --join` here"};
constexpr SpecialWords kOtherThere{
    "%P's backing is another file or disk than its record is about, what it lacks is not known, and this node's replica may not hold "
    "all, either",
    "see whether the right disk is attached on %P; if not, attach it and restart twinblockd there. If what is there is right (a copy "
    "that holds all that was written last), run `twinblock promote %V --peer-is-dead` on %P. To have it filled by this node instead, "
    "without what this one misses: stop %P, move its metadata file away, start it and run `twinblock init %V --join` there"};
// … or has nothing to give, …
constexpr SpecialWords kOnlyOtherHere{
    "this node's backing is another file or disk than its record is about, what it lacks is not known, and %P has no whole replica",
    "see whether the right disk is attached here; if not, attach it and restart twinblockd. If what is here is right (a copy that "
    "holds all that was written last), run `twinblock promote %V --peer-is-dead` here"};
constexpr SpecialWords kOnlyOtherThere{
    "%P's backing is another file or disk than its record is about, what it lacks is not known, and this node has no whole replica",
    "see whether the right disk is attached on %P; if not, attach it and restart twinblockd there. If what is there is right (a copy "
    "that holds all that was written last), run `twinblock promote %V --peer-is-dead` on %P"};
// … or is in the same case.
constexpr SpecialWords kOthers{
    "the backings of both nodes are other files or disks than their records are about: what they lack is not known",
    "see whether the right disks are attached on both hosts; if not, attach them and restart twinblockd. On the node whose data are "
    "to be kept, if they are (a copy that holds all that was written last), run `twinblock promote %V --peer-is-dead`: the other "
    "one is then brought up to date from it"};

// Instead of kDiskFailed's, where the disk that fails holds what the other lacks. (%D: the order to go on without it.)
constexpr SpecialWords kKeepDiskHere{
    "this node's disk fails, and %P lacks what was written here alone",
    "keep this disk and its metadata file, whose data %P does not have: see what is wrong with it (dmesg), or free space, and "
    "restart twinblockd here; %P can then be brought up to date from it. If it is dead for good, what was written here "
    "alone is lost: stop this node, and run `%D` on %P, which goes on without it"};
constexpr SpecialWords kKeepDiskThere{
    "%P's disk fails, and this node lacks what was written on %P alone",
    "keep the disk of %P and its metadata file, whose data this node does not have: see what is wrong with it (dmesg), or "
    "free space, and restart twinblockd on %P; this node can then be brought up to date from it. If it is dead for good, what "
    "was written there alone is lost: stop %P, and run `%D` here, to go on without it"};

// … and the other one is no whole replica, so that nobody could go on with it.
constexpr SpecialWords kOnlyDiskHere{
    "this node's disk fails, and holds the only whole replica: %P is half-copied",
    "keep this disk and its metadata file: see what is wrong with it (dmesg), or free space, and restart twinblockd here; the "
    "copy then goes on. Stop nothing that this node still serves. If the disk is dead for good: restore the volume from a "
    "backup, or, where %P has kept a copy of what it held before, run `twinblock rollback %V` there (`twinblock status %V` "
    "there says whether it has)"};
constexpr SpecialWords kOnlyDiskThere{
    "%P's disk fails, and holds the only whole replica: this node is half-copied",
    "keep the disk of %P and its metadata file: see what is wrong with it (dmesg), or free space, and restart twinblockd on "
    "%P; the copy then goes on. Stop nothing that %P still serves. If that disk is dead for good: restore the volume from a "
    "backup"};

// … and the other one is a primary that gave its disk up, and had nobody who stood in: the one whose disk failed, too, knows of
// nothing that was acknowledged since.
constexpr SpecialWords kBothDisks{
    "the disks of both nodes fail, and neither stands in for the other one's",
    "keep the disks of both nodes and their metadata files: what was flushed is on each that can be read again. See what is "
    "wrong with them (dmesg), or free space, and restart twinblockd where they are well; `twinblock status %V` there says how to "
    "go on"};

// … or may know of something, or has tried to record that it stands in and could not: the primary's replica lacks that then. A
// hello does not tell which.
constexpr SpecialWords kStandInHere{
    "this node's disk fails, and may hold what %P's lacks since that was given up",
    "keep the disks of both nodes and their metadata files: see what is wrong with them (dmesg), or free space, and restart "
    "twinblockd here first, with which %P goes on. If this node's is dead for good: what was acknowledged since %P's disk "
    "failed, if anything was, is lost; restart twinblockd on %P when the disk there is well, and `twinblock status %V` there "
    "says whether its replica may go on. If not: restore the volume from a backup"};
constexpr SpecialWords kStandInThere{
    "%P's disk fails, and may hold what this node's lacks since it was given up",
    "keep the disks of both nodes and their metadata files: see what is wrong with them (dmesg), or free space, and restart "
    "twinblockd on %P first, with which this node goes on. If %P's is dead for good: what was acknowledged since this node's "
    "disk failed, if anything was, is lost; restart twinblockd here when the disk is well, and `twinblock status %V` says "
    "whether this replica may go on. If not: restore the volume from a backup"};

// Whether the first would be the source if its disk did not fail.
bool holds_what_counts(SyncFacts mine, SyncFacts theirs) {
  mine.disk_failed = theirs.disk_failed = false;
  const Verdict verdict = decide(mine, theirs);
  return is_source(verdict) || verdict == Verdict::kPeerOutdated || verdict == Verdict::kPeerMustDemote;
}

// Of one that is half-copied, or empty, that matters more.
bool holds_other(const SyncFacts& node) { return node.other_backing && !node.inconsistent && !node.backing_lost; }
bool can_fill(const SyncFacts& node) { return !node.blank && !node.inconsistent && !node.backing_lost; }

const SpecialWords* words_of_other(const SyncFacts& mine, const SyncFacts& theirs) {
  const bool here = holds_other(mine), there = holds_other(theirs);
  if (here && there) return &kOthers;
  if (here) return can_fill(theirs) ? &kOtherHere : &kOnlyOtherHere;
  if (there) return can_fill(mine) ? &kOtherThere : &kOnlyOtherThere;
  return nullptr;
}

bool gave_its_disk_up(const SyncFacts& node, const SyncFacts& other) {
  return node.primary && node.disk_failed && node.inconsistent && other.disk_failed && !other.inconsistent &&
         !other.primary && other.term <= node.term && !other.flush_failed;
}

bool gave_its_disk_up_in_vain(const SyncFacts& node, const SyncFacts& other) {
  return gave_its_disk_up(node, other) && node.generations.current == other.generations.current;
}

const SpecialWords* special_words(Verdict verdict, const SyncFacts& mine, const SyncFacts& theirs) {
  const bool for_a_disk = verdict == Verdict::kDiskFailed || verdict == Verdict::kPeerDiskFailed;
  if (for_a_disk && (gave_its_disk_up_in_vain(mine, theirs) || gave_its_disk_up_in_vain(theirs, mine))) return &kBothDisks;
  if (verdict == Verdict::kDiskFailed && gave_its_disk_up(theirs, mine)) return &kStandInHere;
  if (verdict == Verdict::kPeerDiskFailed && gave_its_disk_up(mine, theirs)) return &kStandInThere;
  if (verdict == Verdict::kDiskFailed && holds_what_counts(mine, theirs))
    return theirs.inconsistent ? &kOnlyDiskHere : &kKeepDiskHere;
  if (verdict == Verdict::kPeerDiskFailed && holds_what_counts(theirs, mine))
    return mine.inconsistent ? &kOnlyDiskThere : &kKeepDiskThere;
  if (verdict != Verdict::kNoGoodCopy) return nullptr;
  if (const SpecialWords* words = words_of_other(mine, theirs)) return words;
  if (mine.backing_lost && theirs.backing_lost && !mine.inconsistent && !theirs.inconsistent) return &kLostOnBoth;
  if (mine.backing_lost == theirs.backing_lost) return nullptr;
  if (mine.backing_lost) return mine.inconsistent ? nullptr : &kLostHere;
  return theirs.inconsistent ? nullptr : &kLostThere;
}

std::string fill_in(std::string text, const std::string& mark, const std::string& value) {
  for (size_t at = text.find(mark); at != std::string::npos;
       at = text.find(mark, at + value.size()))
    text.replace(at, mark.size(), value);
  return text;
}

}  // namespace

std::string explain(Verdict verdict, const std::string& peer) {
  return fill_in(row_of(verdict).sentence, "%P", peer);
}

std::string advise(Verdict verdict, const std::string& volume, const std::string& peer) {
  return fill_in(fill_in(row_of(verdict).advice, "%P", peer), "%V", volume);
}

std::string explain(Verdict verdict, const SyncFacts& mine, const SyncFacts& theirs, const std::string& peer) {
  const SpecialWords* special = special_words(verdict, mine, theirs);
  return special == nullptr ? explain(verdict, peer) : fill_in(special->sentence, "%P", peer);
}

std::string advise(Verdict verdict, const SyncFacts& mine, const SyncFacts& theirs, const std::string& volume,
                   const std::string& peer) {
  const SpecialWords* special = special_words(verdict, mine, theirs);
  if (special == nullptr) return advise(verdict, volume, peer);
  // An etcd names the node that wrote alone, and would refuse the other one.
  const std::string order = promote_by_word(volume, mine.asks_register && theirs.asks_register);
  return fill_in(fill_in(fill_in(special->advice, "%D", order), "%P", peer), "%V", volume);
}

}  // namespace twinblock
