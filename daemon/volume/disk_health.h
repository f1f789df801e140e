// What is known of the disks of both nodes: which of them failed, in what, and what was said of it.
// The parts of the engine tell it what a disk answered, and ask it what they may still expect of
// one. Owned by the engine; loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "volume/core.h"
#include "volume/disk_watch.h"
#include "volume/read_errors.h"

namespace twinblock {

class DiskHealth {
 public:
  class Owner {
   public:
    [[nodiscard]] virtual bool is_secondary() const = 0;
    // The local replica is given up, and the peer, which is whole, stands in from now on.
    virtual void peer_stands_in() = 0;
    // A local disk stands still: at each look for as long as it does. Then it gets on.
    virtual void disk_stalls() = 0;
    virtual void disk_gets_on() = 0;
    // What is said of the volume may be another state now: the disk fails more than it did.
    virtual void note_state() = 0;

   protected:
    ~Owner() = default;
  };

  DiskHealth(Core& core, Owner& owner, const Disk& metadata)
      : core_(core), owner_(owner), data_watch_(core, core.data), metadata_watch_(core, metadata) {}

  // From the record, once, before start. `cache_is_gone`: what is read is what the disk holds.
  void load(bool cache_is_gone);

  // This node's disks. A client's write or flush failed; the peer may stand in for it.
  void local_disk_failed(const DiskRequest& request);
  // The same of a write that the peer was sent, and may not have taken yet. Where there was no room for it here, there
  // may be none there either, and nobody stands in for anybody: that is local_disk_failed() only when the peer has it.
  void write_failed_beside_peer(const DiskRequest& request);
  // What the peer sent, or its flush, failed here.
  void replica_disk_failed(const DiskRequest& request);
  // A flush of this node's own, which may have covered more than what it was for: by the node's role, one of these.
  void own_flush_failed(const DiskRequest& request);
  void read_failed(int error, uint64_t offset_bytes, uint64_t length_bytes);
  // The peer's disk could not be read at some place, or it asks for what its own does not give: neither node gives its disk
  // up for places that can't be read, as the other may need what is around them …
  void peer_reads_fail() { peer_reads_fail_ = true; }
  // … until all of one is compared and written anew from the other, this node's or the peer's. (From the peer's also by
  // copied_anew().)
  void peer_is_copied_anew() { peer_reads_fail_ = false; }
  // The disk took these bytes.
  void written(uint64_t offset_bytes, uint64_t length_bytes) {
    read_errors_.written(offset_bytes, length_bytes);
  }
  // … or gave them: each block of it can be read.
  void read_well(uint64_t offset_bytes, uint64_t length_bytes) { written(offset_bytes, length_bytes); }
  // The intents can't be written: nothing may be written here any more, but the peer may stand in.
  void metadata_failed(int error);
  // The record can't be written; its writer decides what follows.
  void record_failed(int error);
  // This replica was copied anew from the peer, and is about to record that.
  void copied_anew();
  // Both replicas are the same, and on stable storage.
  void note_in_sync();
  // A session stands. A disk of the peer's that fails still says so with its next answer: what is known is of the last one,
  // and that may have been replaced.
  void peer_is_back() {
    peer_error_.clear();
    peer_refused_ns_ = 0;
  }
  // From time to time: whether a flush takes long goes on record, since only this process would be told of its
  // failure. …
  void watch_flushes();
  // … That none does, since this process stops. `recorded` when the record says so on the disk, or can't be written: once,
  // at once where there is nothing to wait for, and not before a flush that takes long has ended.
  void end_watch(std::function<void()> recorded);
  // Of a primary, from time to time: what its disk refused may be history.
  void forget_what_passed();
  // From time to time: whether the local disks get on.
  void look();

  // The peer's disks: the session ends, and is tried again when there may be room.
  void peer_disk_failed(int error, const char* doing);
  void peer_metadata_failed(int error);
  // What the peer was sent to write failed there. True: this node has no disk to go on with, and the peer no room for that. It
  // is the one write's error, and the session stands, as the peer is all there is for what needs no room. False: as
  // above. (A write whose flush failed there, which is final, is answered with another error: Replica::ended_here.)
  [[nodiscard]] bool peer_lacks_room(int error, const char* doing);
  // It has written data: what it had no room for may be history.
  void peer_has_room();

  // Whether the local replica is in use.
  [[nodiscard]] bool local_ok() const { return data_error_ == 0; }
  // The errno value with which it failed; 0: it did not.
  [[nodiscard]] int data_error() const { return data_error_; }
  // A flush failed in this process: what it covered may be gone, for good, and no later one means
  // anything.
  [[nodiscard]] bool flush_failed() const { return flush_failed_; }
  // For how long a local disk has not answered a request, where it stands still (disk_watch.h); else 0. …
  [[nodiscard]] uint64_t stalled_ns() const {
    return data_stalled_ns() > 0 ? data_stalled_ns() : metadata_stalled_ns();
  }
  // … Its file. If both do, it is the data.
  [[nodiscard]] const std::string& stalled_file() const { return data_stalled_ns() > 0 ? backing() : metadata(); }
  // An errno value; 0: the metadata disk is well.
  [[nodiscard]] int metadata_error() const;
  [[nodiscard]] bool any_failed() const {
    return !local_ok() || flush_failed_ || metadata_error() != 0;
  }
  // Whether a read or a flush that this disk fails waits for the peer, as writes do that the peer has to have
  // (on_peer_loss = freeze, a witness, or one that is away for a moment): its replica may be good, and comes back to a node whose disk is well, or was
  // given up; to no other. (A write that a disk in use refuses has its error: what the peer lacks it can't stand in for.)
  [[nodiscard]] bool peer_is_waited_for() const {
    return core_.stance().clients_wait() && (!local_ok() || !any_failed());
  }
  [[nodiscard]] const ReadErrors& read_errors() const { return read_errors_; }
  [[nodiscard]] bool peer_has_bad_places() const { return peer_reads_fail_; }
  // The latest one at a new place: a sentence.
  [[nodiscard]] const std::string& read_error() const { return read_error_; }
  // What a disk of this node refused last: a sentence; empty once all is whole again.
  [[nodiscard]] std::string in_words() const;
  // The peer's disk failed: a sentence, until a session stands again, or it has room again …
  [[nodiscard]] const std::string& peer_error() const { return peer_error_; }
  // … and which file of it.
  [[nodiscard]] const std::string& peer_error_file() const { return peer_error_file_; }
  // For who waited for the metadata disk.
  [[nodiscard]] Error why_metadata_failed(int error) const;

 private:
  [[nodiscard]] const std::string& backing() const {
    return core_.config.node(core_.node).backing;
  }
  [[nodiscard]] const std::string& metadata() const {
    return core_.config.node(core_.node).metadata;
  }
  void note(int error);
  void note_failed_flush(const DiskRequest& request);
  void record_flushing(bool flushing);
  void end_watch_if_recorded();
  void leave_local_disk(int error);
  void give_up(int error);
  void tell_peer_of_giving_up();
  void drop_failing_peer(int error, const std::string& what, const std::string& file);
  void note_peer(const std::string& why, const std::string& file);
  void look_at_metadata();
  // Nobody waits for one that was given up, but who had asked it before.
  [[nodiscard]] uint64_t data_stalled_ns() const { return local_ok() ? data_watch_.stalled_ns() : 0; }
  [[nodiscard]] uint64_t metadata_stalled_ns() const { return metadata_error() != 0 ? 0 : metadata_watch_.stalled_ns(); }
  void tell_stall(uint64_t stalled_ns, bool well, bool& told, const char* disk, const std::string& file);
  // `disk`: "data" or "metadata", of this node or the peer.
  void tell(const std::string& whose, const char* disk, const std::string& why);
  void log(Severity severity, const std::string& line) { core_.log.log(severity, line); }

  Core& core_;
  Owner& owner_;
  DiskWatch data_watch_, metadata_watch_;
  bool data_stall_told_ = false, metadata_stall_told_ = false;
  int data_error_ = 0;
  bool flush_failed_ = false;
  ReadErrors read_errors_;
  std::string read_error_;
  std::string note_;  // what the local disk last refused …
  int note_error_ = 0;
  uint64_t note_at_ns_ = 0;
  uint64_t note_writes_ = 0;  // … and how many writes had been made by then
  bool metadata_failure_told_ = false;
  bool record_failure_told_ = false;
  bool peer_reads_fail_ = false;
  bool given_up_unasked_ = false;  // by a secondary, and no answer of its tells the peer so
  std::string peer_error_;
  std::string peer_error_file_;
  uint64_t peer_refused_ns_ = 0;  // when it was last that it had no room, of which that tells; 0: it does not
  int flushing_records_ = 0;  // of whether a flush takes long: asked for, and not on the disk yet
  std::function<void()> watch_ended_;
};

}  // namespace twinblock
