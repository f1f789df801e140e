// What is known of the disks of both nodes: which of them failed, in what, and what was said of it; of the peer's, that is
// PeerDisk's, of how long requests take, DiskStalls' and FlushRecord's. The parts of the engine tell it what a disk answered,
// and ask it what they may still expect of one. Owned by the engine; loop thread only.
#pragma once

#include <cstdint>
#include <string>

#include "volume/core.h"
#include "volume/disk_stalls.h"
#include "volume/flush_record.h"
#include "volume/peer_disk.h"
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
      : core_(core), owner_(owner), peer_(core), stalls_(core, *this, metadata), flush_record_(core, *this) {}

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
  // Of a primary, from time to time: what its disk refused may be history.
  void forget_what_passed();
  // From time to time: whether the local disks get on.
  void look();

  [[nodiscard]] FlushRecord& flush_record() { return flush_record_; }
  [[nodiscard]] const DiskStalls& stalls() const { return stalls_; }
  [[nodiscard]] PeerDisk& peer() { return peer_; }
  [[nodiscard]] const PeerDisk& peer() const { return peer_; }

  // Whether the local replica is in use.
  [[nodiscard]] bool local_ok() const { return data_error_ == 0; }
  // The errno value with which it failed; 0: it did not.
  [[nodiscard]] int data_error() const { return data_error_; }
  // It was given up while the peer was not there to stand in: what is here counts no more, though it is not on record so.
  [[nodiscard]] bool left_aside() const { return left_aside_; }
  // A flush failed in this process: what it covered may be gone, for good, and no later one means
  // anything.
  [[nodiscard]] bool flush_failed() const { return flush_failed_; }
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
  // The latest one at a new place: a sentence.
  [[nodiscard]] const std::string& read_error() const { return read_error_; }
  // What a disk of this node refused last: a sentence; empty once all is whole again.
  [[nodiscard]] std::string in_words() const;
  // Whether that was for want of room.
  [[nodiscard]] bool lacks_room() const;
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
  void leave_local_disk(int error);
  void give_up(int error);
  void tell_peer_of_giving_up();
  void look_at_metadata();
  void log(Severity severity, const std::string& line) { core_.log.log(severity, line); }

  Core& core_;
  Owner& owner_;
  PeerDisk peer_;
  DiskStalls stalls_;
  FlushRecord flush_record_;
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
  bool left_aside_ = false;        // … while this node stood aside for the peer
  bool given_up_unasked_ = false;  // by a secondary, and no answer of its tells the peer so
};

}  // namespace twinblock
