#include "twinblock/attach_nbd.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/units.h"
#include "twinblock/control_client.h"
#include "twinblock/exit_status.h"
#include "twinblock/json_fields.h"
#include "twinblock/nbd_connection.h"
#include "twinblock/nbd_device.h"
#include "twinblock/nbd_netlink.h"

namespace twinblock {
namespace {

using nlohmann::json;

constexpr uint64_t kNegotiation_ns = 10 * kSecond_ns;
// A disk's customary sector: a partition table that was made on another kind of device stays
// readable.
constexpr uint64_t kSectorBytes = 512;
// As long as it may take until a node is there again: whoever does not want to wait detaches.
constexpr uint64_t kDeadConnection_s = 30 * 24 * 3600;
// The kernel needs a moment to notice that a process has ended with its sockets.
constexpr uint64_t kDeathIsNoticed_ns = 5 * kSecond_ns;
constexpr uint64_t kServedPoll_ns = 10 * kMillisecond_ns;

struct Served {
  NbdConnection connection;
  json status;  // of the same process, asked for while it has this client: it is not demoted now
};

// By the device's promotion, or, where it is a new one, by the node's: no other one serves it, and to the node it is a
// client that is back.
std::string export_for(const Attachment& attachment, const json& status) {
  const uint64_t term = attachment.term != 0 ? attachment.term : count_at(status, "term");
  return term == 0 ? attachment.volume : attachment.volume + "@" + std::to_string(term);
}

Result<Served> connect_with_node(const AskStatus& ask, const Attachment& attachment) {
  const Result<json> before = ask();
  if (!before) return before.error();
  const Result<std::string> path = nbd_socket_of(before.value());
  if (!path) return path.error();
  Result<NbdConnection> connection =
      NbdConnection::open(path.value(), export_for(attachment, before.value()), kNegotiation_ns);
  if (!connection) return connection.error();
  Result<json> now = ask();
  if (!now) return now.error();
  if (text_at(now.value(), "role") != "primary" ||
      static_cast<pid_t>(count_at(now.value(), "pid")) != connection.value().server().pid)
    return unreachable("the node is just being restarted", "try again");
  return Served{std::move(connection.value()), std::move(now.value())};
}

// What a refusal means for the device: the node may have been promoted anew, or demoted, since it was asked.
Result<FateVerdict> fate_of_refused(const AskStatus& ask, const Attachment& attachment, const Error& refusal) {
  if (refusal.code == kExitUnreachable) return refusal;
  const Result<json> status = ask();
  if (!status) return refusal;
  const FateVerdict verdict = device_fate(attachment, status.value(), process_runs(attachment.server));
  if (verdict.fate == Fate::kReconnect) return refusal;
  return verdict;
}

// How many connections were ended.
Result<uint64_t> hang_up(const std::string& control, pid_t client) {
  const Result<json> ended = control_request(control, "hang-up", {{"pid", client}}, kAskTimeout_ns);
  if (!ended) return ended.error();
  return count_at(ended.value(), "connections");
}

// Whose connection the kernel has, as far as the note says.
pid_t client_of(const Attachment& attachment) {
  return attachment.client_pid != 0 ? attachment.client_pid : attachment.nbd_pid;
}

void note_server(Attachment& attachment, const Served& served) {
  attachment.server = served.connection.server();
  attachment.hung_up_by = {};
  attachment.node_pid = attachment.server.pid;
  attachment.client_pid = getpid();
}

// Nobody has ended the device, or taken it away, since it was as `device` says.
bool is_note_of(const std::optional<Attachment>& note, const Attachment& device) {
  return note.has_value() && note->ended.empty() && note->device == device.device && note->nbd_pid == device.nbd_pid;
}

// While it has no server on record, a device is in the hands of who is to connect it, which others leave alone.
bool is_in_hand(const Attachment& note) { return note.server.pid == 0 && note.hung_up_by.pid == getpid(); }

FateVerdict another_is_at_it() { return {Fate::kReconnect, "another process is connecting it"}; }

// A device in the hands of this process, which is about to give the kernel a connection: where it ends in the middle,
// the note says whose connection that may be. What came to nothing leaves the note as it was.
class InHand {
 public:
  explicit InHand(const std::string& stem) : stem_(stem) {}
  ~InHand() {
    if (!before_) return;
    const HeldNote held(stem_);
    const Result<std::optional<Attachment>> now = read_attachment(stem_);
    // Where there is no room for it, the next one to look ends a connection that there is not, and makes one.
    if (now && is_note_of(now.value(), *before_) && is_in_hand(*now.value())) (void)update_attachment(stem_, *before_);
  }
  InHand(const InHand&) = delete;
  InHand& operator=(const InHand&) = delete;

  // What it is instead; nothing: it is in this process's hands now.
  Result<std::optional<FateVerdict>> take(Attachment& attachment) {
    const HeldNote held(stem_);
    Result<std::optional<Attachment>> now = read_attachment(stem_);
    if (!now) return now.error();
    if (!is_note_of(now.value(), attachment)) return refused(attachment.device + " was detached, or ended, meanwhile");
    Attachment& note = *now.value();
    if (process_runs(note.server)) {
      attachment = note;
      return std::optional<FateVerdict>({Fate::kKeep, "reconnected"});
    }
    if (is_in_hand(note)) return std::optional<FateVerdict>{};
    // Or was at it, and has left a connection that is to be ended first.
    if (note.server.pid == 0) return std::optional<FateVerdict>(another_is_at_it());
    const Attachment before = note;
    note.server = {};
    note.hung_up_by = identify_process(getpid());
    if (const Status noted = update_attachment(stem_, note); !noted) return noted.error();
    before_ = before;
    return std::optional<FateVerdict>{};
  }
  // The kernel has the connection: the note of before is not to come back.
  void let_go() { before_.reset(); }

 private:
  const std::string stem_;
  std::optional<Attachment> before_;
};

// Before it has the connection that knows of it, nobody may use what is new.
Result<FateVerdict> resize(const HostPaths& host, NbdNetlink& kernel, const Attachment& attachment, uint64_t size_bytes,
                           const std::string& why) {
  const uint64_t before_bytes = nbd_device_bytes(host, attachment.device);
  if (before_bytes == 0 || before_bytes >= size_bytes) return FateVerdict{Fate::kKeep, "reconnected: " + why};
  const Status grown =
      kernel.resize(nbd_index(attachment.device).value_or(0), nbd_backend(attachment.volume), size_bytes);
  if (!grown) return grown.error();
  return FateVerdict{Fate::kKeep, "reconnected, and has " + format_size(size_bytes)};
}

// The first device that is nobody's.
Status take_free_device(const HostPaths& host, const std::string& stem, NbdDeviceSetup& setup,
                        int fd, Attachment& attachment) {
  Result<NbdNetlink> kernel = NbdNetlink::open();
  if (!kernel) return kernel.error();
  while (true) {
    setup.index = free_nbd_index(host, setup.index);
    attachment.device = host.dev + "/nbd" + std::to_string(setup.index);
    // The note goes first: a device that nothing records could not be detached.
    if (Status noted = update_attachment(stem, attachment); !noted) return noted;
    Status made = kernel.value().connect(setup, fd);
    if (made) return made;
    // Not ours, then: somebody else may have taken it in the meantime.
    attachment.device.clear();
    if (made.error().code != EBUSY) return refused(made.error().what);
    ++setup.index;
  }
}

// What an attach has left that was killed: whoever makes it may be at work still.
bool is_left_half_way(const std::optional<Attachment>& note) {
  return note.has_value() && !note->complete && note->method == kMethodNbd && note->maker.pid != 0 &&
         !process_runs(note->maker);
}

}  // namespace

Result<std::string> nbd_socket_of(const json& status) {
  const std::string uri = text_at(status, "nbd");
  const std::string key = "socket=";
  const size_t at = uri.find(key);
  if (at == std::string::npos) return refused("the node does not say where it serves NBD");
  return uri.substr(at + key.size());
}

Result<std::string> make_nbd_device(const HostPaths& host, const AskStatus& ask,
                                    const std::string& stem, Attachment& attachment) {
  Result<Served> served = connect_with_node(ask, attachment);
  if (!served) return served.error();
  NbdConnection& connection = served.value().connection;
  attachment.term = count_at(served.value().status, "term");
  attachment.volume_uuid = text_at(served.value().status, "volume_uuid");
  note_server(attachment, served.value());
  NbdDeviceSetup setup{.index = 0,
                       .size_bytes = connection.served().size_bytes,
                       .block_bytes = kSectorBytes,
                       .server_flags = connection.served().flags,
                       .dead_connection_s = kDeadConnection_s,
                       .backend = nbd_backend(attachment.volume)};
  if (const Status made = take_free_device(host, stem, setup, connection.fd(), attachment); !made)
    return made.error();
  attachment.nbd_pid = nbd_device_pid(host, attachment.device);
  const Status looked_after = look_after_requests(host, attachment.device, kLookAfterRequests_ms);
  if (!looked_after) {
    (void)disconnect_nbd_device(host, attachment);
    return looked_after.error();
  }
  attachment.link = give_stable_name(host, attachment.volume, attachment.device);
  return attachment.device;
}

Result<bool> finish_attach(const HostPaths& host, const std::string& stem, std::optional<Attachment>& existing) {
  if (!is_left_half_way(existing)) return false;
  // Of several who find that one finishes it; by now the device may have another server, or the note be another one's.
  const HeldNote held(stem);
  Result<std::optional<Attachment>> now = read_attachment(stem);
  if (!now) return now.error();
  existing = std::move(now.value());
  if (!is_left_half_way(existing)) return false;
  const std::string& device = existing->device;
  const bool connected = !device.empty() && nbd_device_connected(host, device);
  const std::optional<std::string> backend = nbd_device_backend(host, device);
  if (connected && !backend) return false;  // an operator's affair
  if (!connected || *backend != nbd_backend(existing->volume)) {
    existing.reset();
    if (const Status removed = remove_attachment(stem); !removed) return removed.error();
    return false;
  }
  existing->nbd_pid = nbd_device_pid(host, device);
  existing->link = give_stable_name(host, existing->volume, device, Udev::kTell);
  existing->complete = true;
  if (const Status noted = update_attachment(stem, *existing); !noted) return noted.error();
  return true;
}

Result<FateVerdict> reconnect_nbd_device(const HostPaths& host, const AskStatus& ask,
                                         const std::string& stem, Attachment& attachment) {
  const std::optional<uint32_t> index = nbd_index(attachment.device);
  Result<NbdNetlink> kernel = NbdNetlink::open();
  if (!kernel) return kernel.error();
  const uint64_t deadline_ns = steady_now_ns() + kDeathIsNoticed_ns;
  InHand in_hand(stem);
  StagedNote note(stem);
  while (true) {
    // Two may look after a device: `attach --stay`, and whoever makes its volume larger.
    const Result<std::optional<Attachment>> now = read_attachment(stem);
    if (now && now.value().has_value() && process_runs(now.value()->server)) {
      attachment = *now.value();
      return FateVerdict{Fate::kKeep, "reconnected"};
    }
    Result<Served> served = connect_with_node(ask, attachment);
    if (!served) return fate_of_refused(ask, attachment, served.error());
    const FateVerdict verdict =
        device_fate(attachment, served.value().status, process_runs(attachment.server));
    if (verdict.fate != Fate::kReconnect) return verdict;
    Result<std::optional<FateVerdict>> instead = in_hand.take(attachment);
    if (!instead) return instead.error();
    if (instead.value().has_value()) return *instead.value();
    NbdConnection& connection = served.value().connection;
    // Before the kernel has it: a device that works, and of which nothing says so, counts as one that waits.
    Attachment connected = attachment;
    note_server(connected, served.value());
    if (const Status staged = note.write(connected); !staged) return staged.error();
    const Status given = kernel.value().reconfigure(
        index.value_or(0), nbd_backend(attachment.volume), connection.fd());
    connection.let_go();
    if (unix_socket_exists(host.proc, connection.inode())) {
      in_hand.let_go();
      attachment = connected;
      if (const Status noted = note.place(); !noted) return noted.error();
      return resize(host, kernel.value(), attachment, connection.served().size_bytes, verdict.why);
    }
    if (!given) return given.error();
    if (steady_now_ns() > deadline_ns)
      return refused("the kernel does not take another connection for " + attachment.device);
    sleep_ns(kServedPoll_ns);
  }
}

Result<FateVerdict> grow_nbd_device(const HostPaths& host, const AskStatus& ask, const std::string& control,
                                    const std::string& stem, Attachment& attachment) {
  const ProcessId server = attachment.server;
  {
    // `attach --stay` and `grow` see the same size at the same time.
    const HeldNote held(stem);
    const Result<std::optional<Attachment>> now = read_attachment(stem);
    if (!now) return now.error();
    if (!is_note_of(now.value(), attachment)) return FateVerdict{Fate::kKeep, ""};
    if (now.value()->server.pid != server.pid) {
      attachment = *now.value();
      return another_is_at_it();
    }
    // A device without a server is one that is to be reconnected, whoever looks after it next.
    attachment.server = {};
    attachment.hung_up_by = identify_process(getpid());
    if (const Status noted = update_attachment(stem, attachment); !noted) return noted.error();
  }
  const Result<uint64_t> ended = hang_up(control, client_of(attachment));
  if (ended && ended.value() > 0) return reconnect_nbd_device(host, ask, stem, attachment);
  // A node that has not answered may end it yet: it stays in this process's hands, and whoever looks next sees to it.
  if (!ended && ended.error().code == kExitUnreachable) return ended.error();
  const HeldNote held(stem);
  const Result<std::optional<Attachment>> now = read_attachment(stem);
  if (!now) return now.error();
  if (!is_note_of(now.value(), attachment)) return FateVerdict{Fate::kKeep, ""};
  // Whoever has it in hand by now may have ended the connection that was not found.
  if (!is_in_hand(*now.value())) return another_is_at_it();
  // Its connection lives, and serves what is not new.
  attachment.server = server;
  attachment.hung_up_by = {};
  if (const Status noted = update_attachment(stem, attachment); !noted) return noted.error();
  if (!ended) return ended.error();
  return refused("the node does not find the connection of " + attachment.device,
                 "to use what is new of the volume, detach it and attach it again");
}

Result<pid_t> finish_hang_up(const std::string& control, const std::string& stem) {
  // Of several who find that one does it: what another one has ended might else be the connection that follows.
  const HeldNote held(stem);
  Result<std::optional<Attachment>> now = read_attachment(stem);
  if (!now) return now.error();
  if (!now.value().has_value() || now.value()->server.pid != 0) return pid_t{0};
  Attachment& note = *now.value();
  // Who is still at it would find that the connection has gone, and say that there is none, or end the one after it.
  const ProcessId by = note.hung_up_by;
  if (by.pid != getpid() && process_runs(by)) return by.pid;
  const pid_t client = client_of(note);
  Result<uint64_t> ended = hang_up(control, client);
  // It may have made a connection of its own, too, of which it could not tell any more.
  if (ended && by.pid != 0 && by.pid != client) ended = hang_up(control, by.pid);
  if (!ended) return ended.error();
  // Not before: whoever finds that this process has ended as well has to know whose connection there may be.
  note.hung_up_by = identify_process(getpid());
  if (const Status noted = update_attachment(stem, note); !noted) return noted.error();
  return pid_t{0};
}

Status end_nbd_device(const HostPaths& host, const std::string& stem, Attachment& attachment,
                      const std::string& why) {
  if (is_ours(host, attachment))
    if (Status gone = disconnect_nbd_device(host, attachment); !gone) return gone;
  attachment.ended = why;
  return update_attachment(stem, attachment);
}

Status disconnect_nbd_device(const HostPaths& host, const Attachment& attachment) {
  const std::optional<uint32_t> index = nbd_index(attachment.device);
  if (!index) return refused(attachment.device + " is no device of the kernel's nbd");
  Result<NbdNetlink> kernel = NbdNetlink::open();
  if (!kernel) return kernel.error();
  Status gone = kernel.value().disconnect(*index);
  if (!gone) return gone;
  // The device's next user may be one for whom a late request is a dead connection; he may have it by now. Not before:
  // Linux 6.11 to 6.18 has whoever sets that wait, unkillably, for all that is under way, which ends with the device.
  if (!nbd_device_connected(host, attachment.device) || is_ours(host, attachment))
    (void)look_after_requests(host, attachment.device, 0);
  take_stable_name(host, attachment);
  return ok_status();
}

}  // namespace twinblock
