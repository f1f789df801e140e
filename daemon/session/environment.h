// What surrounds a session: what it is given once, what it asks of its owner, and what its parts
// ask of it. Loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/limits.h"
#include "config/config.h"
#include "io/clock.h"
#include "io/connection.h"
#include "io/log.h"
#include "mirror/generation.h"
#include "mirror/own_lateness.h"
#include "telemetry/events.h"
#include "wire/frame_reader.h"

namespace twinblock {

class Channel;
class Link;

struct SessionEnvironment {
  const Config& config;
  const std::string node;
  const metadata::Uuid instance;  // of this process
  Clock& clock;
  OwnLateness& lateness;  // the session's ticks tell it, all who judge the peer ask it
  Network& network;
  Log& log;
  Events& events;
  const std::function<uint64_t()> random;  // never 0

  [[nodiscard]] const std::string& peer() const { return config.other(node).name; }
  // Of two who do the same at the same time, the one whose attempt stays.
  [[nodiscard]] bool preferred() const { return node < peer(); }
  // When this node does what both would do `delay_ns` from now: the preferred one first.
  [[nodiscard]] uint64_t in_turn_ns(uint64_t delay_ns) const {
    return delay_ns + (preferred() ? 0 : limits::kSecondDialerDelay_ns);
  }
};

// Made by both sides, and never used twice.
struct SessionId {
  uint64_t dialler = 0;   // the nonce of who dialled …
  uint64_t acceptor = 0;  // … and of who accepted the session's first connection
  bool operator==(const SessionId&) const = default;
};

// Who has the session: the engine.
class SessionOwner {
 public:
  // What this node says of itself now.
  virtual SyncFacts facts() const = 0;
  // The peer is told those facts, in a hello.
  virtual void facts_told() = 0;
  virtual bool fast_zero() = 0;
  // The volume's size here.
  [[nodiscard]] virtual uint64_t volume_bytes() const = 0;
  // The peer holds the same volume, and it is larger there: this node grows, unless it can't. What is to be
  // said of that, meanwhile, instead of a session: a sentence.
  virtual std::string peer_is_larger(uint64_t volume_bytes) = 0;
  // Whether disk work that an earlier session began, or a rollback, is still under way, a new size goes on record, or this
  // node waits for its own disk, while a witness may let the peer go on: no session may come up.
  virtual bool draining() = 0;
  // This connection of the session is closed: the peer sends again what came over it and was not answered.
  virtual void connection_gone(uint64_t incarnation) = 0;
  virtual void session_up(Verdict verdict, const SyncFacts& peer, bool peer_fast_zero) = 0;
  // No other one is tried before `retry_delay_ns`.
  virtual void session_lost(const std::string& reason, uint64_t retry_delay_ns) = 0;
  // A frame other than acks, heartbeats, and those of handshakes and links; an answer to it goes
  // to connection `incarnation`.
  virtual void session_frame(wire::Frame& frame, uint64_t incarnation) = 0;
  // Links have come or gone, or some time has passed.
  virtual void links_changed() = 0;
  // The peer has more of the control stream than it had.
  virtual void control_confirmed() = 0;
  // For how long the local disk has not got on with what the peer asked; 0: it has nothing to do.
  virtual uint64_t disk_still_ns() = 0;
  // Of a primary: for how long its own requests have waited, where its disk stands still; else 0.
  virtual uint64_t disk_stalled_ns() = 0;

 protected:
  ~SessionOwner() = default;
};

// What the parts of a session ask of it as a whole. Each of the steps may close any connection.
// Why a connection ends to be part of the session.
enum class LinkEnd {
  kLost,
  kReplaced,  // it worked, as far as this node knows, and the peer has put another one in its place
  kRenewed,   // nothing was wrong with it: another one over the same link takes its place
};

class SessionSteps {
 public:
  [[nodiscard]] virtual bool established() const = 0;
  // It ends: nothing new is begun.
  [[nodiscard]] virtual bool stopped() const = 0;
  [[nodiscard]] virtual const SessionId& id() const = 0;
  // The handshake on `channel` has come to its end.
  virtual void establish(Channel& channel, Verdict verdict) = 0;
  // Ends the session; the peer is not told but by closing. It is dialled after `retry_delay_ns`.
  virtual void lose(const std::string& reason, uint64_t retry_delay_ns) = 0;
  // A connection becomes part of the session, or ends to be.
  virtual void link_up(Channel& channel) = 0;
  virtual void link_down(Channel& channel, const std::string& reason, LinkEnd end) = 0;
  // Told once in a row.
  virtual void note_error(Link& link, const std::string& error) = 0;
  // Whether more waits for the peer to confirm it than from any that is well.
  [[nodiscard]] virtual bool tells_in_vain() const = 0;

 protected:
  ~SessionSteps() = default;
};

}  // namespace twinblock
