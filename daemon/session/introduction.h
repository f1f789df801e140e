// What both sides have said of themselves over one connection, before it is part of a session. Owned by the
// channel; loop thread only.
#pragma once

#include <cstdint>

#include "mirror/generation.h"
#include "session/environment.h"

namespace twinblock {

class Introduction {
 public:
  // This side's number, which it has never used before: of an accepted connection its challenge.
  void give_nonce(uint64_t nonce) { nonce_ = nonce; }
  void take_nonce(uint64_t nonce) { peer_nonce_ = nonce; }
  // The session that the connection begins, or wants to join.
  void mean(const SessionId& session) { session_id_ = session; }
  // What this node says in its hello, and how large the volume is here.
  void say(const SyncFacts& facts, uint64_t volume_bytes) {
    said_ = facts;
    said_bytes_ = volume_bytes;
  }
  // What the peer says in its own.
  void hear(const SyncFacts& facts) { heard_ = facts; }
  // … and which of its processes it is, and whether zeroes cost it little.
  void meet(const metadata::Uuid& instance, bool fast_zero) {
    peer_instance_ = instance;
    peer_fast_zero_ = fast_zero;
  }
  // Of what was said and heard.
  void judge() { verdict_ = decide(said_, heard_); }

  [[nodiscard]] uint64_t nonce() const { return nonce_; }            // 0: none yet
  [[nodiscard]] uint64_t peer_nonce() const { return peer_nonce_; }  // the same
  [[nodiscard]] const SessionId& session_id() const { return session_id_; }
  [[nodiscard]] const SyncFacts& said() const { return said_; }
  [[nodiscard]] uint64_t said_bytes() const { return said_bytes_; }
  [[nodiscard]] const SyncFacts& heard() const { return heard_; }
  [[nodiscard]] const metadata::Uuid& peer_instance() const { return peer_instance_; }
  [[nodiscard]] bool peer_fast_zero() const { return peer_fast_zero_; }
  [[nodiscard]] Verdict verdict() const { return verdict_; }

 private:
  uint64_t nonce_ = 0;
  uint64_t peer_nonce_ = 0;
  SessionId session_id_;
  SyncFacts said_;
  uint64_t said_bytes_ = 0;
  SyncFacts heard_;
  metadata::Uuid peer_instance_{};
  bool peer_fast_zero_ = false;
  Verdict verdict_ = Verdict::kWaitForInit;
};

}  // namespace twinblock
