// One connection of a session, before and after its handshake. Private to the session; loop thread
// only.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/limits.h"
#include "io/connection.h"
#include "mirror/generation.h"
#include "volume/session.h"
#include "wire/frame_reader.h"

namespace twinblock {

// One connection and its reader. After close() it is only a name for logs, until it is deleted.
class Session::Channel final : public ConnectionHandler {
 public:
  enum class Phase {
    kConnecting,    // dialled, not connected yet
    kAwaitHello,    // the peer's hello is to come (a dialler has sent its own)
    kDraining,      // accepted, hello is good; an earlier session's disk work ends first
    kAwaitVerdict,  // hellos are exchanged
    kClosing,       // refused: only what we have said has still to reach the peer
    kUp,
    kClosed,
  };

  Channel(Session& session, std::unique_ptr<Connection> stream, bool dialled, uint64_t now_ns)
      : dialled_(dialled),
        phase(dialled ? Phase::kConnecting : Phase::kAwaitHello),
        opened_ns(now_ns),
        address(stream->peer_address()),
        connection(std::move(stream)),
        session_(session) {
    connection->set_handler(this);
  }

  void connected() override {
    phase = Phase::kAwaitHello;
    session_.send_hello(*this);
  }
  void readable() override { session_.channel_readable(*this); }
  void closed(const std::string& reason) override { session_.channel_closed(*this, reason); }

  // Goes on for a moment, so that the peer can read why.
  void close_soon(uint64_t now_ns) {
    phase = Phase::kClosing;
    opened_ns = now_ns - limits::kHandshakeTimeout_ns + limits::kFarewell_ns;
  }
  void close() {
    phase = Phase::kClosed;
    connection.reset();
  }
  [[nodiscard]] bool dialled() const { return dialled_; }

 private:
  const bool dialled_;

 public:
  Phase phase;
  uint64_t opened_ns;
  std::string address;
  std::unique_ptr<Connection> connection;
  wire::FrameReader reader;
  SyncFacts said;   // what we said in our hello
  SyncFacts heard;  // what the peer said
  bool peer_fast_zero = false;
  metadata::Uuid peer_instance{};
  Verdict verdict = Verdict::kWaitForInit;

 private:
  Session& session_;
};

}  // namespace twinblock
