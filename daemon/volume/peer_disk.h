// What is known of the peer's disks: which of them failed, in what, and what was said of it. Owned by DiskHealth; loop thread
// only.
#pragma once

#include <cstdint>
#include <string>

#include "volume/core.h"

namespace twinblock {

class PeerDisk {
 public:
  explicit PeerDisk(Core& core) : core_(core) {}

  // One failed: the session ends, and is tried again when there may be room.
  void failed(int error, const char* doing);
  void metadata_failed(int error);
  // What the peer was sent to write failed there. True: this node has no disk to go on with, and the peer no room for that. It
  // is the one write's error, and the session stands, as the peer is all there is for what needs no room. False: as
  // above. (A write whose flush failed there, which is final, is answered with another error: Replica::ended_here.)
  [[nodiscard]] bool lacks_room(int error, const char* doing);
  // It has written data: what it had no room for may be history.
  void has_room();
  // A session stands. A disk of the peer's that fails still says so with its next answer: what is known is of the last one,
  // and that may have been replaced.
  void is_back();

  // It could not be read at some place, or the peer asks for what its own does not give: neither node gives its disk
  // up for places that can't be read, as the other may need what is around them …
  void reads_fail() { reads_fail_ = true; }
  // … until all of one is compared and written anew from the other, this node's or the peer's.
  void is_copied_anew() { reads_fail_ = false; }
  [[nodiscard]] bool has_bad_places() const { return reads_fail_; }

  // What failed: a sentence, until a session stands again, or it has room again …
  [[nodiscard]] const std::string& error() const { return error_; }
  // … and which file of it …
  [[nodiscard]] const std::string& error_file() const { return error_file_; }
  // … and whether for want of room, so that some is to be made there.
  [[nodiscard]] bool is_full() const { return is_full_; }

 private:
  void drop(int error, const std::string& what, const std::string& file);
  void note(int error, const std::string& why, const std::string& file);

  Core& core_;
  bool reads_fail_ = false;
  std::string error_;
  std::string error_file_;
  bool is_full_ = false;
  uint64_t refused_ns_ = 0;  // when it was last that it had no room, of which that tells; 0: it does not
};

}  // namespace twinblock
