// The other end of an engine's links: a peer that by itself does what a good one would (as far as
// it is told to), so that sessions come to stand, and beside that sends whatever an input says.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "fuzz_node.h"
#include "mirror/generation.h"
#include "session/session.h"
#include "wire/frame_reader.h"

namespace twinblock::fuzz {

class HostilePeer {
 public:
  // What it says of itself, compared with what the engine said last.
  enum class Stance { kBlank, kSame, kNewer, kOlder, kUnrelated, kDiverged };

  HostilePeer(FuzzNode& node, std::string name, const metadata::NodeRecord& known);
  ~HostilePeer();
  HostilePeer(const HostilePeer&) = delete;
  HostilePeer& operator=(const HostilePeer&) = delete;

  // `flags` are further ones of SyncFacts: primary, crashed, inconsistent, disk failed, dirty, map
  // not valid, discard, keep.
  void take(Stance stance, uint8_t flags, uint64_t term);
  void dial(size_t link);
  // Asks to join the session over a connection that it has dialled.
  void ask_to_join(size_t which, uint64_t incarnation);
  void retire(size_t which, bool retired);
  void hang_up(size_t which);
  void send(size_t which, std::span<const std::byte> bytes);
  void send_hello(size_t which);
  void send_beat(size_t which);
  void send_verdict(size_t which, uint64_t code);
  // Answers the oldest request but `skip`; with `payload_bytes` other than fit, if that is not 0.
  void answer(size_t which, size_t skip, uint32_t status, uint32_t payload_bytes);
  void agree_to_promotion(size_t which, uint32_t status);
  // What a source makes its target record; returns the request's number.
  uint64_t tell_generation(size_t which, const metadata::Generations& told, uint32_t flag);
  // As when a session begins, behind what its operator has ordered.
  void tell_settings(const wire::SettingsPayload& told);
  // A number for a request of its own, and the last one of its control stream.
  uint64_t next_sequence() { return ++sequence_; }
  uint64_t* control() { return &control_sent_; }
  // Gone for good: closes all and listens no more.
  void vanish();
  [[nodiscard]] bool up() const;

  bool listens = true;
  bool shakes_hands = true;
  bool answers = true;
  std::optional<uint64_t> unreadable_at;  // a block at which its disk can't be read, it says
  bool beats = true;
  bool confirms = true;  // that it has the control stream's frames
  metadata::Uuid instance{9};  // of its process
  bool retires = true;   // answers that a connection was retired
  bool renews = false;   // as it says when it asks to join
  bool asks_register = false;  // its file has a witness, too
  bool asks_command = false;   // … which is a command
  std::optional<wire::SettingsPayload> settings;  // that it tells when a session begins; none: it tells nothing
  uint64_t witness_mark = 0;  // … with them
  bool agrees = true;     // to a promotion, at once
  bool joins = true;      // where it is blank
  bool lets_probe = false;  // takes part in a probe, but for the stream's report
  std::function<void(SyncFacts&)> tells;  // of itself, in the handshake, as well; may be null
  bool recorded = false;  // the session before, all the same: it stood
  uint64_t disk_still_ns = 0;  // its disk has something to do, and has not got on for so long, it says in its heartbeats
  uint64_t stalled_ns = 0;     // for so long its own disk has stood still, it says in its heartbeats
  std::function<void(const wire::FrameHeader&, std::span<const std::byte>)> hears_payload;  // as `hears`
  std::function<void(const wire::FrameHeader&)> hears;  // each frame, but of the control stream's no repetitions; may be null

 private:
  class Line;
  Line* line(size_t which);
  void accept(std::unique_ptr<Connection> connection, size_t link);
  void session_begins(const SessionId& session);
  // Of each connection its own.
  uint64_t next_nonce() { return 0x9E3779B97F4A7C15 * ++nonces_; }
  void retired(uint64_t incarnation);
  void tick();

  FuzzNode& node_;
  const std::string name_;
  sim::ProcessPtr process_;
  std::unique_ptr<Network> port_;
  std::vector<LinkAddresses> links_;
  std::vector<std::unique_ptr<Line>> lines_;
  metadata::Generations theirs_;
  metadata::Uuid volume_uuid_;
  uint64_t their_state_ = 0;  // … and what an order would have to name
  Stance stance_ = Stance::kBlank;
  uint8_t flags_ = 0;
  uint64_t term_ = 0;
  uint64_t sequence_ = 0;
  uint64_t nonces_ = 0;
  SessionId session_;
  uint64_t control_sent_ = 0;
  uint64_t control_received_ = 0;
  std::set<uint64_t> retired_;  // incarnations, of this session

  [[nodiscard]] SyncFacts facts() const;
  [[nodiscard]] uint64_t fresh(uint64_t base) const;
};

}  // namespace twinblock::fuzz
