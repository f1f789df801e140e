// Whether this node may promise anything that counts on its own replica alone, as far as a witness
// has a say in it (invariant 15); what the file and the operator say of it is in Stance. Consent
// grants it, who begins a generation or shares one withdraws it, all who promise ask it. Owned by Stance; loop thread only.
#pragma once

#include <cstdint>

#include "config/config.h"
#include "metadata/superblock.h"

namespace twinblock {

class AloneRight {
 public:
  explicit AloneRight(WitnessKind witness) : witness_(witness) {}

  // A witness that only one of the two nodes asks says nothing of the other one: then it is as if there
  // were none, on both, until they have met with the same.
  [[nodiscard]] bool asks(const metadata::NodeRecord& record) const {
    return witness_ != WitnessKind::kNone && !record.unwitnessed;
  }
  [[nodiscard]] bool asks_register(const metadata::NodeRecord& record) const {
    return witness_ == WitnessKind::kEtcd && asks(record);
  }
  [[nodiscard]] WitnessKind witness() const { return witness_; }

  // Without the peer: in a generation that nobody else has, nor can get the right to go on beside.
  [[nodiscard]] bool alone(const metadata::NodeRecord& record) const {
    if (!asks(record) || granted_) return true;
    if (record.shares_generation()) return false;
    return witness_ == WitnessKind::kCommand || by_word_ || record.named == record.generations.current;
  }
  // … before everything is sent to another replica, in a generation that begins for it: who had been the
  // partner until then may come back, and knows what the witness' entry names. (Of a new volume there is
  // none; a command knows nodes, and no generations.)
  [[nodiscard]] bool take_in_another(const metadata::NodeRecord& record) const {
    return witness_ != WitnessKind::kEtcd || !asks(record) || !record.had_partner() || alone(record);
  }

  // Whether what begins now is this node's alone as well: it has the right to begin a generation, or the present one is its
  // own.
  [[nodiscard]] bool covers_next(const metadata::NodeRecord& record) const {
    return granted_ || (!record.shares_generation() && alone(record));
  }

  // The next generation that this node begins is its own by right: the witness', …
  void grant() { granted_ = true; }
  // … or by the operator's word, of which an etcd is to be told. Until it was, this process goes on by the word only; a
  // later one has to ask, or be told once more: it can't know who else has asked meanwhile.
  void grant_by_word() {
    granted_ = true;
    by_word_ = witness_ == WitnessKind::kEtcd;
  }
  [[nodiscard]] bool by_word() const { return by_word_; }
  // The witness has agreed to the claim, and names it.
  [[nodiscard]] bool by_witness() const { return granted_ && !by_word_; }
  // Not of a generation that the peer may have by now.
  [[nodiscard]] bool word_is_to_be_told(const metadata::NodeRecord& record) const {
    return by_word_ && (granted_ || !record.shares_generation());
  }
  // What was begun by it the witness names by now; or it is void.
  void word_is_settled() { by_word_ = false; }
  // It has begun; or the peer is back, or about to share the current one, and may go on as well the next time.
  void withdraw() {
    granted_ = false;
    ++withdrawals_;
  }
  // How often that was: an answer to a question of before the last one is void.
  [[nodiscard]] uint64_t withdrawals() const { return withdrawals_; }
  [[nodiscard]] bool granted() const { return granted_; }

 private:
  const WitnessKind witness_;
  bool granted_ = false;
  bool by_word_ = false;
  uint64_t withdrawals_ = 0;
};

}  // namespace twinblock
