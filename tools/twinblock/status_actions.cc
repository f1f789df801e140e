// The verb that says how nodes are: one, or all that are on this host.
#include <algorithm>
#include <filesystem>

#include "twinblock/actions.h"
#include "twinblock/control_client.h"
#include "twinblock/device_text.h"
#include "twinblock/exit_status.h"
#include "twinblock/json_fields.h"
#include "twinblock/status_text.h"
#include "twinblock/watch.h"

namespace twinblock {
namespace {

using nlohmann::json;

// A device that is attached here is told of with its node, and also where that does not answer.
Result<json> status_with_device(const std::string& socket) {
  const Result<json> status = ask_status(socket);
  const json device =
      attached_device(HostPaths{}, status ? status.value() : json(), node_file_stem(socket));
  if (!status) {
    Error error = status.error();
    if (device.is_object()) error.what += "; the device " + device_text(device);
    return error;
  }
  json told = status.value();
  told["device"] = device;
  return told;
}

}  // namespace

Result<json> ask_status(const std::string& socket) {
  return control_request(socket, "status", json::object(), kAskTimeout_ns);
}

Output ask_all(const std::vector<std::string>& sockets,
               const std::function<Result<json>(const std::string& socket)>& ask) {
  Output output{json{{"volumes", json::array()}}, ""};
  for (const std::string& socket : sockets) {
    const Result<json> told = ask(socket);
    output.data["volumes"].push_back(told ? told.value()
                                          : json{{"volume", std::filesystem::path(socket).stem().string()},
                                                 {"error", told.error().what},
                                                 {"action", told.error().action}});
    if (told) continue;
    // A node that refuses has answered.
    const int code = told.error().code == kExitRefused ? kExitRefused : kExitUnreachable;
    output.exit_status = std::max(output.exit_status, code);
  }
  return output;
}

Result<Output> run_status(const Options& options, const std::string& socket) {
  if (options.watch.on) return watch(options, [&] { return status_with_device(socket); }, status_text);
  const Result<json> status = status_with_device(socket);
  if (!status) return status.error();
  return Output{status.value(), status_text(status.value())};
}

Result<Output> run_status_of_all(const Options& options, const std::vector<std::string>& sockets) {
  if (options.watch.on) {
    // Nodes come and go meanwhile.
    const auto ask = [&]() -> Result<json> {
      return ask_all(all_control_sockets(options.node), status_with_device).data;
    };
    return watch(options, ask, status_list);
  }
  Output output = ask_all(sockets, status_with_device);
  output.text = status_list(output.data);
  return output;
}

}  // namespace twinblock
