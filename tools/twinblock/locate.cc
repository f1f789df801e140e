#include "twinblock/locate.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>

#include "config/config.h"
#include "twinblock/exit_status.h"

namespace twinblock {
namespace {

namespace fs = std::filesystem;

constexpr const char* kControlSuffix = ".ctl";

Result<std::string> socket_of_config(const NodeOptions& options, const std::string& path) {
  const Result<Config> config = load_config(path);
  if (!config) return wrong_usage(config.error().what, config.error().action);
  if (!options.volume.empty() && options.volume != config.value().volume)
    return wrong_usage(path + " describes volume '" + config.value().volume + "', not '" +
                       options.volume + "'");
  char host[HOST_NAME_MAX + 1] = {};
  if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  const Result<std::string> node = choose_node(config.value(), options.node, host);
  if (!node) return wrong_usage(node.error().what, node.error().action);
  return control_socket_path(config.value(), config.value().node(node.value()));
}

// Of those that may be there the first one; else, where it would be.
std::string find_in(const std::vector<std::string>& runtime_dirs, const std::string& name) {
  for (const std::string& dir : runtime_dirs)
    // One in a directory that this user may not look into is the right one all the same.
    if (access((dir + name).c_str(), F_OK) == 0 || errno == EACCES) return dir + name;
  return runtime_dirs.front() + name;
}

// Where a file does not say where the sockets are, that depends on the user; the node may be root's.
std::string of_any_user(const std::string& socket, const std::vector<std::string>& runtime_dirs) {
  const fs::path path(socket);
  return path.parent_path() == runtime_dirs.front() || path.parent_path() == default_runtime_dir()
             ? find_in(runtime_dirs, "/" + path.filename().string())
             : socket;
}

std::set<std::string> control_sockets(const std::vector<std::string>& runtime_dirs) {
  std::set<std::string> found;
  for (const std::string& dir : runtime_dirs) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(dir, error))
      if (entry.path().extension() == kControlSuffix) found.insert(entry.path().string());
  }
  return found;
}

std::vector<std::string> usual_runtime_dirs() {
  std::vector<std::string> dirs;
  if (const std::string own = default_runtime_dir(); !is_somebody_elses(own)) dirs.push_back(own);
  // An ordinary user may well ask about the system's nodes.
  if (dirs.empty() || dirs.front() != "/run/twinblock") dirs.emplace_back("/run/twinblock");
  return dirs;
}

Result<std::string> only_socket(const std::vector<std::string>& runtime_dirs) {
  const std::set<std::string> found = control_sockets(runtime_dirs);
  if (found.size() == 1) return *found.begin();
  if (found.empty())
    return unreachable("no node runs here: there is no control socket in " + runtime_dirs.front(),
                       "start one with: twinblockd CONFIG, or say which with --socket or --config");
  std::string names;
  for (const std::string& path : found)
    names += (names.empty() ? "" : ", ") + fs::path(path).stem().string();
  return wrong_usage("several volumes have nodes here: " + names,
                     "name one: twinblock VERB VOLUME");
}

}  // namespace

Result<std::string> locate_control_socket(const NodeOptions& options, const std::string& config_dir,
                                          const std::vector<std::string>& runtime_dirs) {
  if (!options.socket.empty()) {
    if (!options.config.empty() || !options.node.empty())
      return wrong_usage("--socket says all; --config and --node can't go with it");
    return options.socket;
  }
  if (!options.config.empty()) return socket_of_config(options, options.config);
  if (options.volume.empty()) {
    if (!options.node.empty())
      return wrong_usage("--node needs a configuration to look it up in",
                         "add --config FILE or the volume's name");
    return only_socket(runtime_dirs);
  }
  const std::string config = config_dir + "/" + options.volume + ".toml";
  if (access(config.c_str(), R_OK) == 0) {
    Result<std::string> socket = socket_of_config(options, config);
    return socket ? of_any_user(socket.value(), runtime_dirs) : socket;
  }
  if (!options.node.empty())
    return wrong_usage("--node needs a configuration, and " + config + " can't be read",
                       "add --config FILE");
  return find_in(runtime_dirs, "/" + options.volume + kControlSuffix);
}

Result<std::string> locate_control_socket(const NodeOptions& options) {
  return locate_control_socket(options, kConfigDirectory, usual_runtime_dirs());
}

std::vector<std::string> all_control_sockets(const NodeOptions& options) {
  if (!options.volume.empty() || !options.config.empty() || !options.node.empty() || !options.socket.empty())
    return {};
  const std::set<std::string> found = control_sockets(usual_runtime_dirs());
  return {found.begin(), found.end()};
}

std::vector<std::string> expected_control_sockets(const std::string& config_dir,
                                                  const std::vector<std::string>& runtime_dirs) {
  std::set<std::string> all = control_sockets(runtime_dirs);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(config_dir, error)) {
    if (entry.path().extension() != ".toml" || access(entry.path().c_str(), R_OK) != 0) continue;
    const Result<std::string> socket =
        locate_control_socket({.volume = entry.path().stem(), .config = "", .node = "", .socket = ""}, config_dir, runtime_dirs);
    if (socket) all.insert(socket.value());
  }
  return {all.begin(), all.end()};
}

std::vector<std::string> expected_control_sockets() {
  return expected_control_sockets(kConfigDirectory, usual_runtime_dirs());
}

Result<std::string> locate_config(const NodeOptions& options) {
  if (!options.config.empty()) return fs::absolute(options.config).lexically_normal().string();
  if (options.volume.empty())
    return wrong_usage("which volume? None was named", "name it, or its file with --config FILE");
  return std::string(kConfigDirectory) + "/" + options.volume + ".toml";
}

std::string node_file_stem(const std::string& control_socket) {
  // The kernel reports paths without symbolic links, and what it reports is compared with ours.
  std::error_code error;
  fs::path path = fs::weakly_canonical(fs::absolute(control_socket), error);
  if (error) path = fs::absolute(control_socket).lexically_normal();
  if (path.extension() == kControlSuffix) path.replace_extension();
  return path.string();
}

}  // namespace twinblock
