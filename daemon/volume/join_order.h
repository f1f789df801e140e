// Whether this node, while it is blank, may be filled with the peer's volume: because nothing would be
// lost, or by the operator's word. Owned by Core; loop thread only.
#pragma once

#include "base/data_search.h"
#include "metadata/superblock.h"

namespace twinblock {

class JoinOrder {
 public:
  // By itself only where it is known that there is nothing: `found` in the backing.
  explicit JoinOrder(DataFound found) : stands_(found == DataFound::kNone) {}

  void give(const metadata::Uuid& volume) {
    stands_ = by_word_ = true;
    volume_ = volume;
  }
  void take_back() { stands_ = by_word_ = false; }
  [[nodiscard]] bool stands() const { return stands_; }
  // … because nothing would be lost.
  [[nodiscard]] bool stands_by_itself() const { return stands_ && !by_word_; }
  // By which volume the backing may be overwritten; zero: by any.
  [[nodiscard]] const metadata::Uuid& volume() const { return volume_; }
  [[nodiscard]] bool allows(const metadata::Uuid& volume) const {
    return stands_ && (volume_ == metadata::Uuid{} || volume_ == volume);
  }

 private:
  bool stands_;
  bool by_word_ = false;
  metadata::Uuid volume_{};
};

}  // namespace twinblock
