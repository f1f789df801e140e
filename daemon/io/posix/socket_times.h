// When bytes of a TCP socket passed through this host's kernel (SO_TIMESTAMPING; Linux:
// Documentation/networking/timestamping.rst). Arrival is told with each read, departure of one
// frame at a time, when it was asked for. A kernel or container that refuses leaves everything at
// "not known". Internal to io/posix; loop only. All times are of the loop's clock, ns.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <span>

#include "io/connection.h"

namespace twinblock {

class SocketTimes {
 public:
  // Of a frame that is sampled, so many bytes go out in a call of their own: its header.
  static constexpr size_t kSampleBytes = 64;

  // `fd` is connected, and nothing has been sent yet.
  void enable(int fd);

  // As recv(2) does.
  ssize_t receive(int fd, std::span<std::byte> into);
  [[nodiscard]] uint64_t arrived_ns() const { return arrived_ns_; }

  // The frame that begins at `offset` of what is sent, or, with kLater, at one that is told when it
  // is known. False: not possible now.
  static constexpr uint64_t kLater = ~uint64_t{0};
  bool sample(uint64_t offset);
  // It begins at `offset`, and its first `bytes` go out in a call of their own.
  void sample_begins(uint64_t offset, size_t bytes);
  // How many bytes the next call may send, when `sent` are sent: up to the sample's begin, or its
  // first bytes.
  [[nodiscard]] size_t bytes_allowed(uint64_t sent, size_t wanted) const;
  [[nodiscard]] bool sample_due(uint64_t sent) const { return wanted_ && sent == begin_; }
  // Prepares `message` to ask for the times of its last byte; `room` must live until it is sent.
  struct alignas(cmsghdr) Room {
    std::array<char, CMSG_SPACE(sizeof(uint32_t))> bytes;
  };
  static void ask(msghdr& message, Room& room);
  // Before the first bytes of a sample go out.
  void look_ahead(int fd);
  // What is known of frames that went out.
  struct Mark {
    uint64_t end = 0;         // of all their bytes (fewer than the socket took, where encrypted)
    uint64_t at_ns = 0;       // when the kernel took them, or the socket was full instead
    uint64_t sealing_ns = 0;  // how long they were held up by encryption
  };
  // `sent` bytes went out in all, the last of them now, and with them frames up to mark.end.
  void sent(uint64_t sent, const Mark& mark, uint64_t now_ns, bool asked);
  // Of the frames' byte at `offset`: Mark::at_ns and sealing_ns; 0: not known.
  [[nodiscard]] uint64_t taken_ns(uint64_t offset) const { return mark_of(offset).at_ns; }
  [[nodiscard]] uint64_t sealing_ns(uint64_t offset) const { return mark_of(offset).sealing_ns; }

  // Takes in what the kernel has to tell of the sample; true when moments() are those of a frame
  // that has gone, or has been acknowledged.
  bool collect(int fd);
  // As collect(), also of what nobody expects any more: of a frame that went out a second time after its sample was
  // complete the kernel tells again, and as long as that lies there the socket counts as ready. Costs a call once a
  // sample was taken: for when the socket was ready and there was nothing to read.
  bool collect_leftovers(int fd);
  [[nodiscard]] const SendMoments& moments() const { return moments_; }

 private:
  static constexpr size_t kMarks = 256;
  static constexpr uint32_t kLookupsPerClock = 64;
  [[nodiscard]] Mark mark_of(uint64_t offset) const;
  uint64_t on_our_clock(const timespec& stamp);
  void note(uint32_t kind, uint64_t at_ns);
  bool take_in(int fd);

  bool enabled_ = false;
  uint32_t lookups_ = 0;
  uint64_t wall_ahead_ns_ = 0;
  uint64_t arrived_ns_ = 0;
  bool wanted_ = false;          // a frame is to be sampled, and has not gone out yet
  bool expected_ = false;        // it has, and the kernel is to tell when it left
  bool unacknowledged_ = false;  // … and when the peer's kernel had it
  bool asked_ = false;           // ever
  uint64_t begin_ = 0;
  size_t sample_bytes_ = kSampleBytes;
  uint32_t key_ = 0;  // number of the byte that was asked about
  uint32_t window_max_bytes_ = 0;  // what the peer's kernel has had room for at most
  uint64_t window_waits_us_ = 0;   // how long this one has waited for room there, when it was asked
  SendMoments moments_;
  std::array<Mark, kMarks> marks_{};  // a ring: the newest ones
  uint64_t marks_total_ = 0;
};

}  // namespace twinblock
