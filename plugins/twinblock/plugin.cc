// nbdkit's view of a volume: options, the export's properties, and each request as a blocking call
// into the node. Callbacks run on nbdkit's worker threads, in parallel.
#include <unistd.h>

#include <dlfcn.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "base/limits.h"
#include "hint.h"
#include "io/posix/files.h"
#include "io/posix/hang_up.h"
#include "io/posix/stderr_log.h"
#include "io/posix/thread.h"
#include "io/posix/users_group.h"
#include "node.h"
#include "wire/codec.h"
#include "wire/frame_format.h"

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

namespace {

using twinblock::Error;

// nbdkit loads one plugin a process, and so there is one volume and node.
struct {
  std::string config_path;
  std::string node_name;
  std::unique_ptr<twinblock::Config> config;
  std::unique_ptr<twinblock::Node> node;
} g;

int start_error(const Error& error) {
  nbdkit_error("%s", in_words(error).c_str());
  return -1;
}

// Logged by the node: nbdkit_error() writes on this thread, which stands still where nobody reads stderr.
int request_error(int error, const char* what, uint64_t offset, uint64_t length) {
  // An expected answer to a question, not a fault.
  if (error != EOPNOTSUPP)
    g.node->log_client_error(std::string(what) + " of " + std::to_string(length) + " bytes at offset " +
                             std::to_string(offset) + ": " + std::strerror(error));
  nbdkit_set_error(error);
  return -1;
}

int on_config(const char* key, const char* value) {
  if (std::strcmp(key, "config") == 0) {
    char* path = nbdkit_absolute_path(value);
    if (path == nullptr) return -1;
    g.config_path = path;
    std::free(path);
    return 0;
  }
  if (std::strcmp(key, "node") == 0) {
    g.node_name = value;
    return 0;
  }
  nbdkit_error("unknown parameter '%s'; known are config=FILE and node=NAME", key);
  return -1;
}

int on_config_complete() {
  if (g.config_path.empty()) {
    nbdkit_error("config=FILE is missing");
    return -1;
  }
  auto config = twinblock::load_config(g.config_path);
  if (!config) return start_error(config.error());
  auto name = twinblock::choose_node(config.value(), g.node_name, twinblock::host_name());
  if (!name) return start_error(name.error());
  g.node_name = name.value();
  g.config = std::make_unique<twinblock::Config>(std::move(config.value()));
  return 0;
}

// hangup_guard.cc says what the guard is. It comes with a build for an nbdkit that needs it.
void warn_without_guard() {
  const bool needed = NBDKIT_VERSION_MAJOR == 1 && NBDKIT_VERSION_MINOR < 34;
  if (!needed || dlsym(RTLD_DEFAULT, "twinblock_hangup_guard") != nullptr) return;
  twinblock::StderrLog(g.config->volume + "/" + g.node_name)
      .log(twinblock::Severity::kWarning,
           "nbdkit before 1.34 may crash when a client dies, and nbdkit-twinblock-guard.so, which "
           "prevents that, is not loaded; start this node with twinblockd, or name the file in "
           "LD_PRELOAD");
}

int start_node() {
  warn_without_guard();
  const std::string socket = twinblock::nbd_socket_path(*g.config, g.config->node(g.node_name));
  // nbdkit has made it for everybody to see; who may connect is the group's matter.
  if (const twinblock::Status own = twinblock::open_to_users_group(socket); !own)
    return start_error(own.error());
  auto node = twinblock::Node::start(*g.config, g.node_name);
  if (!node) return start_error(node.error());
  g.node = std::move(node.value());
  twinblock::hang_up_on_stop(socket);
  return 0;
}

// Threads do not survive nbdkit's fork, so everything starts after it.
int on_after_fork() {
  twinblock::outlive_parent();
  twinblock::take_size_limit_as_error();
  try {
    return start_node();
  } catch (const std::system_error& error) {
    return start_error(twinblock::system_error(error.code().value(), "not all threads of this node can be started",
                                               "see the limits of tasks of this host"));
  }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// With a sanitizer's runtime the destructors of the libraries behind libcurl hang at the end of the process;
// what a sanitizer has to say it has said by then.
void on_cleanup() {
  g.node.reset();
  if (kSanitized) _exit(EXIT_SUCCESS);
}

void on_dump_plugin() {
  std::printf("twinblock_version=%s\n", TWINBLOCK_VERSION);
  std::printf("twinblock_protocol=%d\n", twinblock::wire::kProtocolVersion);
}

// Which promotion a client asks for: "", "VOLUME" (0: any), or "VOLUME@TERM". A client that asks for another
// volume must not write to this one.
std::optional<uint64_t> asked_term() {
  const char* name = nbdkit_export_name();
  if (name == nullptr) return std::nullopt;  // nbdkit has said why
  const std::string_view asked(name);
  const std::string& volume = g.config->volume;
  if (asked.empty() || asked == volume) return 0;
  if (asked.starts_with(volume + "@")) {
    const std::string_view digits = asked.substr(volume.size() + 1);
    uint64_t term = 0;
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), term);
    if (error == std::errc() && end == digits.end() && term != 0) return term;
  }
  g.node->log_client_error("there is no export '" + twinblock::wire::printable(twinblock::wire::text_bytes(name)) +
                           "' here: this is volume '" + volume + "'; ask for that, for " + volume +
                           "@TERM, or for none");
  return std::nullopt;
}

void* on_open(int) {
  const std::optional<uint64_t> term = asked_term();
  if (!term) return nullptr;
  // The connection's thread, which starts its workers after this.
  twinblock::run_in_batches();
  const twinblock::Status opened = g.node->open_client(*term);
  if (!opened) {
    g.node->log_client_error(in_words(opened.error()));
    return nullptr;
  }
  return &g;
}

void on_close(void*) { g.node->close_client(); }

int64_t on_get_size(void*) { return static_cast<int64_t>(g.node->size_bytes()); }
int on_yes(void*) { return 1; }
int on_no(void*) { return 0; }
int on_can_fua(void*) { return NBDKIT_FUA_NATIVE; }
// Not emulated: nbdkit would have all such requests read into one place at once, and what a read leaves there is what
// the cache of contents learns.
int on_can_cache(void*) { return NBDKIT_CACHE_NATIVE; }
// Always offered, and refused (EOPNOTSUPP) where either disk would have to write: whether it would can
// change while a client stays, and nbdkit ends with the client that asks for it without an offer.
int on_can_fast_zero(void*) { return 1; }

int on_block_size(void*, uint32_t* minimum, uint32_t* preferred, uint32_t* maximum) {
  *minimum = 1;
  *preferred = twinblock::limits::kBlockBytes;
  *maximum = twinblock::limits::kClientRequestBytesMax;
  return 0;
}

const char* on_export_description(void*) { return g.config->volume.c_str(); }

int on_pread(void*, void* buffer, uint32_t count, uint64_t offset, uint32_t) {
  const int error = g.node->read({static_cast<std::byte*>(buffer), count}, offset);
  return error == 0 ? 0 : request_error(error, "read", offset, count);
}

int on_pwrite(void*, const void* buffer, uint32_t count, uint64_t offset, uint32_t flags) {
  const int error = g.node->write({static_cast<const std::byte*>(buffer), count}, offset,
                                  (flags & NBDKIT_FLAG_FUA) != 0);
  return error == 0 ? 0 : request_error(error, "write", offset, count);
}

int on_cache(void*, uint32_t count, uint64_t offset, uint32_t) {
  const int error = twinblock::read_hint(
      offset, count, twinblock::stop_requested,
      [](std::span<std::byte> into, uint64_t offset_bytes) { return g.node->read(into, offset_bytes); });
  return error == 0 ? 0 : request_error(error, "cache", offset, count);
}

int on_flush(void*, uint32_t) {
  const int error = g.node->flush();
  return error == 0 ? 0 : request_error(error, "flush", 0, 0);
}

int on_zero(void*, uint32_t count, uint64_t offset, uint32_t flags) {
  const int error =
      g.node->zero(offset, count, (flags & NBDKIT_FLAG_MAY_TRIM) != 0,
                   (flags & NBDKIT_FLAG_FAST_ZERO) != 0, (flags & NBDKIT_FLAG_FUA) != 0);
  return error == 0 ? 0 : request_error(error, "zero", offset, count);
}

// A trimmed range reads as zeroes on both nodes: anything else would let the replicas differ.
int on_trim(void*, uint32_t count, uint64_t offset, uint32_t flags) {
  const int error = g.node->zero(offset, count, true, false, (flags & NBDKIT_FLAG_FUA) != 0);
  return error == 0 ? 0 : request_error(error, "trim", offset, count);
}

int on_extents(void*, uint32_t count, uint64_t offset, uint32_t flags,
               struct nbdkit_extents* extents) {
  const uint64_t end = offset + count;
  while (offset < end) {
    uint64_t length = 0;
    const bool hole = g.node->is_hole(offset, end - offset, length);
    const uint32_t type = hole ? NBDKIT_EXTENT_HOLE | NBDKIT_EXTENT_ZERO : 0;
    if (nbdkit_add_extent(extents, offset, length, type) == -1) return -1;
    if ((flags & NBDKIT_FLAG_REQ_ONE) != 0) break;
    offset += length;
  }
  return 0;
}

constexpr char kConfigHelp[] =
    "config=FILE   (required) The volume's configuration file.\n"
    "node=NAME     The node to run; otherwise the one named like the host.\n"
    "Normally started by twinblockd FILE, which passes both.";

struct nbdkit_plugin describe() {
  struct nbdkit_plugin plugin = {};
  plugin.name = "twinblock";
  plugin.version = TWINBLOCK_VERSION;
  plugin.longname = "twinblock synchronous block mirror";
  plugin.description = "Serves one node of a volume that is mirrored on two hosts.";
  plugin.magic_config_key = "config";
  plugin.config = on_config;
  plugin.config_complete = on_config_complete;
  plugin.config_help = kConfigHelp;
  plugin.dump_plugin = on_dump_plugin;
  plugin.after_fork = on_after_fork;
  plugin.cleanup = on_cleanup;
  plugin.open = on_open;
  plugin.close = on_close;
  plugin.get_size = on_get_size;
  plugin.export_description = on_export_description;
  plugin.block_size = on_block_size;
  plugin.can_write = on_yes;
  plugin.can_flush = on_yes;
  plugin.can_trim = on_yes;
  plugin.can_zero = on_yes;
  plugin.can_fast_zero = on_can_fast_zero;
  plugin.can_extents = on_yes;
  plugin.can_fua = on_can_fua;
  plugin.can_multi_conn = on_yes;
  plugin.can_cache = on_can_cache;
  plugin.is_rotational = on_no;
  plugin.pread = on_pread;
  plugin.pwrite = on_pwrite;
  plugin.cache = on_cache;
  plugin.flush = on_flush;
  plugin.trim = on_trim;
  plugin.zero = on_zero;
  plugin.extents = on_extents;
  plugin.errno_is_preserved = 0;
  return plugin;
}

struct nbdkit_plugin plugin = describe();

}  // namespace

NBDKIT_REGISTER_PLUGIN(plugin)
