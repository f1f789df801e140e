// Serves a block device by ublk, the kernel's driver for block devices in user space: what that way of attaching
// costs, and whether a server can be replaced while the device is in use. `run` beside this compares it with nbd.
//
//   ublk_server [--id N] memory MIB | [--id N | --recover N] nbd SOCKET
//
// memory: from this process's memory: the least that a server within a daemon would cost. nbd: each request is
// handed on to the NBD server at that Unix socket: what a process beside a daemon would cost. SIGTERM ends server and
// device. When the server ends in another way, the device stays and its requests wait, until `--recover N` takes it
// over; that is for nbd only, since memory is gone with its process.
//
// One thread does all, in one ring: ublk wants all commands of a queue from the thread that sent the first one.
//
// No target of the build, as Debian 12's headers lack the commands that newer kernels want: `run` compiles it with
// Debian 13's.
#include <fcntl.h>
#include <liburing.h>
#include <libnbd.h>
#include <linux/ublk_cmd.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr uint16_t kDepth = 64;
constexpr uint32_t kLargestRequest = 512 << 10;
constexpr uint32_t kSectorShift = 9;
constexpr uint32_t kPageShift = 12;
constexpr unsigned kRingEntries = 256;  // more than all that is ever under way: kDepth, a control command, polls
constexpr int kRecoveryTries = 200;
constexpr useconds_t kRecoveryPause_us = 50'000;

[[noreturn]] void fail(const std::string& what, int error) {
  std::fprintf(stderr, "ublk_server: %s: %s\n", what.c_str(), std::strerror(error));
  std::exit(1);
}

// Where the bytes are. What is begun ends in done(tag, bytes or -errno), at once or later, in the same thread.
class Backend {
 public:
  using Done = std::function<void(uint16_t tag, int32_t result)>;

  virtual ~Backend() = default;
  virtual uint64_t size_bytes() const = 0;
  virtual uint32_t attributes() const = 0;  // UBLK_ATTR_*
  virtual void begin(uint16_t tag, const ublksrv_io_desc& request, std::byte* data) = 0;
  // A file descriptor and what is waited for there (POLLIN | POLLOUT), if anything.
  virtual std::pair<int, unsigned> wanted() const { return {-1, 0}; }
  virtual void ready(unsigned /*events*/) {}

  void set_done(Done done) { done_ = std::move(done); }

 protected:
  Done done_;
};

class Memory : public Backend {
 public:
  explicit Memory(uint64_t size_bytes) : bytes_(size_bytes) {}

  uint64_t size_bytes() const override { return bytes_.size(); }
  uint32_t attributes() const override { return 0; }
  void begin(uint16_t tag, const ublksrv_io_desc& request, std::byte* data) override {
    std::byte* there = bytes_.data() + (request.start_sector << kSectorShift);
    const uint32_t length = request.nr_sectors << kSectorShift;
    switch (ublksrv_get_op(&request)) {
      case UBLK_IO_OP_READ: std::memcpy(data, there, length); break;
      case UBLK_IO_OP_WRITE: std::memcpy(there, data, length); break;
      case UBLK_IO_OP_FLUSH: return done_(tag, 0);
      default: return done_(tag, -EOPNOTSUPP);
    }
    done_(tag, static_cast<int32_t>(length));
  }

 private:
  std::vector<std::byte> bytes_;
};

class Nbd : public Backend {
 public:
  explicit Nbd(const char* socket) : handle_(nbd_create()) {
    if (handle_ == nullptr || nbd_connect_unix(handle_, socket) < 0) fail(nbd_get_error(), nbd_get_errno());
    for (uint16_t tag = 0; tag < kDepth; ++tag) slots_[tag] = {this, tag, 0};
  }
  ~Nbd() override { nbd_close(handle_); }

  uint64_t size_bytes() const override { return static_cast<uint64_t>(nbd_get_size(handle_)); }
  uint32_t attributes() const override {
    return (nbd_can_flush(handle_) == 1 ? UBLK_ATTR_VOLATILE_CACHE : 0) |
           (nbd_can_fua(handle_) == 1 ? UBLK_ATTR_FUA : 0);
  }

  void begin(uint16_t tag, const ublksrv_io_desc& request, std::byte* data) override {
    const uint64_t offset = request.start_sector << kSectorShift;
    const uint32_t length = request.nr_sectors << kSectorShift;
    const uint32_t flags = (request.op_flags & UBLK_IO_F_FUA) != 0 ? LIBNBD_CMD_FLAG_FUA : 0;
    const nbd_completion_callback completion{.callback = finished, .user_data = &slots_[tag], .free = nullptr};
    slots_[tag].length = length;
    ++in_flight_;
    int64_t cookie = -1;
    switch (ublksrv_get_op(&request)) {
      case UBLK_IO_OP_READ: cookie = nbd_aio_pread(handle_, data, length, offset, completion, 0); break;
      case UBLK_IO_OP_WRITE: cookie = nbd_aio_pwrite(handle_, data, length, offset, completion, flags); break;
      case UBLK_IO_OP_FLUSH: cookie = nbd_aio_flush(handle_, completion, 0); break;
      default: --in_flight_; return done_(tag, -EOPNOTSUPP);
    }
    if (cookie < 0) lost();
  }

  std::pair<int, unsigned> wanted() const override {
    const unsigned direction = nbd_aio_get_direction(handle_);
    return {nbd_aio_get_fd(handle_), ((direction & LIBNBD_AIO_DIRECTION_READ) != 0 ? POLLIN : 0) |
                                         ((direction & LIBNBD_AIO_DIRECTION_WRITE) != 0 ? POLLOUT : 0)};
  }

  void ready(unsigned events) override {
    if ((events & POLLOUT) != 0 && (nbd_aio_get_direction(handle_) & LIBNBD_AIO_DIRECTION_WRITE) != 0)
      if (nbd_aio_notify_write(handle_) < 0) lost();
    if ((events & ~static_cast<unsigned>(POLLOUT)) == 0) return;
    // libnbd takes one answer at a time; a turn of the ring for each would cost more than to look for the next one. But
    // look one must: told to read where nothing is, libnbd waits for that, and forgets what it was about to send.
    pollfd more{nbd_aio_get_fd(handle_), POLLIN, 0};
    do {
      if ((nbd_aio_get_direction(handle_) & LIBNBD_AIO_DIRECTION_READ) == 0) break;
      if (nbd_aio_notify_read(handle_) < 0) lost();
    } while (in_flight_ > 0 && ::poll(&more, 1, 0) == 1);
    if (nbd_aio_is_dead(handle_) == 1 || nbd_aio_is_closed(handle_) == 1) lost();
  }

 private:
  struct Slot {
    Nbd* nbd;
    uint16_t tag;
    uint32_t length;
  };

  static int finished(void* user_data, int* error) {
    const Slot& slot = *static_cast<Slot*>(user_data);
    --slot.nbd->in_flight_;
    if (*error == ENOTCONN || *error == ESHUTDOWN) lost();
    slot.nbd->done_(slot.tag, *error != 0 ? -*error : static_cast<int32_t>(slot.length));
    return 1;  // libnbd may forget it
  }

  // No request fails for it: this process ends as if it were killed, and `--recover` connects anew.
  [[noreturn]] static void lost() {
    std::fprintf(stderr, "ublk_server: the NBD server: %s\n", nbd_get_error());
    std::_Exit(1);
  }

  nbd_handle* handle_;
  size_t in_flight_ = 0;
  std::array<Slot, kDepth> slots_{};
};

class Server {
 public:
  explicit Server(Backend& backend) : backend_(backend) {
    // What this thread allocates must not wait for writes to its own device.
    if (::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) != 0) std::perror("ublk_server: PR_SET_IO_FLUSHER");
    control_fd_ = ::open("/dev/ublk-control", O_RDWR | O_CLOEXEC);
    if (control_fd_ < 0) fail("/dev/ublk-control", errno);
    const int error = io_uring_queue_init(
        kRingEntries, &ring_, IORING_SETUP_SQE128 | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
    if (error < 0) fail("io_uring", -error);
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    ::sigprocmask(SIG_BLOCK, &ends, nullptr);
    signal_fd_ = ::signalfd(-1, &ends, SFD_CLOEXEC);
    poll(signal_fd_, POLLIN, tagged(Kind::kSignal, 0));
    backend_.set_done([this](uint16_t tag, int32_t result) { fetch(UBLK_U_IO_COMMIT_AND_FETCH_REQ, tag, result); });
  }

  void add(int id) {
    ublksrv_ctrl_dev_info info{};
    info.dev_id = id_ = static_cast<uint32_t>(id);
    info.nr_hw_queues = 1;
    info.queue_depth = kDepth;
    info.max_io_buf_bytes = kLargestRequest;
    info.flags = UBLK_F_USER_RECOVERY | UBLK_F_USER_RECOVERY_REISSUE;
    must("adding a device", control(UBLK_U_CMD_ADD_DEV, &info, sizeof info));
    id_ = info.dev_id;
    ublk_params parameters{};
    parameters.len = sizeof parameters;
    parameters.types = UBLK_PARAM_TYPE_BASIC;
    ublk_param_basic& basic = parameters.basic;
    basic.attrs = backend_.attributes();
    basic.logical_bs_shift = kSectorShift;
    basic.physical_bs_shift = basic.io_opt_shift = basic.io_min_shift = kPageShift;
    basic.max_sectors = kLargestRequest >> kSectorShift;
    basic.dev_sectors = backend_.size_bytes() >> kSectorShift;
    must("the device's parameters", control(UBLK_U_CMD_SET_PARAMS, &parameters, sizeof parameters));
    open_queue();
    must("starting the device", control(UBLK_U_CMD_START_DEV, nullptr, 0, static_cast<uint64_t>(::getpid())));
  }

  void recover(int id) {
    id_ = static_cast<uint32_t>(id);
    ublk_params parameters{};
    parameters.len = sizeof parameters;
    must("the device's parameters", control(UBLK_U_CMD_GET_PARAMS, &parameters, sizeof parameters));
    if (parameters.basic.dev_sectors != backend_.size_bytes() >> kSectorShift) fail("another size", EINVAL);
    int error = -EBUSY;
    // The kernel may still be at taking the requests back from the server before.
    for (int i = 0; i < kRecoveryTries && error == -EBUSY; ++i) {
      if (i > 0) ::usleep(kRecoveryPause_us);
      error = control(UBLK_U_CMD_START_USER_RECOVERY);
    }
    must("beginning to recover", error);
    open_queue();
    must("recovering", control(UBLK_U_CMD_END_USER_RECOVERY, nullptr, 0, static_cast<uint64_t>(::getpid())));
  }

  void serve_until_told() {
    std::printf("/dev/ublkb%u\n", id_);
    std::fflush(stdout);
    while (!told_) turn();
  }

  void remove() {
    must("stopping the device", control(UBLK_U_CMD_STOP_DEV));
    while (fetched_ > 0) turn();
    ::munmap(const_cast<ublksrv_io_desc*>(requests_), kDescriptions);
    ::close(queue_fd_);
    must("removing the device", control(UBLK_U_CMD_DEL_DEV));
  }

 private:
  enum class Kind : uint32_t { kRequest, kControl, kSignal, kPoll };
  // Exactly that, says the kernel: a description for each tag, in whole pages.
  static constexpr size_t kDescriptions = ((kDepth * sizeof(ublksrv_io_desc) - 1) >> kPageShift << kPageShift) + 4096;

  static uint64_t tagged(Kind kind, unsigned value) { return static_cast<uint64_t>(kind) << 32 | value; }
  static void must(const char* what, int result) {
    if (result < 0) fail(what, -result);
  }

  io_uring_sqe* next() {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    if (sqe == nullptr) fail("the ring is full", ENOBUFS);
    std::memset(sqe, 0, 2 * sizeof *sqe);  // they are twice as long here
    return sqe;
  }
  void poll(int file, unsigned events, uint64_t user_data) {
    io_uring_sqe* sqe = next();
    io_uring_prep_poll_add(sqe, file, events);
    sqe->user_data = user_data;
  }
  template <typename Command>
  void send(int file, uint32_t operation, uint64_t user_data, const Command& command) {
    io_uring_sqe* sqe = next();
    sqe->opcode = IORING_OP_URING_CMD;
    sqe->fd = file;
    sqe->cmd_op = operation;
    sqe->user_data = user_data;
    std::memcpy(sqe->cmd, &command, sizeof command);
  }

  // Requests are served meanwhile: the kernel reads a partition table before it says that a device has started.
  int control(uint32_t operation, void* buffer = nullptr, size_t bytes = 0, uint64_t value = 0) {
    ublksrv_ctrl_cmd command{};
    command.dev_id = id_;
    command.queue_id = UINT16_MAX;
    command.addr = reinterpret_cast<uintptr_t>(buffer);
    command.len = static_cast<uint16_t>(bytes);
    command.data[0] = value;
    send(control_fd_, operation, tagged(Kind::kControl, 0), command);
    answer_.reset();
    while (!answer_) turn();
    return *answer_;
  }

  void fetch(uint32_t operation, uint16_t tag, int32_t result) {
    ublksrv_io_cmd command{};
    command.tag = tag;
    command.result = result;
    command.addr = reinterpret_cast<uintptr_t>(data_of(tag));
    send(queue_fd_, operation, tagged(Kind::kRequest, tag), command);
  }

  void open_queue() {
    const std::string path = "/dev/ublkc" + std::to_string(id_);
    queue_fd_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (queue_fd_ < 0) fail(path, errno);
    void* mapped =
        ::mmap(nullptr, kDescriptions, PROT_READ, MAP_SHARED | MAP_POPULATE, queue_fd_, UBLKSRV_CMD_BUF_OFFSET);
    if (mapped == MAP_FAILED) fail(path + ": its requests", errno);
    requests_ = static_cast<const ublksrv_io_desc*>(mapped);
    for (uint16_t tag = 0; tag < kDepth; ++tag) fetch(UBLK_U_IO_FETCH_REQ, tag, 0);
    fetched_ = kDepth;
  }
  std::byte* data_of(uint16_t tag) { return data_.data() + size_t{tag} * kLargestRequest; }

  void poll_backend() {
    const auto [file, events] = backend_.wanted();
    for (const unsigned event : {POLLIN, POLLOUT})
      if ((events & event) != 0 && (polled_ & event) == 0) {
        poll(file, event, tagged(Kind::kPoll, event));
        polled_ |= event;
      }
  }

  void turn() {
    poll_backend();
    const int error = io_uring_submit_and_wait(&ring_, 1);
    if (error < 0 && error != -EINTR) fail("waiting", -error);
    io_uring_cqe* cqe = nullptr;
    unsigned head = 0, count = 0;
    io_uring_for_each_cqe(&ring_, head, cqe) {
      take(static_cast<Kind>(cqe->user_data >> 32), static_cast<uint16_t>(cqe->user_data), cqe->res);
      ++count;
    }
    io_uring_cq_advance(&ring_, count);
  }

  void take(Kind kind, uint16_t value, int result) {
    switch (kind) {
      case Kind::kRequest:
        if (result == UBLK_IO_RES_OK) return backend_.begin(value, requests_[value], data_of(value));
        --fetched_;  // the kernel gives it no more requests
        if (result != UBLK_IO_RES_ABORT) fail("the queue", -result);
        return;
      case Kind::kControl: answer_ = result; return;
      case Kind::kSignal: told_ = true; return;
      case Kind::kPoll:
        polled_ &= ~value;
        return backend_.ready(result < 0 ? value : static_cast<unsigned>(result));
    }
  }

  Backend& backend_;
  io_uring ring_{};
  int control_fd_ = -1;
  int queue_fd_ = -1;
  int signal_fd_ = -1;
  uint32_t id_ = 0;
  std::optional<int> answer_;  // to the control command under way
  bool told_ = false;          // to end
  unsigned polled_ = 0;        // what the ring waits for at the backend's file
  int fetched_ = 0;            // tags that the kernel may give requests
  const ublksrv_io_desc* requests_ = nullptr;
  std::vector<std::byte> data_ = std::vector<std::byte>(size_t{kDepth} * kLargestRequest);
};

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  int id = -1;  // one that is free
  const bool recover = words.size() > 2 && words[0] == "--recover";
  if (words.size() > 2 && (recover || words[0] == "--id")) {
    id = std::atoi(words[1].c_str());
    words.erase(words.begin(), words.begin() + 2);
  }
  std::unique_ptr<Backend> backend;
  if (words.size() == 2 && words[0] == "nbd") backend = std::make_unique<Nbd>(words[1].c_str());
  if (words.size() == 2 && words[0] == "memory" && !recover)
    backend = std::make_unique<Memory>(std::strtoull(words[1].c_str(), nullptr, 10) << 20);
  if (!backend) {
    std::fprintf(stderr, "usage: ublk_server [--id N] memory MIB | [--id N | --recover N] nbd SOCKET\n");
    return 2;
  }
  Server server(*backend);
  if (recover)
    server.recover(id);
  else
    server.add(id);
  server.serve_until_told();
  server.remove();
  return 0;
}
