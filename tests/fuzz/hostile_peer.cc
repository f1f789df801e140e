#include "hostile_peer.h"

#include <cerrno>
#include <utility>

#include "base/crc32c.h"
#include "base/limits.h"
#include "session/hello.h"

namespace twinblock::fuzz {
namespace {

using wire::FrameHeader;
using wire::FrameType;
using wire::header_of;

constexpr size_t kLinesMax = limits::kPendingConnectionsMax + 16;
constexpr size_t kRequestsMax = 4096;

bool is_request(uint8_t type) {
  switch (static_cast<FrameType>(type)) {
    case FrameType::kData:
    case FrameType::kFlush:
    case FrameType::kRead:
    case FrameType::kDigest:
    case FrameType::kGeneration:
    case FrameType::kLinkChange:
    case FrameType::kGrow:
    case FrameType::kSnapshot:
      return true;
    default:
      return false;
  }
}

// Of the control stream: these, and answers to what came over it.
bool is_control(uint8_t type) {
  switch (static_cast<FrameType>(type)) {
    case FrameType::kPromoteAnswer:
    case FrameType::kRetire:
    case FrameType::kRetired:
      return true;
    default:
      return false;
  }
}

}  // namespace

// One connection.
class HostilePeer::Line final : public ConnectionHandler {
 public:
  Line(HostilePeer& peer, std::unique_ptr<Connection> stream, size_t link, bool dialled)
      : peer_(peer), link_(link), dialled_(dialled), connection(std::move(stream)) {
    connection->set_handler(this);
    reader_.set_volume_bytes(peer.node_.config.size_bytes);
    if (dialled_) return;
    nonce_ = peer_.next_nonce();
    say(wire::to_header(wire::ChallengeFrame{nonce_}));
  }
  void connected() override {}
  void challenged(uint64_t nonce) {
    peer_nonce_ = nonce;
    nonce_ = peer_.next_nonce();
    // Where a session stands, other links join it.
    const bool stands = peer_.up() && link_ != 0;
    if (!peer_.shakes_hands) return;
    if (stands)
      ask_to_join(2 * peer_.next_sequence() + (peer_.name_ == "beta" ? 1 : 0));
    else
      say_hello();
  }
  void ask_to_join(uint64_t number) {
    incarnation = number;
    session_ = peer_.session_;
    say(wire::to_header(
        wire::JoinFrame{number, session_.dialler, session_.acceptor, peer_nonce_, peer_.renews}));
  }
  void closed(const std::string&) override {
    open = false;
    up = false;
    requests.clear();
  }
  // By this side. What has arrived is never read: as long as there is a connection that says so,
  // its network would tell of it for ever.
  void hang_up() {
    closed({});
    connection.reset();
  }
  void readable() override {
    reader_.begin_turn();
    wire::Frame frame;
    while (open) {
      switch (reader_.next(*connection, frame)) {
        case wire::FrameReader::Outcome::kNothing:
          return;
        case wire::FrameReader::Outcome::kError:
          require(false, "the engine sent what no engine takes", reader_.error());
          return;
        case wire::FrameReader::Outcome::kFrame:
          heard(frame);
          break;
      }
    }
  }
  void say(FrameHeader header, std::span<const std::byte> payload = {}) {
    if (!open) return;
    if (is_control(header.type) || (header.flags & wire::kFlagControl) != 0) {
      header.flags = 0;
      wire::set_order(header, ++peer_.control_sent_);
    }
    connection->send(wire::seal(header, payload));
    connection->send(payload);
  }
  void say_hello() {
    said_ = peer_.facts();
    said_.instance = instance_number(peer_.instance);
    wire::HelloPayload hello = make_hello(
        peer_.node_.config, peer_.name_, peer_.links_[link_].name, peer_.instance, said_,
        peer_.node_.config.size_bytes, true);
    hello.nonce = nonce_;
    hello.echo = peer_nonce_;
    if (dialled_) session_ = {nonce_, peer_nonce_};
    say(header_of(FrameType::kHello), wire::bytes_of(hello));
  }
  void say_verdict(uint64_t code) {
    FrameHeader header = header_of(FrameType::kVerdict);
    header.sequence = code;
    say(header);
  }
  void beat() {
    say(wire::to_header(wire::HeartbeatFrame{.sent_ns = peer_.node_.scheduler.now_ns(),
                                             .echo_ns = tick_,
                                             .received = peer_.confirms ? peer_.control_received_ : 0,
                                             .disk_still_ns = std::max(peer_.disk_still_ns, peer_.stalled_ns),
                                             .stalled = peer_.stalled_ns > 0}));
  }
  void answer(const FrameHeader& request, uint32_t status, uint32_t payload_bytes) {
    // Durations that make no sense are the engine's to bear; on the control stream there are none.
    const bool control = (request.flags & wire::kFlagControl) != 0;
    FrameHeader ack = wire::to_header(wire::AckFrame{.request = request.sequence,
                                                     .error = status,
                                                     .sent_ns = control ? 0 : request.length,
                                                     .disk_ns = control ? 0 : request.offset});
    ack.flags = control ? wire::kFlagControl : 0;
    if (payload_bytes == 0 && status == 0) {
      if (request.type == static_cast<uint8_t>(FrameType::kRead))
        payload_bytes = static_cast<uint32_t>(request.length);
      if (request.type == static_cast<uint8_t>(FrameType::kDigest) &&
          (request.flags & wire::kFlagZero) != 0)
        payload_bytes = sizeof(wire::HolePayload);
      else if (request.type == static_cast<uint8_t>(FrameType::kDigest))
        payload_bytes = static_cast<uint32_t>((request.length + limits::kBlockBytes - 1) /
                                              limits::kBlockBytes * wire::kDigestBytes);
    }
    say(ack, std::vector<std::byte>(payload_bytes, std::byte{0x5A}));
  }

 private:
  void heard(const wire::Frame& frame) {
    const FrameHeader& header = frame.header;
    if ((header.flags & wire::kFlagControl) != 0) {
      // Of an older session, or sent again over this link after another one has died.
      if (session_ != peer_.session_ || wire::order_of(header) <= peer_.control_received_) return;
      peer_.control_received_ = wire::order_of(header);
    }
    if (peer_.hears) peer_.hears(header);
    if (peer_.hears_payload) peer_.hears_payload(header, frame.payload);
    if (is_request(header.type)) {
      const bool asks_for_a_hole = (header.flags & wire::kFlagZero) != 0;
      const bool reads = header.type == static_cast<uint8_t>(FrameType::kRead) ||
                         (header.type == static_cast<uint8_t>(FrameType::kDigest) && !asks_for_a_hole);
      if (peer_.answers)
        answer(header, reads && meets(peer_.unreadable_at, header.offset, header.length) ? EIO : 0, 0);
      else if (requests.size() < kRequestsMax)
        requests.push_back(header);
      return;
    }
    switch (static_cast<FrameType>(header.type)) {
      case FrameType::kHello:
        heard_hello(wire::payload_as<wire::HelloPayload>(frame.payload));
        break;
      case FrameType::kChallenge:
        challenged(wire::frame_as<wire::ChallengeFrame>(header).nonce);
        break;
      case FrameType::kVerdict:
        if (dialled_ && peer_.shakes_hands) say_verdict(verdict());
        peer_.session_begins(session_);
        up = true;
        if (peer_.settings) {
          FrameHeader told = wire::to_header(wire::SettingsFrame{peer_.witness_mark});
          told.flags = wire::kFlagControl;
          say(told, wire::bytes_of(*peer_.settings));
        }
        break;
      case FrameType::kJoin:
        if (!dialled_) {
          auto join = wire::frame_as<wire::JoinFrame>(header);
          incarnation = join.incarnation;
          session_ = {join.dialler, join.acceptor};
          join.challenge = 0;
          join.renews = false;
          if (peer_.shakes_hands) say(wire::to_header(join));
        }
        up = true;
        break;
      case FrameType::kRetire:
      case FrameType::kRetired:
        if (peer_.answers) peer_.retired(wire::frame_as<wire::RetireFrame>(header).incarnation);
        break;
      case FrameType::kHeartbeat:
        tick_ = wire::frame_as<wire::HeartbeatFrame>(header).sent_ns;
        break;
      case FrameType::kProbe:
        if (peer_.lets_probe) say(header_of(FrameType::kProbeHost), wire::bytes_of(wire::ProbeHostPayload{}));
        break;
      case FrameType::kProbeAsk:
        if (peer_.lets_probe)
          say(wire::to_header(wire::ProbeAnswerFrame{wire::frame_as<wire::ProbeAskFrame>(header).number}));
        break;
      case FrameType::kPromoteAsk:
        question_ = wire::frame_as<wire::PromoteAskFrame>(header).question;
        if (peer_.answers && peer_.agrees) agree(0);
        break;
      default:
        break;
    }
  }
  void heard_hello(const wire::HelloPayload& hello) {
    theirs_ = facts_of(hello, peer_.name_ == "beta");
    if (!dialled_) peer_nonce_ = hello.nonce;
    if (!theirs_.blank) {
      peer_.theirs_ = theirs_.generations;
      peer_.volume_uuid_ = theirs_.volume_uuid;
      peer_.their_state_ = theirs_.state_id;
    }
    if (dialled_ || !peer_.shakes_hands) return;
    session_ = {peer_nonce_, nonce_};
    say_hello();
    say_verdict(verdict());
  }
  [[nodiscard]] uint64_t verdict() const { return static_cast<uint64_t>(decide(said_, theirs_)); }

 public:
  void agree(uint32_t status) {
    say(wire::to_header(wire::PromoteAnswerFrame{question_, status}), wire::text_bytes("yes"));
  }

 private:
  HostilePeer& peer_;
  const size_t link_;
  const bool dialled_;
  wire::FrameReader reader_;
  SyncFacts said_, theirs_;
  SessionId session_;
  uint64_t question_ = 0;  // the last one that this line was asked
  uint64_t nonce_ = 0, peer_nonce_ = 0;
  uint64_t tick_ = 0;

 public:
  std::unique_ptr<Connection> connection;
  bool open = true;
  bool up = false;
  uint64_t incarnation = 0;
  std::deque<FrameHeader> requests;
};

HostilePeer::HostilePeer(FuzzNode& node, std::string name, const metadata::NodeRecord& known)
    : node_(node),
      name_(std::move(name)),
      process_(std::make_shared<sim::Process>()),
      theirs_(known.generations),
      volume_uuid_(known.volume_uuid) {
  process_->name = name_;
  port_ = node_.network.attach(1, process_);
  for (const LinkConfig& link : node_.config.links) {
    const size_t number = links_.size();
    links_.push_back(
        {link.name, link.address.at(name_), link.address.at(node_.config.other(name_).name)});
    const Status listening = port_->listen(
        links_.back(),
        [this, number](std::unique_ptr<Connection> connection) {
          accept(std::move(connection), number);
        },
        [](const Refusal&) {});
    require(listening.ok(), "the harness's own listener");
  }
  tick();
}

HostilePeer::~HostilePeer() {
  process_->alive = false;
  lines_.clear();
}

void HostilePeer::tick() {
  for (const auto& each : lines_)
    if (beats && each->up) each->beat();
  node_.scheduler.after(limits::kHeartbeatInterval_ns, process_, [this] { tick(); });
}

// One that the engine does not know yet.
uint64_t HostilePeer::fresh(uint64_t base) const {
  uint64_t number = base + theirs_.current % 0x10000;
  while (theirs_.knows(number)) ++number;
  return number;
}

SyncFacts HostilePeer::facts() const {
  SyncFacts facts;
  facts.preferred = name_ == "alpha";
  facts.volume_uuid = volume_uuid_;
  facts.generations = theirs_;
  // Another peer was in the sessions before, with these disks.
  facts.sessions = node_.engine->status().mine.sessions;
  if (recorded && facts.sessions.begun != 0) facts.sessions.stands(facts.sessions.begun);
  facts.map_valid = true;
  facts.term = term_;
  switch (stance_) {
    case Stance::kBlank:
      facts = SyncFacts{};
      facts.preferred = name_ == "alpha";
      facts.blank = true;
      facts.joinable = joins;
      facts.map_valid = true;
      facts.asks_register = asks_register;
      facts.asks_command = asks_command;
      return facts;
    case Stance::kSame:
      facts.generations.settle();
      break;
    case Stance::kNewer:
      facts.generations.settle();
      facts.generations.advance(fresh(0xABCD0000));
      break;
    case Stance::kOlder:
      facts.generations.current = facts.generations.base;
      break;
    case Stance::kUnrelated:
      facts.volume_uuid[0] ^= 0xFF;
      break;
    case Stance::kDiverged:
      facts.generations.current = fresh(0xDEAD0000);
      break;
  }
  facts.asks_register = asks_register;
  facts.asks_command = asks_command;
  facts.primary = (flags_ & 1) != 0;
  facts.crashed = (flags_ & 2) != 0;
  facts.inconsistent = (flags_ & 4) != 0;
  facts.disk_failed = (flags_ & 8) != 0;
  facts.dirty = (flags_ & 16) != 0;
  facts.map_valid = (flags_ & 32) == 0;
  facts.discard = (flags_ & 64) != 0;
  facts.keep = (flags_ & 128) != 0;
  facts.state_id = 1 + term_ % 4;
  // It knows what an order would have to name.
  facts.gives_up = facts.keep ? their_state_ : facts.state_id;
  if (tells) tells(facts);
  return facts;
}

void HostilePeer::take(Stance stance, uint8_t flags, uint64_t term) {
  stance_ = stance;
  flags_ = flags;
  term_ = term;
}

HostilePeer::Line* HostilePeer::line(size_t which) {
  // The youngest first: that is the one that is up, mostly.
  return lines_.empty() ? nullptr : lines_[lines_.size() - 1 - which % lines_.size()].get();
}

void HostilePeer::accept(std::unique_ptr<Connection> connection, size_t link) {
  if (!listens || lines_.size() >= kLinesMax) return;
  lines_.push_back(std::make_unique<Line>(*this, std::move(connection), link, false));
}

void HostilePeer::dial(size_t link) {
  if (lines_.size() >= kLinesMax) return;
  link %= links_.size();
  lines_.push_back(std::make_unique<Line>(*this, port_->dial(links_[link]), link, true));
}

void HostilePeer::ask_to_join(size_t which, uint64_t incarnation) {
  if (Line* to = line(which)) to->ask_to_join(incarnation);
}

// Says so of a connection (its own name for the youngest: 0), over another one.
void HostilePeer::retire(size_t which, bool retired) {
  Line* of = line(which);
  Line* over = line(which + 1);
  if (of == nullptr || over == nullptr) return;
  over->say(retired ? wire::to_header(wire::RetiredFrame{of->incarnation})
                    : wire::to_header(wire::RetireFrame{of->incarnation}));
}

void HostilePeer::session_begins(const SessionId& session) {
  session_ = session;
  control_sent_ = control_received_ = 0;
  retired_.clear();
}

// The engine has closed that connection: so does this side, and has nothing under way.
void HostilePeer::retired(uint64_t incarnation) {
  if (!retires || !retired_.insert(incarnation).second) return;
  for (const auto& each : lines_)
    if (each->up && each->incarnation == incarnation) each->hang_up();
  for (const auto& each : lines_) {
    if (!each->up) continue;
    each->say(wire::to_header(wire::RetiredFrame{incarnation}));
    return;
  }
}

void HostilePeer::hang_up(size_t which) {
  if (lines_.empty()) return;
  lines_.erase(lines_.end() - 1 - static_cast<std::ptrdiff_t>(which % lines_.size()));
}

void HostilePeer::send(size_t which, std::span<const std::byte> bytes) {
  if (Line* to = line(which); to != nullptr && to->open) to->connection->send(bytes);
}

void HostilePeer::send_hello(size_t which) {
  if (Line* to = line(which)) to->say_hello();
}

void HostilePeer::send_beat(size_t which) {
  if (Line* to = line(which)) to->beat();
}

void HostilePeer::send_verdict(size_t which, uint64_t code) {
  if (Line* to = line(which)) to->say_verdict(code);
}

void HostilePeer::answer(size_t which, size_t skip, uint32_t status, uint32_t payload_bytes) {
  Line* to = line(which);
  if (to == nullptr || to->requests.empty()) return;
  const auto request =
      to->requests.begin() + static_cast<std::ptrdiff_t>(skip % to->requests.size());
  const FrameHeader header = *request;
  to->requests.erase(request);
  to->answer(header, status, payload_bytes);
}

void HostilePeer::agree_to_promotion(size_t which, uint32_t status) {
  if (Line* to = line(which)) to->agree(status);
}

void HostilePeer::tell_settings(const wire::SettingsPayload& told) {
  FrameHeader header = wire::to_header(wire::SettingsFrame{witness_mark});
  wire::set_order(header, ++control_sent_);
  for (size_t which = 0; which < lines_.size(); ++which) {  // whichever is open
    send(which, wire::seal(header, wire::bytes_of(told)));
    send(which, wire::bytes_of(told));
  }
}

uint64_t HostilePeer::tell_generation(size_t which, const metadata::Generations& told, uint32_t flag) {
  const wire::GenerationPayload payload = make_generation(told, volume_uuid_, flag);
  const uint64_t request = next_sequence();
  FrameHeader header = wire::to_header(wire::GenerationFrame{request});
  wire::set_order(header, ++control_sent_);
  send(which, wire::seal(header, wire::bytes_of(payload)));
  send(which, wire::bytes_of(payload));
  return request;
}

void HostilePeer::vanish() {
  listens = false;
  lines_.clear();
}

bool HostilePeer::up() const {
  return std::any_of(lines_.begin(), lines_.end(), [](const auto& each) { return each->up; });
}

}  // namespace twinblock::fuzz
