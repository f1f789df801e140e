// Which node this host is, and where its sockets live.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "config/config.h"

namespace twinblock {

Result<std::string> choose_node(const Config& config, const std::string& wanted,
                                const std::string& host_name) {
  const std::string names = config.nodes.at(0).name + " and " + config.nodes.at(1).name;
  if (!wanted.empty()) {
    if (config.has_node(wanted)) return wanted;
    return Error{config.path + ": there is no node '" + wanted + "'", "its nodes are " + names};
  }
  if (config.has_node(host_name)) return host_name;
  const std::string short_name = host_name.substr(0, host_name.find('.'));
  if (config.has_node(short_name)) return short_name;
  return Error{config.path + ": no node is called like this host, '" + host_name + "'",
               "say which one to use with --node; the nodes are " + names};
}

std::string default_runtime_dir() {
  if (geteuid() == 0) return "/run/twinblock";
  const char* xdg = std::getenv("XDG_RUNTIME_DIR");
  if (xdg != nullptr && xdg[0] == '/') return std::string(xdg) + "/twinblock";
  return "/tmp/twinblock-" + std::to_string(geteuid());
}

bool is_somebody_elses(const std::string& path) {
  struct stat info {};
  if (!path.starts_with("/tmp/") || lstat(path.c_str(), &info) != 0) return false;
  if (!S_ISDIR(info.st_mode)) return true;
  return geteuid() != 0 && (info.st_uid != geteuid() || (info.st_mode & S_IWOTH) != 0);
}

std::string control_socket_path(const Config& config, const NodeConfig& node) {
  return node.runtime + "/" + config.volume + ".ctl";
}

std::string nbd_socket_path(const Config& config, const NodeConfig& node) {
  return node.runtime + "/" + config.volume + ".nbd";
}

}  // namespace twinblock
