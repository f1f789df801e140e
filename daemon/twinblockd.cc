// twinblockd: runs one node of a volume. It checks the configuration and what the node needs, then
// becomes nbdkit with the twinblock plugin: same process, in the foreground, so that a service
// manager sees one main process and SIGTERM is an orderly stop.
//
// Exit status before that: 0 fine (--check), 1 can't start, 2 usage, 78 configuration.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/units.h"
#include "config/config.h"
#include "config/link_protection.h"
#include "io/posix/backing_copies.h"
#include "io/posix/congestion.h"
#include "io/posix/direct_io.h"
#include "io/posix/link_key.h"
#include "io/posix/memory.h"
#include "io/posix/tls_session.h"
#include "io/posix/witness_files.h"

namespace twinblock {
namespace {

namespace fs = std::filesystem;

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;
constexpr int kExitConfig = 78;  // EX_CONFIG of sysexits.h
// nbdkit's workers only checksum and wait; 32 keep a deep client queue busy.
constexpr const char* kThreads = "32";
constexpr const char* kPluginFile = "nbdkit-twinblock-plugin.so";
// Beside the plugin, where nbdkit needs it; plugins/twinblock/hangup_guard.cc says what for.
constexpr const char* kGuardFile = "nbdkit-twinblock-guard.so";

struct Options {
  std::string config_path;
  std::string node;
  std::string nbdkit;
  bool check_only = false;
  bool print_json = false;
  std::vector<std::string> nbdkit_args;  // what followed "--"
};

// For programs, such as agents of cluster managers: what the check found, with what it knows so far.
void print_json(nlohmann::json facts, const Error& error) {
  facts["ok"] = error.what.empty();
  facts["error"] = error.what;
  facts["action"] = error.action;
  std::printf("%s\n", facts.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

int complain(const Error& error, int exit_code) {
  std::fprintf(stderr, "twinblockd: %s\n", error.what.c_str());
  if (!error.action.empty()) std::fprintf(stderr, "twinblockd: to do: %s\n", error.action.c_str());
  return exit_code;
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

bool executable(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

Result<std::string> find_nbdkit(const std::string& wanted) {
  const Error missing{"can't find nbdkit" + (wanted.empty() ? "" : " at " + wanted),
                      "install it (Debian: apt install nbdkit), or name it with --nbdkit PATH"};
  if (!wanted.empty()) return executable(wanted) ? Result<std::string>(wanted) : missing;
  const char* path = std::getenv("PATH");
  std::string rest = std::string(path == nullptr ? "" : path) + ":/usr/bin:/usr/sbin:";
  for (size_t colon = rest.find(':'); colon != std::string::npos; colon = rest.find(':')) {
    const std::string candidate = rest.substr(0, colon) + "/nbdkit";
    rest.erase(0, colon + 1);
    if (candidate.front() == '/' && executable(candidate) && candidate != "/nbdkit")
      return candidate;
  }
  return missing;
}

// $TWINBLOCK_PLUGIN, the build tree that this program stands in, nbdkit's own directory.
Result<std::string> find_plugin() {
  if (const char* named = std::getenv("TWINBLOCK_PLUGIN"); named != nullptr && named[0] != '\0') {
    if (access(named, R_OK) == 0) return std::string(named);
    return system_error(errno, std::string("TWINBLOCK_PLUGIN=") + named);
  }
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  const fs::path built = self.parent_path().parent_path() / "plugins" / "twinblock" / kPluginFile;
  if (!error && access(built.c_str(), R_OK) == 0) return built.string();
  const fs::path installed = fs::path(TWINBLOCK_PLUGINDIR) / kPluginFile;
  if (access(installed.c_str(), R_OK) == 0) return installed.string();
  return Error{"can't find " + std::string(kPluginFile) + " beside this program or in " +
                   TWINBLOCK_PLUGINDIR,
               "build or install the plugin, or name it in TWINBLOCK_PLUGIN"};
}

// The unit lets a node write below some directories only; else the file system is as it says.
std::string writable_by_unit(const Config& config, const std::string& path) {
  return "if it is below a directory that the unit may not write, `systemctl edit twinblock@" +
         config.volume + "`: [Service] and ReadWritePaths=" + fs::path(path).parent_path().string() +
         "; else mount its file system to be written";
}

// The data must be there: a file that was created here could hide one that is not mounted yet.
Status check_backing(const Config& config, const NodeConfig& node) {
  const std::string& path = node.backing;
  const std::string truncate =
      "(umask 077; truncate -s " + std::to_string(config.size_bytes) + " " + path + ")";
  const bool known_node = access(node.metadata.c_str(), F_OK) == 0;
  // Devices come and go; a file that was made in their place would be in memory.
  const bool of_a_device = path.starts_with("/dev/") && !path.starts_with("/dev/shm/");
  const std::string create =
      of_a_device ? "attach or activate that device, or correct `backing` of [node." + node.name + "]"
      : known_node ? "this node has metadata (" + node.metadata +
                       "), so there were data: is it mounted? If the disk was replaced, move the "
                       "metadata away, then " +
                       truncate
                 : "create it: " + truncate;
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0)
    return system_error(errno, "backing " + path,
                        errno == ENOENT  ? create
                        : errno == EROFS ? writable_by_unit(config, path)
                                         : "give this user read and write access to it");
  struct stat info {};
  const bool known = fstat(fd, &info) == 0;
  const off_t size = lseek(fd, 0, SEEK_END);
  const bool direct = node.backing_io == BackingIo::kDirect && known &&
                      (S_ISREG(info.st_mode) || S_ISBLK(info.st_mode));
  const Result<uint64_t> blocks = direct ? make_direct(fd, path, S_ISBLK(info.st_mode)) : 0;
  close(fd);
  if (!blocks) return blocks.error();
  if (!known || (!S_ISREG(info.st_mode) && !S_ISBLK(info.st_mode)))
    return Error{"backing " + path + " is neither a file nor a block device", create};
  constexpr mode_t kOthers = S_IROTH | S_IWOTH;
  if (known && (info.st_mode & kOthers) != 0)
    std::fprintf(stderr, "twinblockd: warning: every user of this host can %s the volume's data in "
                 "%s; to do: chmod o= %s\n",
                 (info.st_mode & S_IWOTH) != 0 ? "change" : "read", path.c_str(), path.c_str());
  if (size >= 0 && static_cast<uint64_t>(size) >= config.size_bytes) return ok_status();
  return Error{"backing " + path + " has " + std::to_string(size) + " bytes, the volume has " +
                   std::to_string(config.size_bytes),
               known_node ? "correct size in " + config.path +
                                ", if it was changed since this node "
                                "was initialised (a volume grows by `twinblock grow`); if the backing was cut "
                                "off, restore it, or move the metadata (" +
                                node.metadata + ") away to have it copied anew, then " + truncate
                          : "enlarge it: " + truncate + ", or correct size in " + config.path};
}

// Metadata may be missing (`twinblock init` writes it), its directory may not.
Status check_metadata(const Config& config, const NodeConfig& node) {
  const std::string& path = node.metadata;
  if (access(path.c_str(), R_OK | W_OK) == 0) return ok_status();
  if (errno == EROFS)
    return system_error(errno, "metadata " + path, writable_by_unit(config, path));
  if (errno != ENOENT)
    return system_error(errno, "metadata " + path, "give this user read and write access to it");
  const std::string parent = fs::path(path).parent_path().string();
  if (access(parent.c_str(), W_OK | X_OK) == 0) return ok_status();
  return system_error(errno, "the directory of metadata " + path,
                      errno == EROFS ? writable_by_unit(config, path)
                                     : "create it, writable for this user: mkdir -p " + parent);
}

Status check_node(const Config& config, const NodeConfig& node) {
  const Status backing = check_backing(config, node);
  return backing ? check_metadata(config, node) : backing;
}

Status check_links(const Config& config) {
  if (Status good = links_may_be_used(config); !good) return good;
  if (!config.encrypted()) return ok_status();
  if (Status can = TlsSession::available(); !can) return can;
  const Result<LinkKeys> keys = read_link_keys(config.key);
  return keys ? ok_status() : Status(keys.error());
}

// What is wrong here shows when the witness is asked, which is late.
Status check_witness(const WitnessConfig& witness) {
  Status good = ok_status();
  if (!witness.command.empty()) good = check_fence_command(witness.command);
  if (good && !witness.password_file.empty())
    if (const auto password = read_etcd_password(witness.password_file); !password) good = password.error();
  return good ? check_tls_files(witness.ca_file, witness.certificate_file, witness.certificate_key_file) : good;
}

// The directory that an ordinary user has in /tmp could be another one's, who made it first.
Status check_own_directory(const std::string& path) {
  if (!is_somebody_elses(path)) return ok_status();
  return Error{"the runtime directory " + path + " is not this user's own",
               "remove it, or set another one with runtime in the node's table"};
}

// The process's file is nobody else's by another name: what it says is written over.
Result<int> open_pid_file(const std::string& path, const std::string& directory) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW, 0640);
  if (fd < 0 && errno == ELOOP)
    return Error{path + " is a symbolic link: what it leads to would be written over", "remove it"};
  if (fd < 0) return system_error(errno, path, "give this user write access to " + directory);
  struct stat info {};
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink <= 1) return fd;
  close(fd);
  return Error{path + " is not a plain file with one name", "remove it"};
}

std::string pid_file_path(const Config& config, const NodeConfig& node) {
  return node.runtime + "/" + config.volume + ".pid";
}

// One process a node: the lock on RUNTIME/VOLUME.pid outlives exec and ends with the process,
// however it ends. The descriptor stays open on purpose.
Status lock_node(const Config& config, const NodeConfig& node) {
  std::error_code error;
  fs::create_directories(node.runtime, error);
  if (error)
    return system_error(
        error.value(), "can't create the runtime directory " + node.runtime,
        "create it for this user, or set another with runtime in [node." + node.name + "]");
  const std::string path = pid_file_path(config, node);
  if (Status own = check_own_directory(node.runtime); !own) return own;
  const Result<int> opened = open_pid_file(path, node.runtime);
  if (!opened) return opened.error();
  const int fd = opened.value();
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    char owner[32] = {};
    if (read(fd, owner, sizeof owner - 1) <= 0) owner[0] = '\0';
    const std::string pid = std::string(owner).substr(0, std::string(owner).find('\n'));
    close(fd);
    return Error{"node " + node.name + " of volume " + config.volume +
                     " runs already, as process " + (pid.empty() ? "(unknown)" : pid),
                 "see it with: twinblock status --socket " + control_socket_path(config, node)};
  }
  const std::string pid = std::to_string(getpid()) + "\n";
  if (ftruncate(fd, 0) != 0 || pwrite(fd, pid.data(), pid.size(), 0) < 0)
    return system_error(errno, path);
  return ok_status();
}

// nbdkit refuses a socket path that exists, even where a killed process left it.
Status remove_stale_socket(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return ok_status();
  if (!S_ISSOCK(info.st_mode))
    return Error{path + " is in the way: it is not a socket", "remove it"};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const bool refused = fd >= 0 &&
                       connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 &&
                       errno == ECONNREFUSED;
  if (fd >= 0) close(fd);
  if (!refused)
    return Error{"another process listens on " + path,
                 "stop it, or choose another runtime directory for this node"};
  if (unlink(path.c_str()) != 0) return system_error(errno, path, "remove it");
  return ok_status();
}

// What nbdkit is to load before its own libraries, as LD_PRELOAD wants it.
std::string libraries_to_preload(const std::string& plugin) {
  // A plugin with sanitizers needs their runtime in nbdkit, which was built without.
  const char* wanted = std::getenv("LD_PRELOAD");
  std::string libraries = wanted == nullptr ? TWINBLOCK_PRELOAD : wanted;
  const std::string guard = (fs::absolute(plugin).parent_path() / kGuardFile).string();
  // One that is missing where it is needed is reported by the plugin, which knows of nbdkit.
  if (access(guard.c_str(), R_OK) == 0) libraries += (libraries.empty() ? "" : ":") + guard;
  return libraries;
}

// Replaces this process; returns only the reason why it could not.
Error become_nbdkit(const Options& options, const Config& config, const NodeConfig& node,
                    const std::string& nbdkit, const std::string& plugin) {
  std::vector<std::string> args{nbdkit,   "--foreground", "--threads",
                                kThreads, "--unix",       nbd_socket_path(config, node)};
  // Options and filters belong before the plugin, filters' parameters after it.
  const auto parameter = [](const std::string& arg) {
    return !arg.starts_with('-') && arg.find('=') != std::string::npos;
  };
  for (const std::string& arg : options.nbdkit_args)
    if (!parameter(arg)) args.push_back(arg);
  args.insert(args.end(), {plugin, "config=" + config.path, "node=" + node.name});
  for (const std::string& arg : options.nbdkit_args)
    if (parameter(arg)) args.push_back(arg);
  if (const std::string libraries = libraries_to_preload(plugin); !libraries.empty())
    setenv("LD_PRELOAD", libraries.c_str(), 1);
  std::vector<char*> argv;
  argv.reserve(args.size() + 1);
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  // What is refused the plugin finds out, too, and tells.
  (void)stand_memory_shortage();
  execv(nbdkit.c_str(), argv.data());
  return system_error(errno, "can't start " + nbdkit);
}

nlohmann::json facts_of(const Config& config, const NodeConfig& node) {
  return {{"volume", config.volume},
          {"size_bytes", config.size_bytes},
          {"node", node.name},
          {"peer", config.other(node.name).name},
          {"control", control_socket_path(config, node)},
          {"pid_file", pid_file_path(config, node)},
          {"on_restart", config.on_restart == OnRestart::kResume ? "resume" : "secondary"},
          {"peer_timeout_s", static_cast<double>(config.peer_timeout_ns) / kSecond_ns},
          {"witness", witness_kind_name(config.witness.kind)}};
}

Status check_usable(const Config& config, const NodeConfig& node) {
  Status usable = check_node(config, node);
  if (usable) usable = check_links(config);
  if (usable) usable = check_congestion(config.congestion);
  if (usable) usable = check_witness(config.witness);
  if (usable) usable = check_copies(config.copies, node.backing);
  return usable;
}

// What would keep a node from starting is said here already.
int check(const Options& options, const Config& config) {
  const Result<std::string> name = choose_node(config, options.node, host_name());
  if (!name && options.print_json) print_json({}, name.error());
  if (!name) return complain(name.error(), kExitUsage);
  // A node that runs tells these itself.
  for (const std::string& warning : config.warnings) std::fprintf(stderr, "twinblockd: warning: %s\n", warning.c_str());
  const NodeConfig& node = config.node(name.value());
  const Status usable = check_usable(config, node);
  if (options.print_json) print_json(facts_of(config, node), usable ? Error{} : usable.error());
  if (!usable) return complain(usable.error(), kExitFailure);
  if (options.print_json) return 0;
  std::printf("%s: fine; volume %s, %s, nodes %s and %s, checked the paths of %s\n",
              config.path.c_str(), config.volume.c_str(), format_size(config.size_bytes).c_str(),
              config.nodes[0].name.c_str(), config.nodes[1].name.c_str(), name.value().c_str());
  return 0;
}

int run(const Options& options) {
  std::error_code ignored;
  const fs::path absolute = fs::absolute(options.config_path, ignored);
  const Result<Config> config =
      load_config(absolute.empty() ? options.config_path : absolute.string());
  if (!config && options.print_json) print_json({}, config.error());
  if (!config) return complain(config.error(), kExitConfig);
  if (options.check_only) return check(options, config.value());
  const Result<std::string> name = choose_node(config.value(), options.node, host_name());
  if (!name) return complain(name.error(), kExitUsage);
  const NodeConfig& node = config.value().node(name.value());
  const Result<std::string> nbdkit = find_nbdkit(options.nbdkit);
  if (!nbdkit) return complain(nbdkit.error(), kExitFailure);
  const Result<std::string> plugin = find_plugin();
  if (!plugin) return complain(plugin.error(), kExitFailure);
  Status ready = check_node(config.value(), node);
  if (ready) ready = check_links(config.value());
  if (ready) ready = lock_node(config.value(), node);
  if (ready) ready = remove_stale_socket(nbd_socket_path(config.value(), node));
  if (!ready) return complain(ready.error(), kExitFailure);
  // A node serves without: only going on alone needs it, and the operator is told there, too.
  if (const Status witness = check_witness(config.value().witness); !witness)
    std::fprintf(stderr, "twinblockd: warning: %s; to do: %s\n", witness.error().what.c_str(),
                 witness.error().action.c_str());
  return complain(become_nbdkit(options, config.value(), node, nbdkit.value(), plugin.value()),
                  kExitFailure);
}

}  // namespace
}  // namespace twinblock

int main(int argc, char** argv) {
  twinblock::Options options;
  std::vector<std::string> own(argv + 1, argv + argc);
  if (const auto dashes = std::find(own.begin(), own.end(), "--"); dashes != own.end()) {
    options.nbdkit_args.assign(dashes + 1, own.end());
    own.erase(dashes, own.end());
  }
  CLI::App app{
      "Runs one node of a twinblock volume in the foreground, as nbdkit with its plugin.\n"
      "What follows -- goes to nbdkit.\n"
      "Example: twinblockd /etc/twinblock/r0.toml --node alpha",
      "twinblockd"};
  app.add_option("CONFIG", options.config_path, "the volume's file")->required();
  app.add_option("--node", options.node, "which node to run; the host's name says it otherwise");
  CLI::Option* check = app.add_flag("--check", options.check_only,
                                    "check the file, and what the node needs of this host; start nothing");
  app.add_flag("--json", options.print_json, "with --check: print JSON, with what the file says of this node")
      ->needs(check);
  app.add_option("--nbdkit", options.nbdkit, "the nbdkit program; found in PATH otherwise");
  app.set_version_flag("--version", std::string("twinblockd ") + TWINBLOCK_VERSION);
  std::reverse(own.begin(), own.end());
  try {
    app.parse(own);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : twinblock::kExitUsage;
  }
  return twinblock::run(options);
}
