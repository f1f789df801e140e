#include "volume/demotion.h"

#include <memory>
#include <utility>

#include "base/checks.h"

namespace twinblock {

Demotion::Demotion(Core& core, const Parts& parts)
    : core_(core),
      parts_(parts),
      snapshot_(parts_.metadata),
      timer_(core.clock.make_timer([this] { flush(); })) {}

void Demotion::begin(bool for_good, Done done) {
  TB_CHECK(done_ == nullptr, "one demotion at a time");
  TB_CHECK(parts_.writes.idle() && parts_.reads.idle(), "a client closes after its last answer");
  done_ = std::move(done);
  for_good_ = for_good;
  parts_.verifier.stop("this node was demoted");
  // Nobody's writes wait; the flush need not wait for the peer either.
  core_.stance().demotion_begins();
  flush();
}

void Demotion::flush() {
  if (parts_.verifier.ending()) {
    timer_->arm(kMillisecond_ns);
    return;
  }
  // Its replica is on record as no good, and its peer went on without it: there is nothing that a flush could promise.
  if (!parts_.disks.local_ok() && core_.session.handshake().last_verdict() == Verdict::kOutdated) {
    record();
    return;
  }
  parts_.flushes.flush([this](int error) { flushed(error); });
}

// A demotion promises what a flush does, but where the peer's data counts. Where the disk has failed and the peer is away, nobody
// can.
Error Demotion::flush_error(int error) const {
  if (parts_.disks.local_ok()) return system_error(error, "flush before demotion");
  return Error{"what was written last is on no stable storage: this node's disk failed, and " +
                   core_.peer + " is away",
               "start twinblockd on " + core_.peer +
                   ", which flushes what it holds; or stop this node, and what was not flushed "
                   "there may be lost if " +
                   core_.peer + " lost power",
               error};
}

void Demotion::flushed(int error) {
  if (error != 0) {
    end(flush_error(error));
    return;
  }
  // Blocks that a resync moves from the dirty map to an open epoch would be missing in a snapshot.
  const Differences& differences = core_.differences();
  const bool precise =
      differences.valid() && !core_.phase().attached() && differences.epochs().empty();
  if (precise && !differences.none_known())
    write_snapshot();
  else
    record();
}

// The next start then knows what the peer misses by the block and not by the region.
void Demotion::write_snapshot() {
  auto copy = std::make_shared<BlockMap>(core_.volume_bytes());
  copy->merge(core_.differences().dirty());
  snapshot_is_current_ = true;
  const auto written = [this, copy](int error, uint64_t bytes, uint32_t crc) {
    // A session that has begun meanwhile may have made the set larger.
    const bool valid = error == 0 && snapshot_is_current_;
    core_.state().set_snapshot(valid, bytes, crc);
    if (error != 0)
      core_.log.log(Severity::kWarning,
                    system_error(error, "the list of blocks that " + core_.peer +
                                            " misses could not be written to " +
                                            core_.config.node(core_.node).metadata)
                            .what +
                        "; after a restart, whole regions are compared instead");
    record();
  };
  const metadata::NodeRecord& recorded = core_.record();
  snapshot_.write(*copy,
                  metadata::layout_of(recorded.size_bytes, recorded.region_bytes).snapshot_offset,
                  written);
}

void Demotion::record() {
  const Differences& differences = core_.differences();
  core_.state().role().become_secondary(!differences.none_known() || !differences.epochs().empty(),
                                        for_good_);
  core_.state().persist([this](int error) {
    // The disk may say by now that this node is not primary: it must not serve on as if it were.
    if (error != 0) {
      core_.state().role().demotion_not_recorded();
      parts_.disks.metadata_failed(error);
      end(parts_.disks.why_metadata_failed(error));
      return;
    }
    end(std::string("this node is secondary"));
  });
}

void Demotion::end(Result<std::string> result) {
  TB_CHECK(done_ != nullptr, "a demotion is answered once");
  core_.stance().demotion_ended();
  std::exchange(done_, nullptr)(std::move(result));
}

}  // namespace twinblock
