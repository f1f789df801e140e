#include "virtual_network.h"

#include <algorithm>
#include <cstring>
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
    if (!network_.hosts_[index(host_)].powered) {
      wire_->dead[index(host_)] = true;
      return;
    }
    if (!closed_) network_.send_end(wire_, host_, network_.random_.chance(0.5));
  }

  void set_handler(ConnectionHandler* handler) override { handler_ = handler; }

  size_t read(std::span<std::byte> into) override {
    Pipe& pipe = incoming();
    if (closed_) return 0;
    const size_t got = std::min<size_t>(into.size(), pipe.arrived - pipe.read);
    if (got > 0) std::memcpy(into.data(), pipe.bytes.data() + (pipe.read - pipe.dropped), got);
    pipe.read += got;
    if (pipe.read - pipe.dropped > kMiB) {
      pipe.bytes.erase(pipe.bytes.begin(),
                       pipe.bytes.begin() + static_cast<std::ptrdiff_t>(pipe.read - pipe.dropped));
      pipe.dropped = pipe.read;
    }
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
    return "10.0.0." + std::to_string(2 - host_) + ":7700";
  }

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
    later(1000, [](Endpoint& self) {
      self.notify_due_ = false;
      self.look();
    });
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
  Pipe& incoming() { return wire_->pipe[index(1 - host_)]; }
  Pipe& outgoing() { return wire_->pipe[index(host_)]; }

  void pump() {
    if (!connected_ || closed_) return;
    Pipe& pipe = outgoing();
    const uint64_t before = pipe.taken();
    while (!chunks_.empty()) {
      const uint64_t room = pipe.window - std::min(pipe.window, pipe.taken() - pipe.read);
      const std::span<const std::byte> rest = chunks_.front().bytes().subspan(chunk_sent_);
      const size_t length = std::min<size_t>(room, rest.size());
      if (length == 0) break;
      pipe.bytes.insert(pipe.bytes.end(), rest.begin(),
                        rest.begin() + static_cast<std::ptrdiff_t>(length));
      sent_ += length;
      chunk_sent_ += length;
      if (length < rest.size()) break;
      chunks_.pop_front();
      chunk_sent_ = 0;
    }
    if (pipe.taken() > before) network_.taken(wire_, host_, before);
  }

  void look() {
    if (closed_ || handler_ == nullptr) return;
    const Pipe& pipe = incoming();
    if (pipe.end_arrived && pipe.reset) {
      close_with("Connection reset by peer");
      return;
    }
    if (pipe.arrived > pipe.read) {
      if (paused_) return;
      const std::shared_ptr<Endpoint*> self = self_;
      handler_->readable();
      if (*self != nullptr && (pipe.arrived > pipe.read || pipe.end_arrived)) notify();
      return;
    }
    if (pipe.end_arrived) close_with("the peer closed the connection");
  }

  void close_with(const std::string& reason) {
    if (std::exchange(closed_, true) || handler_ == nullptr) return;
    handler_->closed(reason);
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
  std::deque<Chunk> chunks_;
  size_t chunk_sent_ = 0;
  uint64_t queued_ = 0;
  uint64_t sent_ = 0;
  std::shared_ptr<Endpoint*> self_;  // null once it is destroyed: for events under way
};

// What one process sees of the network.
class VirtualNetwork::Port final : public Network {
 public:
  Port(VirtualNetwork& network, int host, ProcessPtr process) : network_(network), host_(host) {
    network_.hosts_[index(host)].process = std::move(process);
  }
  ~Port() override { network_.hosts_[index(host_)].accepted = nullptr; }
  std::unique_ptr<Connection> dial(const LinkAddresses&) override {
    const WirePtr wire = network_.new_wire();
    auto endpoint = std::make_unique<Endpoint>(network_, wire, host_);
    network_.scheduler_.after(
        network_.delay_ns(), nullptr,
        [network = &network_, wire, host = host_] { network->syn(wire, host); });
    return endpoint;
  }
  Status listen(const LinkAddresses&, std::function<void(std::unique_ptr<Connection>)> accepted,
                std::function<void(const std::string&)>) override {
    network_.hosts_[index(host_)].accepted = std::move(accepted);
    return ok_status();
  }

 private:
  VirtualNetwork& network_;
  const int host_;
};

VirtualNetwork::VirtualNetwork(Scheduler& scheduler, Random random)
    : scheduler_(scheduler), random_(random) {}

std::unique_ptr<Network> VirtualNetwork::attach(int host, ProcessPtr process) {
  return std::make_unique<Port>(*this, host, std::move(process));
}

uint64_t VirtualNetwork::delay_ns() {
  return random_.spread(10 * kMicrosecond_ns, faults.delay_max_ns);
}

VirtualNetwork::WirePtr VirtualNetwork::new_wire() {
  auto wire = std::make_shared<Wire>();
  for (Pipe& pipe : wire->pipe) pipe.window = random_.spread(64 * kKiB, 4 * kMiB);
  std::erase_if(wires_, [](const std::weak_ptr<Wire>& held) { return held.expired(); });
  wires_.push_back(wire);
  return wire;
}

void VirtualNetwork::syn(const WirePtr& wire, int from) {
  Endpoint* dialler = wire->end[index(from)];
  if (dialler == nullptr) return;
  Host& target = hosts_[index(1 - from)];
  if (faults.silent[0] || faults.silent[1] || !target.powered) {
    scheduler_.after(random_.between(200, 1000) * kMillisecond_ns, nullptr,
                     [this, wire, from] { syn(wire, from); });
    return;
  }
  if (!target.accepted) {
    dialler->fail("Connection refused");
    return;
  }
  // The kernel accepts, the process hears of it when it runs.
  auto endpoint = std::make_shared<std::unique_ptr<Endpoint>>(
      std::make_unique<Endpoint>(*this, wire, 1 - from));
  (*endpoint)->accepted();
  scheduler_.after(random_.below(100'000), target.process, [this, from, endpoint] {
    const auto& accepted = hosts_[index(1 - from)].accepted;
    Endpoint* connection = endpoint->get();
    if (!accepted) return;
    const WirePtr held = connection->wire();
    accepted(std::move(*endpoint));
    if (held->end[index(1 - from)] == connection) connection->notify();
  });
  scheduler_.after(delay_ns(), hosts_[index(from)].process, [wire, from] {
    if (Endpoint* end = wire->end[index(from)]) end->connected();
  });
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
    begin += length;
    segment(wire, from, begin);
    if (end - begin > 64 * kKiB) continue;
    if (random_.chance(0.5)) {  // the rest in one
      if (begin < end) segment(wire, from, end);
      return;
    }
  }
}

void VirtualNetwork::segment(const WirePtr& wire, int from, uint64_t up_to) {
  Pipe& pipe = wire->pipe[index(from)];
  pipe.last_arrival_ns = std::max(pipe.last_arrival_ns, scheduler_.now_ns() + delay_ns());
  scheduler_.after(pipe.last_arrival_ns - scheduler_.now_ns(), nullptr,
                   [this, wire, from, up_to] { arrive(wire, from, up_to); });
}

void VirtualNetwork::arrive(const WirePtr& wire, int from, uint64_t up_to) {
  Pipe& pipe = wire->pipe[index(from)];
  Host& target = hosts_[index(1 - from)];
  if (!target.powered) return;
  if (faults.silent[index(from)]) {
    pipe.held = std::max(pipe.held, up_to);
    return;
  }
  if (Endpoint* receiver = wire->end[index(1 - from)]) {
    pipe.arrived = std::max(pipe.arrived, up_to);
    receiver->notify();
  } else if (wire->dead[index(1 - from)]) {
    // It lost power and knows nothing of this connection any more.
    send_end(wire, 1 - from, true);
  }
}

void VirtualNetwork::window_opened(const WirePtr& wire, int sender) {
  scheduler_.after(delay_ns(), nullptr, [wire, sender] {
    if (Endpoint* end = wire->end[index(sender)]) end->pump_later();
  });
}

void VirtualNetwork::send_end(const WirePtr& wire, int from, bool reset) {
  Pipe& pipe = wire->pipe[index(from)];
  pipe.reset = reset;
  const uint64_t earliest = scheduler_.now_ns() + delay_ns();
  pipe.last_arrival_ns = std::max(pipe.last_arrival_ns, earliest);
  scheduler_.after(pipe.last_arrival_ns - scheduler_.now_ns(), nullptr,
                   [this, wire, from] { end_arrives(wire, from); });
}

void VirtualNetwork::end_arrives(const WirePtr& wire, int from) {
  Pipe& pipe = wire->pipe[index(from)];
  if (!hosts_[index(1 - from)].powered) return;
  if (faults.silent[index(from)]) {
    pipe.end_held = true;
    return;
  }
  pipe.end_arrived = true;
  if (Endpoint* receiver = wire->end[index(1 - from)]) receiver->notify();
}

void VirtualNetwork::silence_changed() {
  for (const auto& held : wires_) {
    const WirePtr wire = held.lock();
    if (!wire) continue;
    for (int from = 0; from < 2; ++from) {
      Pipe& pipe = wire->pipe[index(from)];
      if (faults.silent[index(from)]) continue;
      // Sent again after the retransmission timer.
      const uint64_t delay = random_.spread(kMillisecond_ns, kSecond_ns);
      if (pipe.held > pipe.arrived)
        scheduler_.after(delay, nullptr,
                         [this, wire, from, up_to = pipe.held] { arrive(wire, from, up_to); });
      if (std::exchange(pipe.end_held, false))
        scheduler_.after(delay + 1, nullptr, [this, wire, from] { end_arrives(wire, from); });
    }
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
