#include "virtual_network.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "report.h"

namespace twinblock::sim {

class VirtualNetwork::Endpoint final : public Connection {
 public:
  Endpoint(VirtualNetwork& network, WirePtr wire, int host)
      : network_(network),
        wire_(std::move(wire)),
        host_(host),
        process_(network.hosts_[index(host)].process),
        self_(std::make_shared<Endpoint*>(this)) {
    wire_->end[index(host)] = this;
  }
  ~Endpoint() override {
    *self_ = nullptr;
    wire_->end[index(host_)] = nullptr;
    if (!network_.hosts_[index(host_)].powered) wire_->dead[index(host_)] = true;
    if (!closed_ && !wire_->dead[index(host_)])
      network_.send_end(wire_, host_, network_.random_.chance(0.5));
  }

  void set_handler(ConnectionHandler* handler) override { handler_ = handler; }

  size_t read(std::span<std::byte> into) override {
    Pipe& pipe = incoming();
    if (closed_) return 0;
    const size_t got = std::min<size_t>(into.size(), pipe.arrived - pipe.read);
    if (got > 0) std::memcpy(into.data(), pipe.bytes.data() + (pipe.read - pipe.dropped), got);
    pipe.read += got;
    pipe.drop_read();
    if (got > 0) network_.window_opened(wire_, 1 - host_);
    return got;
  }

  void send(std::span<const std::byte> head, std::span<const std::byte> body) override {
    if (!head.empty()) chunks_.push_back({{head.begin(), head.end()}, {}});
    if (!body.empty()) chunks_.push_back({{}, body});
    queued_ += head.size() + body.size();
    pump_later();
  }
  void pause_reading(bool paused) override {
    paused_ = paused;
    if (!paused) notify();
  }
  [[nodiscard]] uint64_t queued_bytes_total() const override { return queued_; }
  [[nodiscard]] uint64_t sent_bytes_total() const override { return sent_; }
  [[nodiscard]] std::string peer_address() const override {
    return "10.0." + std::to_string(wire_->link->number) + "." + std::to_string(2 - host_) + ":7700";
  }

  bool sample_next() override {
    if (sampled_at_) return false;
    sampled_at_ = queued_;
    moments_ = {};
    return true;
  }
  [[nodiscard]] uint64_t arrived_ns() const override { return arrived_ns_; }

  // The turn of the loop ends: the kernel takes what it has room for.
  void pump_later() {
    if (pump_due_) return;
    pump_due_ = true;
    later(0, [](Endpoint& self) {
      self.pump_due_ = false;
      self.pump();
    });
  }
  void connected() {
    if (closed_) return;
    connected_ = true;
    handler_->connected();
    pump_later();
    notify();
  }
  void accepted() { connected_ = true; }
  [[nodiscard]] const WirePtr& wire() const { return wire_; }
  // Something has arrived: bytes, or the end.
  void notify() {
    if (notify_due_ || closed_) return;
    notify_due_ = true;
    arrived_ns_ = now_ns();
    later(1000, [](Endpoint& self) {
      self.notify_due_ = false;
      self.look();
    });
  }
  // The kernel has something to tell that is no byte, such as when it sent something again.
  void woken() {
    if (!closed_ && !paused_ && connected_ && handler_ != nullptr) handler_->readable();
  }
  // This host drops the connection: nothing more leaves it, and it answers to nothing but by a
  // reset.
  void break_off(const std::string& reason) {
    wire_->dead[index(host_)] = true;
    fail(reason);
  }
  void fail(const std::string& reason) {
    later(1000, [reason](Endpoint& self) { self.close_with(reason); });
  }

 private:
  struct Chunk {
    std::vector<std::byte> copied;
    std::span<const std::byte> referenced;
    [[nodiscard]] std::span<const std::byte> bytes() const {
      return copied.empty() ? referenced : std::span<const std::byte>(copied);
    }
  };

  template <typename F>
  void later(uint64_t delay_ns, F&& act) {
    network_.scheduler_.after(delay_ns, process_, [self = self_, act = std::forward<F>(act)] {
      if (*self != nullptr) act(**self);
    });
  }
  // On the clock of the process.
  [[nodiscard]] uint64_t now_ns() const {
    return process_->clock_origin_ns + network_.scheduler_.now_ns();
  }
  Pipe& incoming() { return wire_->pipe[index(1 - host_)]; }
  Pipe& outgoing() { return wire_->pipe[index(host_)]; }

  void pump() {
    if (!connected_ || closed_ || wire_->dead[index(host_)]) return;
    Pipe& pipe = outgoing();
    const uint64_t before = pipe.taken();
    const uint64_t window = std::min(pipe.window, wire_->link->faults.window_max_bytes);
    while (!chunks_.empty()) {
      const uint64_t room = window - std::min(window, pipe.taken() - pipe.read);
      const std::span<const std::byte> rest = chunks_.front().bytes().subspan(chunk_sent_);
      const size_t length = std::min<size_t>(room, rest.size());
      if (length == 0) break;
      pipe.bytes.insert(pipe.bytes.end(), rest.begin(),
                        rest.begin() + static_cast<std::ptrdiff_t>(length));
      network_.record(wire_, host_, rest.first(length));
      sent_ += length;
      chunk_sent_ += length;
      if (length < rest.size()) break;
      chunks_.pop_front();
      chunk_sent_ = 0;
    }
    if (pipe.taken() > before) network_.taken(wire_, host_, before);
    if (sampled_at_ && sent_ > *sampled_at_ && moments_.taken_ns == 0) tell_moments();
  }

  // Soon, or after the answer, or never: the connection may be gone.
  void tell_moments() {
    const uint64_t now = now_ns();
    moments_ = {now, now + 2000, now + 5000, now + 9000 + sent_ % 7 * kMillisecond_ns};
    later(moments_.acknowledged_ns - now, [](Endpoint& self) {
      self.sampled_at_.reset();
      if (!self.closed_) self.handler_->sampled(self.moments_);
    });
  }

  void look() {
    if (closed_ || handler_ == nullptr) return;
    if (!failed_.empty()) {
      close_with(failed_);
      return;
    }
    const Pipe& pipe = incoming();
    if (pipe.end_arrived && pipe.reset) {
      close_with("Connection reset by peer");
      return;
    }
    if (pipe.arrived > pipe.read) {
      if (paused_ || !connected_) return;  // connected() looks again
      const std::shared_ptr<Endpoint*> self = self_;
      handler_->readable();
      if (*self != nullptr && (pipe.arrived > pipe.read || pipe.end_arrived)) notify();
      return;
    }
    if (pipe.end_arrived) close_with("the peer closed the connection");
  }

  // A copy of the reason, since the handler may destroy this.
  void close_with(std::string reason) {
    if (handler_ == nullptr) {  // not handed over yet
      failed_ = std::move(reason);
      return;
    }
    if (!std::exchange(closed_, true)) handler_->closed(reason);
  }

  VirtualNetwork& network_;
  WirePtr wire_;
  const int host_;
  ProcessPtr process_;
  ConnectionHandler* handler_ = nullptr;
  bool connected_ = false;
  bool closed_ = false;
  bool paused_ = false;
  bool pump_due_ = false;
  bool notify_due_ = false;
  std::string failed_;  // before there was a handler
  std::deque<Chunk> chunks_;
  size_t chunk_sent_ = 0;
  uint64_t queued_ = 0;
  uint64_t sent_ = 0;
  uint64_t arrived_ns_ = 0;
  std::optional<uint64_t> sampled_at_;  // where the frame begins whose moments were asked for
  SendMoments moments_;
  std::shared_ptr<Endpoint*> self_;  // null once it is destroyed: for events under way
};

// What one process sees of the network.
class VirtualNetwork::Port final : public Network {
 public:
  Port(VirtualNetwork& network, int host, ProcessPtr process) : network_(network), host_(host) {
    network_.hosts_[index(host)].process = std::move(process);
  }
  ~Port() override {
    for (auto& [name, link] : network_.links_) link.accepted[index(host_)] = nullptr;
  }
  std::unique_ptr<Connection> dial(const LinkAddresses& addresses) override {
    Link& link = network_.link_of(addresses.name);
    const WirePtr wire = network_.new_wire(link);
    auto endpoint = std::make_unique<Endpoint>(network_, wire, host_);
    if (link.faults.cut[index(host_)] || link.faults.no_address[index(host_)]) {
      endpoint->break_off("Network is unreachable");
      return endpoint;
    }
    if (network_.stranger_answers(wire, host_)) return endpoint;
    wire->recording->dialler = host_;
    network_.scheduler_.after(network_.delay_ns(link), nullptr,
                              [network = &network_, wire, host = host_] { network->syn(wire, host); });
    return endpoint;
  }
  Status listen(const LinkAddresses& link, Accepted accepted,
                std::function<void(const Refusal&)>) override {
    Link& here = network_.link_of(link.name);
    if (here.faults.no_address[index(host_)]) return Error{"Cannot assign requested address", "", EADDRNOTAVAIL};
    here.accepted[index(host_)] = std::move(accepted);
    return ok_status();
  }
  void unlisten(const std::string& link) override {
    network_.link_of(link).accepted[index(host_)] = nullptr;
  }

 private:
  VirtualNetwork& network_;
  const int host_;
};

VirtualNetwork::VirtualNetwork(Scheduler& scheduler, Random random) : scheduler_(scheduler), random_(random) {}

std::unique_ptr<Network> VirtualNetwork::attach(int host, ProcessPtr process) {
  return std::make_unique<Port>(*this, host, std::move(process));
}

VirtualNetwork::Link& VirtualNetwork::link_of(const std::string& name) {
  const auto [at, is_new] = links_.try_emplace(name);
  if (is_new) at->second.number = links_.size() - 1;
  return at->second;
}

bool VirtualNetwork::carries(const Link& link, int from) const {
  const LinkFaults& faults = link.faults;
  return !silent_[index(from)] && !faults.silent[index(from)] && !faults.cut[0] && !faults.cut[1];
}

uint64_t VirtualNetwork::delay_ns(const Link& link) {
  return random_.spread(link.faults.delay_min_ns, link.faults.delay_max_ns);
}

VirtualNetwork::WirePtr VirtualNetwork::new_wire(Link& link) {
  auto wire = std::make_shared<Wire>();
  wire->link = &link;
  wire->recording = std::make_shared<Recording>();
  for (Pipe& pipe : wire->pipe) pipe.window = random_.spread(64 * kKiB, 4 * kMiB);
  std::erase_if(wires_, [](const std::weak_ptr<Wire>& held) { return held.expired(); });
  wires_.push_back(wire);
  return wire;
}

void VirtualNetwork::syn(const WirePtr& wire, int from) {
  Endpoint* dialler = wire->end[index(from)];
  if (dialler == nullptr || wire->dead[index(from)]) return;
  Host& target = hosts_[index(1 - from)];
  Link& link = *wire->link;
  if (!carries(link, 0) || !carries(link, 1) || !target.powered || dials_blocked_[index(from)]) {
    scheduler_.after(random_.between(200, 1000) * kMillisecond_ns, nullptr,
                     [this, wire, from] { syn(wire, from); });
    return;
  }
  if (!link.accepted[index(1 - from)]) {
    dialler->fail("Connection refused");
    return;
  }
  accept_soon(wire, 1 - from);
  link.recordings.push_back(wire->recording);
  if (link.recordings.size() > kRecordingsMax) link.recordings.pop_front();
  scheduler_.after(delay_ns(link), hosts_[index(from)].process, [wire, from] {
    if (Endpoint* end = wire->end[index(from)]) end->connected();
  });
}

// The kernel accepts, the process hears of it when it runs.
void VirtualNetwork::accept_soon(const WirePtr& wire, int host) {
  auto endpoint =
      std::make_shared<std::unique_ptr<Endpoint>>(std::make_unique<Endpoint>(*this, wire, host));
  (*endpoint)->accepted();
  scheduler_.after(random_.below(100'000), hosts_[index(host)].process, [host, endpoint] {
    Endpoint* connection = endpoint->get();
    const WirePtr held = connection->wire();
    // It may end with the call.
    const Accepted accepted = held->link->accepted[index(host)];
    if (!accepted) return;
    accepted(std::move(*endpoint));
    if (held->end[index(host)] == connection) connection->notify();
  });
}

// What virtual_strangers.cc needs to know of endpoints.
bool VirtualNetwork::stranger_answers(const WirePtr& wire, int dialler) {
  Link& link = *wire->link;
  if (!std::exchange(link.haunted[index(dialler)], false)) return false;
  const Recording* recording = recording_of(link, dialler, wire::FrameType::kHello);
  if (recording == nullptr) return false;
  wire->stranger = 1 - dialler;
  wire->lies = recording->said[index(1 - dialler)];
  scheduler_.after(delay_ns(link), hosts_[index(dialler)].process, [this, wire, dialler] {
    if (Endpoint* end = wire->end[index(dialler)]) end->connected();
    stranger_says(wire);
  });
  return true;
}

// The kernel of `from` has taken the bytes from `begin` on: they travel in segments.
void VirtualNetwork::taken(const WirePtr& wire, int from, uint64_t begin) {
  const uint64_t end = wire->pipe[index(from)].taken();
  while (begin < end) {
    uint64_t length = end - begin;
    if (random_.chance(0.3))
      length = random_.between(1, length);
    else if (random_.chance(0.2))
      length = std::min<uint64_t>(length, 1448);
    if (wire->link->faults.bytes_per_s > 0) length = std::min(length, 16 * kKiB);
    begin += length;
    segment(wire, from, begin);
    if (end - begin > 64 * kKiB || wire->link->faults.bytes_per_s > 0) continue;
    if (random_.chance(0.5)) {  // the rest in one
      if (begin < end) segment(wire, from, end);
      return;
    }
  }
}

void VirtualNetwork::segment(const WirePtr& wire, int from, uint64_t up_to) {
  Pipe& pipe = wire->pipe[index(from)];
  Link& link = *wire->link;
  uint64_t leaves_ns = scheduler_.now_ns();
  if (link.faults.bytes_per_s > 0) {
    uint64_t& busy_until_ns = link.busy_until_ns[index(from)];
    leaves_ns = std::max(leaves_ns, busy_until_ns) +
                (up_to - pipe.sent) * kSecond_ns / link.faults.bytes_per_s;
    busy_until_ns = leaves_ns;
  }
  pipe.sent = up_to;
  pipe.last_arrival_ns = std::max(pipe.last_arrival_ns, leaves_ns + delay_ns(link));
  scheduler_.after(pipe.last_arrival_ns - scheduler_.now_ns(), nullptr,
                   [this, wire, from, up_to] { arrive(wire, from, up_to); });
}

void VirtualNetwork::arrive(const WirePtr& wire, int from, uint64_t up_to) {
  Pipe& pipe = wire->pipe[index(from)];
  Host& target = hosts_[index(1 - from)];
  if (!target.powered) return;
  if (!carries(*wire->link, from) || !carries(*wire->link, 1 - from)) repeat(wire, from);
  if (!carries(*wire->link, from)) {
    pipe.held = std::max(pipe.held, up_to);
    return;
  }
  if (up_to > wire->link->faults.bytes_max) {
    for (Endpoint* end : wire->end)
      if (end != nullptr) end->break_off("Connection reset by peer");
    return;
  }
  if (wire->dead[index(1 - from)]) {
    send_end(wire, 1 - from, true);
  } else if (Endpoint* receiver = wire->end[index(1 - from)]) {
    pipe.arrived = std::max(pipe.arrived, up_to);
    receiver->notify();
  }
}

// What is not acknowledged is sent again, later each time, and the sender's process hears of it, where it
// has asked for the moments.
void VirtualNetwork::repeat(const WirePtr& wire, int from, uint64_t delay_ns) {
  if (std::exchange(wire->pipe[index(from)].repeated, true)) return;
  scheduler_.after(delay_ns, hosts_[index(from)].process, [this, wire, from, delay_ns] {
    wire->pipe[index(from)].repeated = false;
    Endpoint* sender = wire->end[index(from)];
    if (sender == nullptr || (carries(*wire->link, 0) && carries(*wire->link, 1))) return;
    repeat(wire, from, 2 * delay_ns);
    sender->woken();
  });
}

void VirtualNetwork::window_opened(const WirePtr& wire, int sender) {
  scheduler_.after(delay_ns(*wire->link), nullptr, [wire, sender] {
    if (Endpoint* end = wire->end[index(sender)]) end->pump_later();
  });
}

void VirtualNetwork::send_end(const WirePtr& wire, int from, bool reset) {
  Pipe& pipe = wire->pipe[index(from)];
  pipe.reset = reset;
  const uint64_t earliest = scheduler_.now_ns() + delay_ns(*wire->link);
  pipe.last_arrival_ns = std::max(pipe.last_arrival_ns, earliest);
  scheduler_.after(pipe.last_arrival_ns - scheduler_.now_ns(), nullptr,
                   [this, wire, from] { end_arrives(wire, from); });
}

void VirtualNetwork::end_arrives(const WirePtr& wire, int from) {
  Pipe& pipe = wire->pipe[index(from)];
  if (!hosts_[index(1 - from)].powered) return;
  if (!carries(*wire->link, from)) {
    pipe.end_held = true;
    return;
  }
  pipe.end_arrived = true;
  if (Endpoint* receiver = wire->end[index(1 - from)]) receiver->notify();
}

// What was held back and may go on does.
void VirtualNetwork::release(const WirePtr& wire) {
  for (int from = 0; from < 2; ++from) {
    Pipe& pipe = wire->pipe[index(from)];
    if (!carries(*wire->link, from)) continue;
    // Sent again after the retransmission timer.
    const uint64_t delay = random_.spread(kMillisecond_ns, kSecond_ns);
    if (pipe.held > pipe.arrived)
      scheduler_.after(delay, nullptr,
                       [this, wire, from, up_to = pipe.held] { arrive(wire, from, up_to); });
    if (std::exchange(pipe.end_held, false))
      scheduler_.after(delay + 1, nullptr, [this, wire, from] { end_arrives(wire, from); });
  }
}

void VirtualNetwork::set_silent(const std::array<bool, 2>& silent) {
  silent_ = silent;
  ++silences_;
  if (silent[0] || silent[1]) return;
  for (const auto& held : wires_)
    if (const WirePtr wire = held.lock()) release(wire);
}

void VirtualNetwork::set_faults(const std::string& name, const LinkFaults& faults) {
  Link& link = link_of(name);
  link.faults = faults;
  if (faults.bytes_per_s == 0) link.busy_until_ns = {};
  for (const auto& held : wires_) {
    const WirePtr wire = held.lock();
    if (!wire || wire->link != &link) continue;
    for (const int host : {0, 1})
      if (Endpoint* end = wire->end[index(host)]; end != nullptr && faults.cut[index(host)])
        end->break_off("Network is unreachable");
    release(wire);
    for (Endpoint* end : wire->end)
      if (end != nullptr) end->pump_later();  // its window may have become larger
  }
}

void VirtualNetwork::heal() {
  for (auto& [name, link] : links_) link.faults = LinkFaults{};
  set_silent({false, false});
}

void VirtualNetwork::reset(const std::string& name, const std::array<bool, 2>& at) {
  const Link& link = link_of(name);
  for (const auto& held : wires_) {
    const WirePtr wire = held.lock();
    if (!wire || wire->link != &link) continue;
    for (const int host : {0, 1})
      if (Endpoint* end = wire->end[index(host)]; end != nullptr && at[index(host)])
        end->break_off("Connection reset by peer");
  }
}

void VirtualNetwork::reset_all() {
  for (const auto& held : wires_) {
    const WirePtr wire = held.lock();
    if (!wire) continue;
    for (Endpoint* end : wire->end)
      if (end != nullptr) end->fail("Connection reset by peer");
  }
}

}  // namespace twinblock::sim
