// Which node a command is for: from a socket, a configuration, a volume's name, or, where nothing
// is said, the only one on this host.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace twinblock {

// Where the files of a host's volumes are, each by its volume's name.
constexpr const char* kConfigDirectory = "/etc/twinblock";

// The options that all verbs share; empty where not given.
struct NodeOptions {
  std::string volume;
  std::string config;
  std::string node;
  std::string socket;
};

// The path of the control socket; it need not exist. `runtime_dirs` are searched in turn for a
// volume without a configuration in `config_dir`. Errors carry kExitUsage (contradicting or missing
// options, wrong configuration) or kExitUnreachable (no socket there).
Result<std::string> locate_control_socket(const NodeOptions& options, const std::string& config_dir,
                                          const std::vector<std::string>& runtime_dirs);

// As above, with /etc/twinblock, the caller's runtime directory and /run/twinblock.
Result<std::string> locate_control_socket(const NodeOptions& options);

// The control sockets on this host, where the options name none; else nothing.
std::vector<std::string> all_control_sockets(const NodeOptions& options);

// The control sockets on this host, and those that are to be there: of each file in `config_dir` (/etc/twinblock) that
// has a node of this host.
std::vector<std::string> expected_control_sockets(const std::string& config_dir,
                                                  const std::vector<std::string>& runtime_dirs);
std::vector<std::string> expected_control_sockets();

// The file that the options name: --config, or that of the volume. It need not exist. An error carries
// kExitUsage: neither was given.
Result<std::string> locate_config(const NodeOptions& options);

// "RUNTIME/VOLUME" of "RUNTIME/VOLUME.ctl": what the node's other files begin with.
std::string node_file_stem(const std::string& control_socket);

}  // namespace twinblock
