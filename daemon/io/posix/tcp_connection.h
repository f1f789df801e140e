// One TCP socket of a TcpNetwork. Internal to io/posix.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/lifetime.h"
#include "io/connection.h"
#include "io/posix/io_watcher.h"
#include "io/posix/send_stream.h"
#include "io/posix/socket_times.h"
#include "io/posix/stream_state.h"
#include "io/posix/tcp_address.h"
#include "io/posix/tcp_network.h"
#include "io/posix/tls_session.h"

namespace twinblock {

class TcpConnection final : public Connection {
 public:
  // Of one turn of the loop: a fast link must not keep everything else waiting.
  static constexpr size_t kSendBytesPerTurn = 2 * kMiB;

  // Takes the socket: connected already, or (`dialling`) connecting. -1: none, fail() follows. With
  // keys in the network, connected() of an accepted one says that the peer has proven one of them.
  TcpConnection(TcpNetwork& network, int fd, bool dialling, std::string peer);
  ~TcpConnection() override;
  TcpConnection(const TcpConnection&) = delete;
  TcpConnection& operator=(const TcpConnection&) = delete;

  void set_handler(ConnectionHandler* handler) override { handler_ = handler; }
  size_t read(std::span<std::byte> into) override;
  void send(std::span<const std::byte> head, std::span<const std::byte> body) override {
    out_.queue(head, body);
  }
  void pause_reading(bool paused) override;
  [[nodiscard]] uint64_t queued_bytes_total() const override { return out_.queued_bytes_total(); }
  [[nodiscard]] uint64_t sent_bytes_total() const override { return out_.sent_bytes_total(); }
  [[nodiscard]] std::string peer_address() const override { return peer_; }
  bool sample_next() override { return out_.sample_next(); }
  [[nodiscard]] uint64_t taken_ns(uint64_t offset) const override {
    return times_.taken_ns(offset);
  }
  [[nodiscard]] uint64_t sealing_ns(uint64_t offset) const override {
    return times_.sealing_ns(offset);
  }
  [[nodiscard]] uint64_t arrived_ns() const override { return times_.arrived_ns(); }
  [[nodiscard]] bool reached() const override { return reached_; }
  [[nodiscard]] std::optional<StreamState> stream() const override { return stream_state_of(fd_); }
  [[nodiscard]] std::string protection() const override;
  [[nodiscard]] bool key_dropped() const override;
  [[nodiscard]] uint64_t cipher_ns() const override { return opening_ns_ + out_.cipher_ns(); }

  // The stream is over; closed() is called at the end of this turn.
  void fail(std::string reason);
  void flush();
  [[nodiscard]] bool wants_flush() const;
  [[nodiscard]] bool failed() const { return state_ == State::kFailed; }
  // Something that has come was not asked for: the handler is to be called, though the socket is
  // empty.
  [[nodiscard]] bool has_unread() const {
    return unread_ && state_ == State::kUp && !paused_;
  }
  void read_on();
  // TlsSession::hello_holds().
  [[nodiscard]] bool hello_holds() const { return tls_ != nullptr && tls_->hello_holds(); }
  // The peer had its time to prove the key.
  void give_up_waiting();
  // Of its local address; 0: not known, or not connected yet.
  [[nodiscard]] unsigned interface_index() const { return interface_; }
  // Calls closed(), which may destroy this.
  void deliver_failure();

 private:
  enum class State {
    kConnecting,
    kSecuring,  // the peer has yet to prove the key
    kUp,
    kFailed,  // closed() is due
    kClosed,  // closed() has been called
  };
  void woken();
  bool tell_sample();
  void writable();
  void finish_connect();
  void begin();
  void secure();
  [[nodiscard]] std::string subject() const;
  void update_reader();
  ssize_t receive(std::span<std::byte> into);
  template <typename Call>
  bool call(Call&& call);

  TcpNetwork& network_;
  const std::string peer_;
  const bool dialled_;
  int fd_;
  State state_;
  unsigned interface_ = 0;
  ConnectionHandler* handler_ = nullptr;
  bool paused_ = false;
  bool reached_ = false;  // it was connected
  bool drained_ = false;  // this readable event has no more bytes
  bool received_ = false;  // this event has brought some
  std::string reason_;
  SocketTimes times_;
  SendStream out_{times_};
  // With keys only.
  std::unique_ptr<TlsSession> tls_;
  bool unread_ = false;  // opened, or not opened yet, and not asked for
  uint64_t opening_ns_ = 0;  // what that took
  std::unique_ptr<IoWatcher> reader_;
  std::unique_ptr<IoWatcher> writer_;  // active while connecting or while the socket is full
  Lifetime lifetime_;                  // the handler may end it
};

}  // namespace twinblock
