#include "volume/growth.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/checks.h"
#include "base/units.h"
#include "volume/wait_advice.h"

namespace twinblock {
namespace {

// What a disk is asked to make zero at a time: long enough for a device that does it by itself, short
// enough that clients' requests get in between.
constexpr uint64_t kZeroBytes = 16 * kMiB;
constexpr uint64_t kAskAgain_ns = 200 * kMillisecond_ns;
constexpr uint64_t kTellAgain_ns = 60 * kSecond_ns;
// A larger peer dials every other second. One that was not heard for so long is gone, and this node may be promoted as it is.
constexpr uint64_t kPeerGone_ns = 30 * kSecond_ns;

Error still_growing() { return {"it is just growing", "", EINPROGRESS}; }

}  // namespace

Growth::Growth(Core& core, Disk& metadata, DiskHealth& disks, const Roles& roles,
               std::function<void()> grown)
    : core_(core),
      metadata_(metadata),
      disks_(disks),
      roles_(roles),
      grown_(std::move(grown)),
      flush_(core.data),
      ask_again_(core.clock.make_timer([this] { ask(); })) {}

// --- whether it may be

// A size that can't be, wherever it comes from.
std::optional<Error> Growth::why_not(uint64_t volume_bytes) const {
  const uint64_t now = core_.volume_bytes();
  if (volume_bytes < now)
    return Error{"the volume has " + format_size(now) + ": it can't be made smaller",
                 "what is to be smaller is a new volume, to which the data is copied", EINVAL,
                 };
  if (volume_bytes > limits::kVolumeBytesMax)
    return Error{format_size(volume_bytes) + " is more than a volume may have",
                 "at most " + format_size(limits::kVolumeBytesMax), EINVAL};
  if (volume_bytes % limits::kBlockBytes != 0)
    return Error{std::to_string(volume_bytes) + " bytes are no multiple of 4096",
                 "the next smaller size is " +
                     std::to_string(volume_bytes - volume_bytes % limits::kBlockBytes),
                 EINVAL};
  return std::nullopt;
}

// What is wrong with this node.
std::optional<Error> Growth::why_not_here() const {
  if (run_)
    return Error{"the volume is just growing to " + format_size(run_->volume_bytes), "try again",
                 EBUSY};
  if (const char* what = core_.stance().changing())
    return Error{std::string("the volume is just ") + what, "try again when that has ended", EBUSY};
  if (core_.state().blank())
    return Error{"this node is not initialised", "see twinblock status " + core_.config.volume, 0,
                 };
  if (roles_.role() != Role::kPrimary && roles_.role() != Role::kSecondary)
    return Error{"this node is changing its role just now", "try again", EBUSY};
  if (core_.intents().creating() || disks_.any_failed())
    return Error{"a disk of this node has failed, or is being set up",
                 "see twinblock status " + core_.config.volume, EIO};
  // The loop would wait with it, as long as it takes.
  if (disks_.stalls().stalled_ns() > 0)
    return Error{"a disk of this node stands still", "see twinblock status " + core_.config.volume, EAGAIN};
  return std::nullopt;
}

// What is wrong with an order given here.
std::optional<Error> Growth::why_not_order() const {
  if (auto error = why_not_here()) return error;
  const std::string& volume = core_.config.volume;
  if (roles_.role() != Role::kPrimary && roles_.peer() == PeerRole::kPrimary)
    return Error{core_.peer + " is primary", "run `twinblock grow " + volume + "` there", EBUSY,
                 };
  if (!session().up() || !core_.phase().both_whole())
    return Error{"a volume grows on both nodes, and " + core_.peer +
                     (session().up() ? " is not up to date yet" : " is not connected"),
                 advise_wait_for_both(core_, roles_.role() == Role::kPrimary), EAGAIN};
  return std::nullopt;
}

Status Growth::make_room(uint64_t volume_bytes) {
  if (Status data = core_.data.grow(volume_bytes, false); !data) return data;
  return metadata_.grow(
      metadata::metadata_bytes_max(volume_bytes, core_.record().region_bytes), true);
}

// --- who asks for it

void Growth::order(uint64_t volume_bytes, Reply reply) {
  std::optional<Error> error = why_not_order();
  if (!error) error = why_not(volume_bytes);
  if (!error && volume_bytes == core_.volume_bytes()) {
    reply("the volume has " + format_size(volume_bytes) + " already");
    return;
  }
  if (!error)
    if (Status room = make_room(volume_bytes); !room) error = room.error();
  if (error) {
    reply(*std::move(error));
    return;
  }
  begin({.by = By::kOperator, .volume_bytes = volume_bytes, .reply = std::move(reply)});
}

void Growth::heard(const wire::GrowFrame& frame) {
  // It has become so large, for good, since the peer asked first, whatever goes on here by now.
  if (!core_.state().blank() && frame.size_bytes == core_.volume_bytes()) {
    core_.answer(frame.request, std::nullopt);
    return;
  }
  if (run_ && run_->by == By::kPeersOrder && run_->volume_bytes == frame.size_bytes) {
    core_.answer(frame.request, still_growing());
    return;
  }
  if (failed_ && failed_->first == frame.size_bytes) {
    core_.answer(frame.request, std::exchange(failed_, std::nullopt)->second);
    return;
  }
  std::optional<Error> error = why_not_here();
  if (!error && (!core_.phase().both_whole() || roles_.role() != Role::kSecondary))
    error = Error{"it is not a whole secondary just now", "try again", EAGAIN};
  if (!error) error = why_not(frame.size_bytes);
  if (!error)
    if (Status room = make_room(frame.size_bytes); !room) error = room.error();
  if (error) {
    core_.answer(frame.request, error);
    return;
  }
  core_.answer(frame.request, still_growing());
  begin({.by = By::kPeersOrder, .volume_bytes = frame.size_bytes});
}

std::string Growth::peer_is_larger(uint64_t volume_bytes) {
  larger_peer_heard_ns_ = core_.clock.now_ns();
  const std::string sizes = "the volume has grown to " + format_size(volume_bytes) + ", and has " +
                            format_size(core_.volume_bytes()) + " on " + core_.node;
  if (run_) return sizes + ", which is just growing";
  if (!disks_.local_ok() && (core_.record().inconsistent || disks_.left_aside()) && volume_bytes == asked_bytes_) {
    take_over(volume_bytes);
    return sizes + ", whose clients see the peer's replica only: it is as large there from now on";
  }
  std::optional<Error> error = why_not_here();
  if (!error) error = why_not(volume_bytes);
  if (!error)
    if (Status room = make_room(volume_bytes); !room) error = room.error();
  if (error) {
    const uint64_t now = core_.clock.now_ns();
    if (told_ns_ == 0 || now - told_ns_ >= kTellAgain_ns) {
      told_ns_ = now;
      tell_failure(volume_bytes, *error);
    }
    return sizes + ", which can't grow: " + in_words(*error);
  }
  begin({.by = By::kLargerPeer, .volume_bytes = volume_bytes});
  return sizes + ", which grows, too";
}

// The peer has recorded the size that it was asked for, and this node's disk failed before it had. What counts is the peer's replica. Here nothing
// of it goes on record: the next process, which may have another disk, makes what is new of that zero.
void Growth::take_over(uint64_t volume_bytes) {
  core_.grow(volume_bytes);
  session().volume_grew();
  tell_grown(volume_bytes);
  session().poke();
}

void Growth::tell_grown(uint64_t volume_bytes) {
  told_ns_ = 0;
  core_.log.log(Severity::kInfo, "has " + format_size(volume_bytes) + " from now on");
  core_.events().tell("grown", {{"node", core_.node}, {"size_bytes", std::to_string(volume_bytes)}});
  grown_();
}

void Growth::tell_failure(uint64_t volume_bytes, const Error& error) {
  core_.log.log(Severity::kWarning,
                "did not grow to " + format_size(volume_bytes) + ": " + in_words(error));
  core_.events().tell("grow-failed", {{"size_bytes", std::to_string(volume_bytes)},
                                    {"reason", in_words(error)}});
}

// Of the size that both have: whoever said that there is a larger one is gone.
void Growth::session_up() {
  failed_.reset();
  if (run_ && run_->by == By::kLargerPeer && !run_->recording)
    run_->broken_off = "a session of the old size stands meanwhile";
}

void Growth::session_lost() {
  failed_.reset();
  if (!run_ || run_->by == By::kLargerPeer) return;
  run_->broken_off = "the session with " + core_.peer + " was lost meanwhile";
  // Nobody else will end it. The peer may have recorded the size: then this node grows when they meet.
  if (run_->asked && !run_->recording) (void)breaks_off();
}

// It may never answer. What the peer was asked for, or is going on record, comes to its end without it.
void Growth::disk_left() {
  if (run_ && !run_->asked && !run_->recording) (void)breaks_off();
}

// --- its steps

void Growth::begin(Run run) {
  core_.log.log(Severity::kInfo, "grows from " + format_size(core_.volume_bytes()) + " to " +
                                     format_size(run.volume_bytes));
  run.ready_bytes = core_.volume_bytes();
  run_ = std::move(run);
  core_.stance().change_begins(Stance::Change::kGrowing);
  look_at_next();
}

bool Growth::breaks_off() {
  // What is new is the same on both only while all is.
  const bool of_both = run_->by != By::kLargerPeer;
  if (of_both && run_->broken_off.empty() && !core_.phase().both_whole())
    run_->broken_off = "one of the two nodes' disks is not up to date any more";
  if (!of_both && core_.clock.now_ns() - larger_peer_heard_ns_ > kPeerGone_ns)
    run_->broken_off = core_.peer + ", which has it, was not heard for " + format_duration(kPeerGone_ns);
  if (run_->broken_off.empty()) return false;
  const char* then = "nothing was changed; try again";
  if (!of_both)
    then = "this node grows when the two meet";
  else if (run_->asked)
    then = "if it had grown by then, this node grows when the two meet; else try again";
  end(Error{run_->broken_off, then, EAGAIN});
  return true;
}

// What is a hole is zero; what is not, or may not be, is made so.
void Growth::look_at_next() {
  if (run_->ready_bytes >= run_->volume_bytes) {
    flush();
    return;
  }
  request_ = {};
  request_.op = DiskOp::kExtent;
  request_.offset_bytes = run_->ready_bytes;
  request_.length_bytes = run_->volume_bytes - run_->ready_bytes;
  request_.done = [this](DiskRequest&) { looked(); };
  core_.data.submit(request_);
}

void Growth::looked() {
  if (!run_ || breaks_off()) return;
  const bool hole = request_.error == 0 && request_.is_hole;
  const uint64_t length = request_.error == 0 ? request_.length_bytes : kZeroBytes;
  if (hole) {
    run_->ready_bytes += length;
    look_at_next();
    return;
  }
  request_ = {};
  request_.op = DiskOp::kZero;
  request_.may_unmap = true;
  request_.offset_bytes = run_->ready_bytes;
  request_.length_bytes = std::min({length, kZeroBytes, run_->volume_bytes - run_->ready_bytes});
  request_.done = [this](DiskRequest&) { zeroed(); };
  core_.data.submit(request_);
}

void Growth::zeroed() {
  if (!run_ || breaks_off()) return;
  if (request_.error != 0) {
    end(system_error(request_.error, "make what is new of the backing of " + core_.node + " zero"));
    return;
  }
  run_->ready_bytes += request_.length_bytes;
  look_at_next();
}

void Growth::flush() {
  flush_.flush([this](const DiskRequest& flushed) {
    if (flushed.error != 0) {
      if (run_) end(system_error(flushed.error, "flush what is new of the backing of " + core_.node));
      disks_.own_flush_failed(flushed);
      return;
    }
    if (!run_ || breaks_off()) return;
    core_.intents().prepare_growth(run_->volume_bytes, [this](int error) {
      if (!run_) return;
      if (error != 0)
        end(disks_.why_metadata_failed(error));
      else if (!breaks_off())
        ready();
    });
  });
}

void Growth::ready() {
  if (run_->by != By::kOperator) {
    record();
    return;
  }
  run_->asked = true;
  asked_bytes_ = run_->volume_bytes;
  ask();
}

void Growth::ask() {
  session().request_ordered(wire::GrowFrame{.request = 0, .size_bytes = run_->volume_bytes}, {},
                            *this);
}

void Growth::answered(const PeerAnswer& answer) {
  TB_CHECK(run_ && run_->asked, "the peer answers what it was asked in this session");
  if (answer.error == EINPROGRESS)
    ask_again_->arm(kAskAgain_ns);
  else if (answer.error != 0)
    end(Error{core_.peer + " refuses: " + wire::printable(answer.payload), "", answer.error});
  else
    record();
}

// Nobody is told of a size, nor writes there, before that is on record for good: a node that forgot it would make
// what is new of the volume zero once more.
void Growth::record() {
  run_->recording = true;
  core_.state().grow(run_->volume_bytes);
  core_.state().persist([this](int error) {
    if (error != 0) {
      core_.state().grow(core_.volume_bytes());
      disks_.metadata_failed(error);
      const bool smaller = run_->by == By::kOperator && roles_.role() != Role::kPrimary;
      end(disks_.why_metadata_failed(error));
      // The peer has it. (A primary goes on with the peer's disk instead of its own.)
      if (smaller)
        session().drop("the volume has grown on " + core_.peer + ", and not here", limits::kPeerDiskRetry_ns);
      return;
    }
    core_.grow(run_->volume_bytes);
    // Not before: an operator may cut back what he made too large for a growth that was refused.
    core_.data.require_size(run_->volume_bytes);
    metadata_.require_size(metadata::metadata_bytes_max(run_->volume_bytes, core_.record().region_bytes));
    session().volume_grew();
    end(std::nullopt);
  });
}

void Growth::end(const std::optional<Error>& error) {
  ask_again_->disarm();
  core_.stance().change_ended();
  const Run run = *std::exchange(run_, std::nullopt);
  if (error) {
    tell_failure(run.volume_bytes, *error);
    if (run.by == By::kPeersOrder && run.broken_off.empty()) failed_.emplace(run.volume_bytes, *error);
  } else {
    tell_grown(run.volume_bytes);
  }
  session().poke();  // now there may be a session
  if (run.by != By::kOperator) return;
  if (error)
    run.reply(*error);
  else
    run.reply("the volume has " + format_size(run.volume_bytes) + " on both nodes. Write size = \"" +
              format_exact_size(run.volume_bytes) + "\" into its file on both hosts");
}

}  // namespace twinblock
