#include "node.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/limits.h"
#include "base/units.h"
#include "config/link_protection.h"
#include "control/event_words.h"
#include "control/memory_words.h"
#include "io/posix/congestion.h"
#include "io/posix/files.h"
#include "io/posix/hang_up.h"
#include "io/posix/link_key.h"
#include "io/posix/memory.h"
#include "io/posix/notify.h"
#include "io/posix/parking.h"
#include "io/posix/thread.h"
#include "io/posix/tls_session.h"
#include "prepare.h"
#include "what_is_there.h"
#include "wire/codec.h"
#include "words/backing_words.h"

namespace twinblock {
namespace {

// For the demotion: what clients wrote is flushed on both nodes, which takes what it takes; in vain where a disk hangs.
constexpr std::chrono::minutes kShutdownPatience{2};
constexpr std::chrono::seconds kShutdownLook{1};
constexpr uint64_t kStopLook_ns = 200 * kMillisecond_ns;
// nbdkit waits that long for clients that take no answers, a suspended one for example.
constexpr int kStopLooksMax = 25;

// TWINBLOCK_DISK=io_uring|threads, for tests and for hosts where one of them misbehaves.
Result<PosixDisk::Engine> wanted_disk_engine() {
  const char* text = std::getenv("TWINBLOCK_DISK");
  const std::string wanted = text == nullptr ? "" : text;
  if (wanted.empty()) return PosixDisk::Engine::kAuto;
  if (wanted == "io_uring") return PosixDisk::Engine::kIoUring;
  if (wanted == "threads") return PosixDisk::Engine::kThreads;
  return Error{"TWINBLOCK_DISK is '" + wanted + "'", "set it to io_uring or threads, or unset it",
               EINVAL};
}

DiskFile::Cache cache_of(BackingIo io) {
  return io == BackingIo::kDirect ? DiskFile::Cache::kDirect : DiskFile::Cache::kBuffered;
}

uint64_t random_number() {
  uint64_t number = 0;
  while (number == 0) random_bytes(std::as_writable_bytes(std::span(&number, 1)));
  return number;
}

// A node that does without its cache is slower; one that does not start, or drives its host out of memory, is gone.
void leave_out_what_does_not_fit(Config& config) {
  const uint64_t usable_bytes = usable_memory_bytes();
  // What is left is for the rest of the host: the node's memory is locked.
  const uint64_t most_bytes = usable_bytes / 4 * 3;
  if (usable_bytes == 0 || config.cache_bytes <= most_bytes) return;
  config.warnings.push_back(config.path + ": [cache] asks for " + format_size(config.cache_bytes) +
                            ", and this process can have " + format_size(usable_bytes) +
                            " of memory: there is no cache; to do: choose at most " + format_size(most_bytes));
  config.cache_bytes = 0;
}

// A file's copies lie beside the file itself, and not beside a link to it. (A device is known by the name that it has.)
std::string place_of(const std::string& backing) {
  const Result<FileKind> kind = file_kind(backing);
  std::error_code error;
  if (!kind || kind.value() != FileKind::kRegular) return backing;
  const std::string place = std::filesystem::canonical(backing, error);
  return error ? backing : place;
}

// Held by the commands of [copies] (CommandLock).
std::string copies_lock_path(const Config& config, const NodeConfig& node) {
  return node.runtime + "/" + config.volume + ".copies";
}

}  // namespace

Node::Node(Config config, std::string name)
    : config_(std::move(config)),
      name_(std::move(name)),
      memory_(stand_memory_shortage_locked()),
      log_(config_.volume + "/" + name_),
      client_errors_(log_, "errors of clients", limits::kClientErrorLines, limits::kClientErrorWindow_ns) {}

Result<std::unique_ptr<Node>> Node::start(Config config, const std::string& name) {
  leave_out_what_does_not_fit(config);
  std::unique_ptr<Node> node(new Node(std::move(config), name));
  const NodeConfig& self = node->config_.node(name);
  const Result<std::unique_ptr<DiskFile>> lock = lock_metadata(self);
  if (!lock) return lock.error();
  // Not before that lock: where another process is this node, those commands are its own.
  if (Status ended = CommandLock(copies_lock_path(node->config_, self)).end_what_is_left(); !ended)
    return ended.error();
  // Both are looked at before they are opened, which may create them.
  Result<metadata::Loaded> loaded = load_metadata(self.metadata, node->config_.size_bytes);
  if (!loaded) return loaded.error();
  const Result<DataFound> found = look_at_backing(self.backing, loaded.value());
  if (!found) return found.error();
  for (const std::string& warning : node->config_.warnings)
    node->log_.log(Severity::kWarning, warning);
  for (const std::string& warning : loaded.value().warnings)
    node->log_.log(Severity::kWarning, warning);
  const uint64_t volume_bytes = loaded.value().volume_bytes(node->config_.size_bytes);
  const int locked_fd = lock.value() ? lock.value()->fd() : -1;
  if (Status files = node->open_files(volume_bytes, loaded.value(), locked_fd); !files) return files.error();
  // Direct, too: nobody reads memory, but the process before may have been buffered, and lost what only that shows.
  const bool may_forget = may_forget_memory(self.backing, lock.value().get(), node->log_, loaded.value());
  Status engine = node->open_engine(std::move(loaded.value()), found.value(), may_forget);
  if (!engine) return engine.error();
  node->loop_.prepare();
  node->thread_ = start_thread("twinblock-loop", [&loop = node->loop_] { loop.run(); });
  notify_ready("volume " + node->config_.volume + ", node " + name);
  return node;
}

Status Node::open_files(uint64_t volume_bytes, const metadata::Loaded& loaded, int metadata_fd) {
  // A block device must have all the room; a file is sparse.
  const uint64_t metadata_bytes = metadata::metadata_bytes_max(volume_bytes, loaded.record.region_bytes);
  const NodeConfig& self = config_.node(name_);
  const Result<PosixDisk::Engine> engine = wanted_disk_engine();
  if (!engine) return engine.error();
  PosixDisk::Options options;
  options.engine = engine.value();
  options.file.path = self.backing;
  options.file.size_bytes = volume_bytes;
  options.file.create = true;
  options.file.cache = cache_of(self.backing_io);
  Result<std::unique_ptr<PosixDisk>> data = PosixDisk::open(loop_, options);
  if (!data && data.error().code == ENOSPC && !loaded.blank)
    return cut_off(data.error(), self.metadata, config_.volume, config_.other(name_).name);
  if (!data) return data.error();
  data_ = std::move(data.value());
  const std::string folder = std::filesystem::path(self.metadata).parent_path();
  if (Status made = make_directories(folder); !made) return made;
  // Not through io_uring: the kernel finishes its transfers on the thread that submitted them,
  // which may be the one that a hanging data disk holds up.
  options.engine = PosixDisk::Engine::kThreads;
  options.parallel_flushes_max = 1;  // intents that wait share one
  // Never on the loop: a write may stand in the kernel's limits of dirty pages, and a flush follows
  // each, beside which a hand-over is little.
  options.inline_bytes = 0;
  options.pool_threads = PosixDisk::kPoolThreads;
  options.file.cache =
      data_->direct() ? DiskFile::Cache::kDirectWherePossible : DiskFile::Cache::kBuffered;
  options.file.path = self.metadata;
  options.file.locked_fd = metadata_fd;
  options.file.size_bytes = metadata_bytes;
  // One that was cut off has lost nothing that is not told as a warning above.
  if (Status grown = grow_file(self.metadata, metadata_bytes); !grown) return grown;
  Result<std::unique_ptr<PosixDisk>> metadata = PosixDisk::open(loop_, options);
  if (!metadata) return metadata.error();
  metadata_ = std::move(metadata.value());
  return ok_status();
}

Status Node::open_engine(metadata::Loaded loaded, DataFound found, bool may_forget) {
  const NodeConfig& self = config_.node(name_);
  if (Status can = check_congestion(config_.congestion); !can) return can;
  if (Status good = links_may_be_used(config_); !good) return good;
  std::shared_ptr<const LinkKeys> keys;
  if (config_.encrypted()) {
    if (Status can = TlsSession::available(); !can) return can;
    Result<LinkKeys> read = read_link_keys(config_.key);
    if (!read) return read.error();
    keys = std::make_shared<const LinkKeys>(std::move(read.value()));
    key_reader_ = std::make_unique<KeyReader>(loop_, [path = config_.key] { return read_link_keys(path); });
    facts_.read_keys = [this](KeyChoice choice, const std::function<void(const Result<std::string>&)>& done) {
      key_reader_->read([this, choice, done](Result<LinkKeys> anew) { done(take_keys(choice, std::move(anew))); });
    };
  }
  network_ = std::make_unique<TcpNetwork>(loop_, config_.congestion, keys);
  workers_ = std::make_unique<WorkerThreads>(loop_);
  open_witness();
  const bool cache_is_gone = loaded.record.flush_failed && may_forget && data_->forget_cache();
  metadata::Uuid instance;
  random_bytes(std::as_writable_bytes(std::span(instance)));
  Engine::Parts parts{config_, name_, loop_, log_, *network_, *data_, *metadata_, *workers_,
                      std::move(loaded), found, instance, random_number, kEventWords,
                      data_->memory_number(), cache_is_gone};
  parts.asked = {witness_.get(), fence_.get()};
  parts.numbers = {data_->backing_number(), metadata_->backing_number()};
  parts.cut_off_clients = [] { cut_off_clients(); };
  copies_ = std::make_unique<BackingCopies>(
      loop_, log_, BackingCopies::Of{config_.volume, name_, place_of(self.backing), copies_lock_path(config_, self)},
      config_.copies);
  copies_->remove_unfinished();
  parts.copies = copies_.get();
  engine_ = std::make_unique<Engine>(std::move(parts));
  facts_.disk_engine = data_->engine_name();
  facts_.disk_io = data_->direct() ? "direct" : "buffered";
  facts_.nbd_uri = "nbd+unix:///?socket=" + nbd_socket_path(config_, self);
  facts_.control_path = control_socket_path(config_, self);
  facts_.backing = self.backing;
  facts_.metadata = self.metadata;
  facts_.config = config_.path;
  facts_.pid = static_cast<int>(getpid());
  facts_.key = keys != nullptr ? keys->front().fingerprint : "";
  facts_.memory = memory_;
  facts_.hang_up = [](int pid) { return hang_up_on(pid); };
  const MemoryWords memory = memory_words(memory_);
  if (!memory.refused.empty())
    log_.log(Severity::kWarning, memory.refused + "; to do: " + memory.action);
  if (Status made = make_directories(self.runtime); !made) return made;
  Result<std::unique_ptr<ControlServer>> control = ControlServer::open(
      loop_, facts_.control_path, [this](const std::string& request, const ControlServer::Reply& reply) {
        handle_control_request(*engine_, facts_, request, reply, [reply] { return reply.gone(); });
      },
      {}, [this](const std::string& request) {
        log_.log(Severity::kInfo, "not carried out, since who asked for it had gone before it began: " +
                                      wire::printable(wire::text_bytes(request)));
      });
  if (!control) return control.error();
  control_ = std::move(control.value());
  loop_.on_wake([this] { take_submitted(); });
  // Whose request is under way may wait for it parked: an answer to it must not find nobody.
  loop_.on_step_aside([this] { return unfinished_ > 0 || engine_->figures().copying(); });
  stop_.timer = loop_.make_timer([this] {
    if (stop_requested()) end_clients();
    stop_.timer->arm(kStopLook_ns);
  });
  stop_.timer->arm(kStopLook_ns);
  report_ = std::make_unique<ServiceReport>(loop_, [this] {
    return std::string(engine_->is_primary() ? "primary" : "secondary") + ", " +
           state_name(engine_->volume_state());
  });
  return engine_->start();
}

Result<std::string> Node::take_keys(KeyChoice choice, Result<LinkKeys> read) {
  if (!read) return read.error();
  LinkKeys keys = std::move(read.value());
  if (choice == KeyChoice::kLast) std::reverse(keys.begin(), keys.end());
  facts_.key = keys.front().fingerprint;
  // Who proves the old one beside a renewal, perhaps a thief, does not bring it back.
  network_->set_keys(std::make_shared<const LinkKeys>(std::move(keys)),
                     choice == KeyChoice::kLast ? limits::kKeyRenewal_ns : 0);
  return facts_.key;
}

void Node::open_witness() {
  const WitnessConfig& say = config_.witness;
  if (say.kind == WitnessKind::kEtcd)
    witness_ = std::make_unique<EtcdWitness>(
        loop_, EtcdAccess{say.endpoints, say.user, say.password_file, say.ca_file, say.certificate_file,
                          say.certificate_key_file, say.timeout_ns});
  if (say.kind == WitnessKind::kCommand)
    fence_ = std::make_unique<FenceCommandProcess>(loop_, log_, say.command, say.timeout_ns);
}

Node::~Node() {
  notify_stopping();
  if (thread_.joinable()) {
    auto finished = std::make_shared<std::atomic<bool>>(false);
    auto was_primary = std::make_shared<bool>(false);  // to be read when the loop has ended
    loop_.post([this, finished, was_primary] {
      *was_primary = engine_->is_primary();
      // nbdkit has ended all connections, but reports none that it ended because of the stop.
      stop_.clients_cut_off = stop_.clients_cut_off || clients_ > 0;
      for (; clients_ > 0; --clients_) engine_->clients().closed();
      engine_->shut_down(stop_.clients_cut_off, [this, finished] {
        // The goodbye leaves at the end of this turn.
        loop_.post([finished] { finished->store(true); });
      });
    });
    wait_for(*finished);
    loop_.stop();
    thread_.join();
    if (!finished->load() && !*was_primary)
      log_.log(Severity::kWarning,
               "stopped before it was on record that a flush had ended, as a disk takes too long: that flush counts as "
               "failed, and what it may have lost is copied again when this node is started");
    else if (!finished->load())
      log_.log(Severity::kWarning,
               "stopped before what was written last was stable on both nodes, as a disk takes too long: " +
                   config_.other(name_).name + " can be promoted by --peer-is-dead only, and gives up what it has not got; "
                   "start this node again instead");
  }
  key_reader_.reset();
  control_.reset();
  stop_.timer.reset();
  report_.reset();
  // What the workers and the disks still work on belongs to the engine.
  if (workers_) workers_->shut_down();
  if (data_) data_->shut_down();
  if (metadata_) metadata_->shut_down();
  engine_.reset();
  copies_.reset();
  witness_.reset();
  fence_.reset();
  workers_.reset();
  network_.reset();
  metadata_.reset();
  data_.reset();
}

// For the goodbye, with the service manager's patience as well.
void Node::wait_for(const std::atomic<bool>& finished) const {
  const auto deadline = std::chrono::steady_clock::now() + kShutdownPatience;
  auto look = std::chrono::steady_clock::now();
  while (!finished.load() && std::chrono::steady_clock::now() < deadline) {
    if (std::chrono::steady_clock::now() >= look) {
      notify_stopping_lasts(10 * kShutdownLook);
      look += kShutdownLook;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// Held writes fail, so that nbdkit can end; their clients are not told, since those who wait for the next
// process do them again.
void Node::end_clients() {
  if (++stop_.looks == kStopLooksMax || engine_->clients().any_held()) cut_off_clients();
  engine_->clients().let_go();
  if (!stop_.now && (clients_ == 0 || stop_.looks >= kStopLooksMax)) {
    stop_.now = true;
    stop_now();
  }
}

void Node::take_submitted() {
  ClientRequest* oldest = submitted_.take();
  // The loop is one thread: it does not wait for memory for each of them.
  if (const ContentCache* cache = engine_->worker_view().cache())
    for (const ClientRequest* each = oldest; each != nullptr; each = each->next)
      if (each->op == ClientOp::kWrite) cache->expect(each->offset_bytes, each->length_bytes);
  while (oldest != nullptr) {
    ClientRequest* next = oldest->next;  // the request may be gone when submit() returns
    ++unfinished_;
    engine_->clients().submit(*oldest);
    oldest = next;
  }
}

int Node::run_request(ClientRequest& request) {
  Parking parking;
  request.prepared_ns = loop_.now_ns();
  if (request.received_ns == 0) request.received_ns = request.prepared_ns;
  request.done = [this, &parking](ClientRequest&) {
    --unfinished_;
    parking.unpark();
  };
  const bool first = submitted_.put(request);
  // Whoever pushed onto a list that was not empty is taken along with the first. Who comes alone
  // does the loop's part himself if he can; with others there, the loop's batches are worth more.
  const bool alone = outstanding_.fetch_add(1, std::memory_order_relaxed) == 0;
  if (first && !(alone && loop_.run_for(parking))) loop_.wake();
  parking.park();
  outstanding_.fetch_sub(1, std::memory_order_relaxed);
  return request.error;
}

Status Node::call(const std::function<Status()>& work) {
  Parking parking;
  Status result = ok_status();
  loop_.post([&] {
    result = work();
    parking.unpark();
  });
  parking.park();
  return result;
}

Status Node::open_client(uint64_t term) {
  return call([this, term] {
    if (stop_requested()) return Status(Error{"this node is stopping", "try again soon", ESHUTDOWN});
    Status opened = engine_->clients().opened(term);
    if (opened) ++clients_;
    return opened;
  });
}

void Node::close_client() {
  (void)call([this] {
    engine_->clients().closed();
    --clients_;
    stop_.clients_cut_off = stop_.clients_cut_off || stop_requested();
    return ok_status();
  });
}

void Node::log_client_error(const std::string& line) {
  client_errors_.log(Severity::kError, line, loop_.now_ns());
}

int Node::read_missing(const CachedRead& cached, uint64_t offset_bytes, std::span<std::byte> into) {
  for (const CachedRead::Run& run : cached.missing()) {
    const auto part = into.subspan(run.at_bytes, run.length_bytes);
    if (const int error = data_->read_now(offset_bytes + run.at_bytes, part); error != 0) return error;
  }
  return 0;
}

// What a client's read has brought, if there is time.
void Node::learn(const CachedRead& cached, ContentCache& cache, uint64_t began_ns) {
  const uint64_t now_ns = loop_.now_ns();
  uint64_t read_bytes = 0;
  for (const CachedRead::Run& run : cached.missing()) read_bytes += run.length_bytes;
  cache.effort().disk_took((read_bytes + limits::kBlockBytes - 1) / limits::kBlockBytes, now_ns - began_ns);
  if (cached.worth_keeping(now_ns)) cached.keep();
}

// What the disk has answered is in `error`. Whether the client may be answered with it.
bool Node::read_beside_the_loop(std::span<std::byte> into, uint64_t offset_bytes, InflightFilter::Mark mark,
                                int& error) {
  const WorkerView& view = engine_->worker_view();
  ContentCache* cache = view.cache();
  const bool timed = cache != nullptr && cache->effort().times();
  const bool asked = timed && cache->effort().pays();
  CachedRead cached(asked ? cache : nullptr, view, mark, offset_bytes, into, asked ? loop_.now_ns() : 0);
  const uint64_t began_ns = timed ? loop_.now_ns() : 0;
  error = read_missing(cached, offset_bytes, into);
  const auto may_answer = [&] { return error == 0 && view.unchanged(offset_bytes, into.size(), mark); };
  if (timed && may_answer()) learn(cached, *cache, began_ns);
  // Before this one waits for others, those who wait for it go on.
  cached.end();
  if (!cached.joined() || !may_answer()) return may_answer();
  cached.wait(loop_);
  cached.take_what_came();
  error = read_missing(cached, offset_bytes, into);
  return may_answer();
}

int Node::read(std::span<std::byte> into, uint64_t offset_bytes) {
  WorkerView& view = engine_->worker_view();
  view.count_read(into.size());
  ClientRequest request;
  if (const auto mark = view.mark_local_read(loop_, offset_bytes, into.size())) {
    if (read_beside_the_loop(into, offset_bytes, *mark, request.local_error)) return 0;
    request.local_mark = *mark;
  }
  request.op = ClientOp::kRead;
  request.offset_bytes = offset_bytes;
  request.length_bytes = into.size();
  request.data = into.data();
  return run_request(request);
}

int Node::write(std::span<const std::byte> from, uint64_t offset_bytes, bool fua) {
  ClientRequest request;
  request.received_ns = loop_.now_ns();
  request.op = ClientOp::kWrite;
  request.fua = fua;
  request.offset_bytes = offset_bytes;
  request.length_bytes = from.size();
  request.data = const_cast<std::byte*>(from.data());  // the engine only reads it
  PreparedWrite prepared(*engine_, offset_bytes, from);
  prepared.describe(request);
  return run_request(request);
}

int Node::zero(uint64_t offset_bytes, uint64_t length_bytes, bool may_unmap, bool fast_only,
               bool fua) {
  ClientRequest request;
  request.op = ClientOp::kZero;
  request.fua = fua;
  request.may_unmap = may_unmap;
  request.fast_only = fast_only;
  request.offset_bytes = offset_bytes;
  request.length_bytes = length_bytes;
  return run_request(request);
}

int Node::flush() {
  ClientRequest request;
  request.op = ClientOp::kFlush;
  return run_request(request);
}

bool Node::is_hole(uint64_t offset_bytes, uint64_t length_bytes, uint64_t& extent_bytes) {
  bool hole = false;
  // What a failing disk can't tell is data, as the read that follows may be served by the peer. The
  // peer itself is not asked where its holes are.
  const WorkerView& view = engine_->worker_view();
  const bool known = view.local_reads(loop_) &&
                     data_->extent_now(offset_bytes, length_bytes, hole, extent_bytes) == 0;
  if (!known) {
    extent_bytes = length_bytes;
    return false;
  }
  // A hole that a trim in flight has made may be filled again by a crash of this node.
  // Nor is one of a disk that was given up meanwhile: what was written since is at the peer.
  return hole && view.quiet(offset_bytes, extent_bytes) && view.local_reads(loop_);
}

}  // namespace twinblock
